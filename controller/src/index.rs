//! The state of the clusters as proxies need it: objects in, views out. No client, no async, no clock.
//!
//! ```text
//! Change ──apply──▶ Index ──resolve──▶ Target       what an address or a name is
//!             │            ──view─────▶ View         endpoints and policy of one port of a service
//!             ▼            ──place────▶ Place        where a proxy stands
//!         Interest(s)      ──findings─▶ Finding      what is told to the authors of objects
//! ```
//!
//! [`Index::apply`] says what a change may have touched; whoever watches that asks again. Nothing is computed before it is asked
//! for, so that a change costs as much as it has readers.

mod endpoints;
pub mod finding;
pub mod key;
pub mod object;
pub mod place;
pub mod policies;
pub mod resolve;
pub mod status;
pub mod view;

#[cfg(test)]
mod tests;

use key::{Cluster, Key};
use object::{LocalityPolicy, Namespace, Node, Pod, Reach, Service, Slice};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// An object as it is now; `None` when it is gone.
#[derive(Clone, Debug)]
pub enum Change {
    /// A Service.
    Service(Key, Option<Service>),
    /// An EndpointSlice.
    Slice(Key, Option<Slice>),
    /// A Node, by name.
    Node(Arc<str>, Option<Node>),
    /// A Namespace, by name.
    Namespace(Arc<str>, Option<Namespace>),
    /// A LocalityPolicy.
    Policy(Key, Option<LocalityPolicy>),
    /// A pod that calls.
    Pod(Key, Option<Pod>),
    /// A ServiceExport: the Service of that name is offered to the other clusters.
    Export(Key, bool),
    /// A ServiceImport: what other clusters export, as a Service that may have no counterpart here.
    Import(Key, Option<Service>),
}

/// What a change may touch, and what a proxy's stream waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interest {
    /// What a service is.
    Service(Key),
    /// Which service has an address.
    Address(IpAddr),
    /// Where a node stands.
    Node(Arc<str>),
    /// What a pod's annotations say.
    Pod(Key),
    /// What a namespace's annotations say.
    Namespace(Arc<str>),
    /// Which policies there are, and for what.
    Policies,
    /// How many proxies of each zone call a service; no object says that.
    Callers(key::ServiceId),
}

/// A kind of object that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds' own names")]
pub enum Kept {
    Service,
    Slice,
    Node,
    Namespace,
    Policy,
    Pod,
    Export,
    Import,
}

/// What changed.
pub type Dirty = BTreeSet<Interest>;

/// Fixed facts about this cluster.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of the controller: a LocalityPolicy without targets there is the mesh's default.
    pub namespace: Arc<str>,
    /// The domain of the cluster's names: `cluster.local`.
    pub domain: Arc<str>,
}

/// The state of all clusters.
#[derive(Debug)]
pub struct Index {
    settings: Settings,
    home: Objects,
    remotes: BTreeMap<Arc<str>, Objects>,
    namespaces: HashMap<Arc<str>, Namespace>,
    policies: BTreeMap<Key, LocalityPolicy>,
    pods: HashMap<Key, Pod>,
    imports: HashMap<Key, Service>,
    addresses: HashMap<IpAddr, Key>,
}

/// The objects of one cluster.
#[derive(Debug, Default)]
struct Objects {
    services: HashMap<Key, Service>,
    slices: HashMap<Key, Slice>,
    /// The slices of each service.
    slices_of: HashMap<Key, BTreeSet<Key>>,
    nodes: HashMap<Arc<str>, Node>,
    exports: HashSet<Key>,
}

impl Index {
    /// An index that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            home: Objects::default(),
            remotes: BTreeMap::new(),
            namespaces: HashMap::new(),
            policies: BTreeMap::new(),
            pods: HashMap::new(),
            imports: HashMap::new(),
            addresses: HashMap::new(),
        }
    }

    /// Takes in one object. A change that changes nothing touches nothing.
    pub fn apply(&mut self, cluster: &Cluster, change: Change) -> Dirty {
        let mut dirty = Dirty::new();
        match change {
            Change::Service(key, service) => self.apply_service(cluster, key, service, &mut dirty),
            Change::Slice(key, slice) => {
                self.objects(cluster).apply_slice(&key, slice, &mut dirty);
            }
            Change::Node(name, node) => self.apply_node(cluster, &name, node, &mut dirty),
            Change::Namespace(name, namespace) => {
                if put(&mut self.namespaces, &name, namespace) {
                    dirty.extend(self.services_in(Some(&name)));
                    dirty.insert(Interest::Namespace(name));
                }
            }
            Change::Policy(key, policy) => self.apply_policy(key, policy, &mut dirty),
            Change::Pod(key, pod) => {
                if put(&mut self.pods, &key, pod) {
                    dirty.insert(Interest::Pod(key));
                }
            }
            Change::Import(key, import) => {
                let old = self.imports.get(&key).cloned();
                if put(&mut self.imports, &key, import.clone()) {
                    self.move_addresses(&key, old.as_ref(), import.as_ref(), &mut dirty);
                    dirty.extend([Interest::Policies, Interest::Service(key)]);
                }
            }
            Change::Export(key, exported) => {
                let exports = &mut self.objects(cluster).exports;
                let changed =
                    if exported { exports.insert(key.clone()) } else { exports.remove(&key) };
                if changed {
                    dirty.insert(Interest::Service(key));
                }
            }
        }
        dirty
    }

    /// Forgets a remote cluster: its Secret is gone. (A cluster that cannot be reached is not forgotten.)
    pub fn forget(&mut self, cluster: &str) -> Dirty {
        let gone = self.remotes.remove(cluster).unwrap_or_default();
        gone.exports.into_iter().map(Interest::Service).collect()
    }

    /// The keys of all objects of one kind: what a new list is compared with.
    pub fn kept(&self, cluster: &Cluster, kind: Kept) -> HashSet<Key> {
        let none = Objects::default();
        let objects = match cluster {
            Cluster::Home => &self.home,
            Cluster::Remote(name) => self.remotes.get(name).unwrap_or(&none),
        };
        let unspaced = |name: &Arc<str>| Key::new("", name);
        match kind {
            Kept::Service => objects.services.keys().cloned().collect(),
            Kept::Slice => objects.slices.keys().cloned().collect(),
            Kept::Node => objects.nodes.keys().map(unspaced).collect(),
            Kept::Namespace => self.namespaces.keys().map(unspaced).collect(),
            Kept::Policy => self.policies.keys().cloned().collect(),
            Kept::Pod => self.pods.keys().cloned().collect(),
            Kept::Export => objects.exports.clone(),
            Kept::Import => self.imports.keys().cloned().collect(),
        }
    }

    /// The ids of all services with all their ports, in order.
    pub fn service_ids(&self) -> Vec<key::ServiceId> {
        let imports = self.imports.iter().filter(|(key, _)| !self.home.services.contains_key(key));
        let services = self.home.services.iter().chain(imports);
        let mut ids: Vec<key::ServiceId> = services
            .filter(|(_, service)| service.reach != Reach::ExternalName)
            .flat_map(|(key, service)| {
                service
                    .ports
                    .iter()
                    .map(|port| key::ServiceId { service: key.clone(), port: port.number })
            })
            .collect();
        ids.sort();
        ids
    }

    /// A Service of this cluster, or one that is only imported.
    fn service(&self, key: &Key) -> Option<&Service> {
        self.home.services.get(key).or_else(|| self.imports.get(key))
    }

    fn objects(&mut self, cluster: &Cluster) -> &mut Objects {
        match cluster {
            Cluster::Home => &mut self.home,
            Cluster::Remote(name) => self.remotes.entry(Arc::clone(name)).or_default(),
        }
    }

    fn apply_service(
        &mut self,
        cluster: &Cluster,
        key: Key,
        service: Option<Service>,
        dirty: &mut Dirty,
    ) {
        let old = self.objects(cluster).services.get(&key).cloned();
        if old == service {
            return;
        }
        if *cluster == Cluster::Home {
            self.move_addresses(&key, old.as_ref(), service.as_ref(), dirty);
            dirty.insert(Interest::Policies);
        }
        put(&mut self.objects(cluster).services, &key, service);
        dirty.insert(Interest::Service(key));
    }

    fn move_addresses(
        &mut self,
        key: &Key,
        before: Option<&Service>,
        after: Option<&Service>,
        dirty: &mut Dirty,
    ) {
        let (before, after) = (cluster_ips(before), cluster_ips(after));
        dirty.extend(before.iter().chain(&after).copied().map(Interest::Address));
        for address in before {
            // The address may be another service's by now.
            if self.addresses.get(&address) == Some(key) {
                self.addresses.remove(&address);
            }
        }
        self.addresses.extend(after.into_iter().map(|address| (address, key.clone())));
    }

    fn apply_node(
        &mut self,
        cluster: &Cluster,
        name: &Arc<str>,
        node: Option<Node>,
        dirty: &mut Dirty,
    ) {
        if !put(&mut self.objects(cluster).nodes, name, node) {
            return;
        }
        // A node may teach the region or the id of a zone that endpoints of other nodes stand in.
        let all = std::iter::once(&self.home).chain(self.remotes.values());
        dirty.extend(
            all.flat_map(|objects| objects.slices_of.keys()).cloned().map(Interest::Service),
        );
        if *cluster == Cluster::Home {
            dirty.insert(Interest::Node(Arc::clone(name)));
        }
    }

    fn apply_policy(&mut self, key: Key, policy: Option<LocalityPolicy>, dirty: &mut Dirty) {
        let old = self.policies.get(&key);
        if old == policy.as_ref() {
            return;
        }
        dirty.insert(Interest::Policies);
        for version in [old, policy.as_ref()].into_iter().flatten() {
            let named = version.targets.iter();
            dirty.extend(named.map(|name| Interest::Service(Key::new(&key.namespace, name))));
            if version.targets.is_empty() {
                let whole_mesh = key.namespace == self.settings.namespace;
                dirty.extend(self.services_in((!whole_mesh).then_some(&key.namespace)));
            }
        }
        match policy {
            Some(policy) => self.policies.insert(key, policy),
            None => self.policies.remove(&key),
        };
    }

    fn services_in(&self, namespace: Option<&Arc<str>>) -> impl Iterator<Item = Interest> {
        let keys = self.home.services.keys().chain(self.imports.keys());
        keys.filter(move |key| namespace.is_none_or(|namespace| key.namespace == *namespace))
            .cloned()
            .map(Interest::Service)
    }
}

impl Objects {
    fn apply_slice(&mut self, key: &Key, slice: Option<Slice>, dirty: &mut Dirty) {
        let old = self.slices.get(key);
        if old == slice.as_ref() {
            return;
        }
        if let Some(service) = old.and_then(|old| old.service.clone()) {
            if let Some(slices) = self.slices_of.get_mut(&service) {
                slices.remove(key);
                if slices.is_empty() {
                    self.slices_of.remove(&service);
                }
            }
            dirty.insert(Interest::Service(service));
        }
        if let Some(service) = slice.as_ref().and_then(|slice| slice.service.clone()) {
            self.slices_of.entry(service.clone()).or_default().insert(key.clone());
            dirty.insert(Interest::Service(service));
        }
        put(&mut self.slices, key, slice);
    }

    fn slices_of(&self, service: &Key) -> impl Iterator<Item = &Slice> {
        self.slices_of.get(service).into_iter().flatten().filter_map(|key| self.slices.get(key))
    }
}

fn cluster_ips(service: Option<&Service>) -> Vec<IpAddr> {
    match service.map(|service| &service.reach) {
        Some(Reach::ClusterIps(addresses)) => addresses.clone(),
        _ => Vec::new(),
    }
}

/// Sets or removes; whether that changed anything.
fn put<K: Clone + Eq + Hash, V: PartialEq>(
    map: &mut HashMap<K, V>,
    key: &K,
    value: Option<V>,
) -> bool {
    if map.get(key) == value.as_ref() {
        return false;
    }
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    };
    true
}
