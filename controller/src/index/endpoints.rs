//! The endpoints of one port of a service: all slices of all clusters, each address once.

use super::key::Key;
use super::object::{Condition, Endpoint, Node, Port, Service};
use super::{Index, Objects};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// An endpoint with its place. The order is that of preference when slices disagree, and complete: which slice came first
/// never matters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Located {
    pub(super) condition: Condition,
    zone_unknown: bool,
    node_unknown: bool,
    pub(super) zone: Arc<str>,
    pub(super) region: Arc<str>,
    pub(super) node: Arc<str>,
    pub(super) uid: Arc<str>,
}

impl Index {
    /// The endpoints to use, by address: the ready ones, or where nothing is ready those that still serve while they terminate.
    pub(super) fn endpoints(
        &self,
        key: &Key,
        service: &Service,
        port: &Port,
    ) -> BTreeMap<SocketAddr, Located> {
        let mut found = BTreeMap::new();
        let home = Topology::home(&self.home);
        collect(&self.home, &home, (key, &port.name), &mut found);
        for (name, remote) in &self.remotes {
            if remote.exports.contains(key) {
                let topology = Topology::remote(remote, name, &self.home);
                // The same number may have another name there.
                let there = remote.services.get(key).and_then(|service| service.port(port.number));
                let port_name = there.map_or(&port.name, |there| &there.name);
                collect(remote, &topology, (key, port_name), &mut found);
            }
        }
        let best = found.values().map(|endpoint| endpoint.condition).min();
        found.retain(|_, endpoint| {
            endpoint.condition != Condition::Unready && Some(endpoint.condition) == best
        });
        keep_one_family(service.ipv6_first, &mut found);
        found
    }
}

fn collect(
    objects: &Objects,
    topology: &Topology<'_>,
    (service, port_name): (&Key, &str),
    found: &mut BTreeMap<SocketAddr, Located>,
) {
    for slice in objects.slices_of(service) {
        let numbers = slice.ports.iter().filter(|(name, _)| name == port_name);
        for (_, number) in numbers {
            for endpoint in &slice.endpoints {
                let located = topology.locate(endpoint);
                let address = SocketAddr::new(endpoint.address, *number);
                if found.get(&address).is_none_or(|known| located < *known) {
                    found.insert(address, located);
                }
            }
        }
    }
}

/// A pod with addresses of both families is one endpoint.
fn keep_one_family(ipv6_first: bool, found: &mut BTreeMap<SocketAddr, Located>) {
    let wanted: HashSet<Arc<str>> = found
        .iter()
        .filter(|(address, endpoint)| address.is_ipv6() == ipv6_first && !endpoint.uid.is_empty())
        .map(|(_, endpoint)| Arc::clone(&endpoint.uid))
        .collect();
    found.retain(|address, endpoint| {
        address.is_ipv6() == ipv6_first || !wanted.contains(&endpoint.uid)
    });
}

/// What the nodes of a cluster teach about zones.
struct Topology<'a> {
    objects: &'a Objects,
    /// Set for a remote cluster, whose nodes are none of ours, whatever their names.
    remote: Option<Remote<'a>>,
    /// Rarely needed, since nodes mostly know their own region: made on first use.
    region_of_zone: OnceCell<Names<'a>>,
}

struct Remote<'a> {
    name: &'a str,
    id_of_zone: Names<'a>,
    /// What home calls the zone with an id.
    home_name_of_id: Names<'a>,
}

type Names<'a> = HashMap<&'a str, &'a Arc<str>>;

impl<'a> Topology<'a> {
    fn home(objects: &'a Objects) -> Self {
        Self { objects, remote: None, region_of_zone: OnceCell::new() }
    }

    fn remote(objects: &'a Objects, name: &'a str, home: &'a Objects) -> Self {
        let remote = Remote {
            name,
            id_of_zone: names(objects, |node| (&node.zone, &node.zone_id)),
            home_name_of_id: names(home, |node| (&node.zone_id, &node.zone)),
        };
        Self { objects, remote: Some(remote), region_of_zone: OnceCell::new() }
    }

    /// Zone by the slice, else by the node; region by the node, else by others of the zone.
    fn locate(&self, endpoint: &Endpoint) -> Located {
        let node = self.objects.nodes.get(&endpoint.node);
        let first = |values: [Option<&Arc<str>>; 2]| -> Arc<str> {
            let known = values.into_iter().flatten().find(|value| !value.is_empty());
            known.map_or_else(|| Arc::from(""), Arc::clone)
        };
        let zone = first([Some(&endpoint.zone), node.map(|node| &node.zone)]);
        let region = match node.map(|node| &node.region) {
            Some(region) if !region.is_empty() => Arc::clone(region),
            _ => self.region_of(&zone),
        };
        let (zone, node_name) = match &self.remote {
            None => (zone, Arc::clone(&endpoint.node)),
            Some(remote) => (remote.zone(zone), remote.node(&endpoint.node)),
        };
        Located {
            condition: endpoint.condition,
            zone_unknown: zone.is_empty(),
            node_unknown: node_name.is_empty(),
            zone,
            region,
            node: node_name,
            uid: Arc::clone(&endpoint.uid),
        }
    }

    fn region_of(&self, zone: &str) -> Arc<str> {
        let regions = self
            .region_of_zone
            .get_or_init(|| names(self.objects, |node| (&node.zone, &node.region)));
        regions.get(zone).map_or_else(|| Arc::from(""), |region| Arc::clone(region))
    }
}

impl Remote<'_> {
    /// Zones of different accounts are compared by id. What home has no name for keeps its id, lest it be taken for another.
    fn zone(&self, zone: Arc<str>) -> Arc<str> {
        match self.id_of_zone.get(&*zone) {
            Some(id) if !self.home_name_of_id.is_empty() => {
                Arc::clone(self.home_name_of_id.get(&***id).unwrap_or(id))
            }
            _ => zone,
        }
    }

    fn node(&self, node: &Arc<str>) -> Arc<str> {
        if node.is_empty() { Arc::clone(node) } else { format!("{}/{node}", self.name).into() }
    }
}

/// One fact by another, where nodes know both. Of nodes that disagree the first value in order holds, so that the answer is
/// always the same.
fn names<'a>(
    objects: &'a Objects,
    of: impl Fn(&'a Node) -> (&'a Arc<str>, &'a Arc<str>),
) -> Names<'a> {
    let mut names = Names::new();
    for (key, value) in objects.nodes.values().map(of) {
        if !key.is_empty() && !value.is_empty() {
            names.entry(key).and_modify(|known| *known = (*known).min(value)).or_insert(value);
        }
    }
    names
}
