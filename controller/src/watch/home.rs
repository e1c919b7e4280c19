//! What is followed of the cluster that the controller runs in.

use super::follow::{Kind, Sink, follow};
use super::health::Health;
use super::probe::probe;
use crate::hub::Hub;
use crate::index::key::Cluster;
use crate::index::object::{LocalityPolicy, Namespace, Node, Pod, Service, Slice};
use crate::index::{Change, Kept};
use api::names;
use k8s_openapi::api::{core::v1 as core, discovery::v1 as discovery};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, Config};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Follows everything for ever, with a client made from `config`.
pub async fn follow_home(client: Client, config: Config, hub: Arc<Hub>, health: Health) {
    let clients = watch::Sender::new(client);
    let tasks = start(&clients, hub, &health);
    probe(config, health.gauge(&Cluster::Home, "probe"), clients).await;
    drop(tasks);
}

fn start(clients: &watch::Sender<Client>, hub: Arc<Hub>, health: &Health) -> JoinSet<()> {
    let sink = Sink { hub, cluster: Cluster::Home };
    let gauge = |kind| health.gauge(&Cluster::Home, kind);
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(services, sink.clone(), gauge("services"), clients.subscribe()));
    tasks.spawn(follow(slices, sink.clone(), gauge("endpointslices"), clients.subscribe()));
    tasks.spawn(follow(nodes, sink.clone(), gauge("nodes"), clients.subscribe()));
    tasks.spawn(follow(namespaces, sink.clone(), gauge("namespaces"), clients.subscribe()));
    tasks.spawn(follow(pods, sink.clone(), gauge("pods"), clients.subscribe()));
    tasks.spawn(follow(policies, sink.clone(), gauge("localitypolicies"), clients.subscribe()));
    tasks.spawn(follow(imports, sink, gauge("serviceimports"), clients.subscribe()));
    tasks
}

/// Services, whole: most of one is what counts.
pub(super) fn services(client: &Client) -> Kind<core::Service> {
    Kind {
        api: Api::all(client.clone()),
        labels: "",
        kept: Kept::Service,
        read: |key, service| Some(Change::Service(key.clone(), Some(Service::read(service)))),
        gone: |key| Change::Service(key, None),
    }
}

/// EndpointSlices of Services: one without the label belongs to nothing and is not asked for.
pub(super) fn slices(client: &Client) -> Kind<discovery::EndpointSlice> {
    Kind {
        api: Api::all(client.clone()),
        labels: "kubernetes.io/service-name",
        kept: Kept::Slice,
        read: |key, slice| Some(Change::Slice(key.clone(), Some(Slice::read(slice)))),
        gone: |key| Change::Slice(key, None),
    }
}

/// Nodes by their metadata: their status, which changes all the time, is never sent.
pub(super) fn nodes(client: &Client) -> Kind<PartialObjectMeta<core::Node>> {
    Kind {
        api: Api::all(client.clone()),
        labels: "",
        kept: Kept::Node,
        read: |key, node| {
            Some(Change::Node(Arc::clone(&key.name), Some(Node::read(&node.metadata))))
        },
        gone: |key| Change::Node(key.name, None),
    }
}

fn namespaces(client: &Client) -> Kind<PartialObjectMeta<core::Namespace>> {
    Kind {
        api: Api::all(client.clone()),
        labels: "",
        kept: Kept::Namespace,
        read: |key, namespace| {
            let read = Namespace::read(&namespace.metadata);
            Some(Change::Namespace(Arc::clone(&key.name), Some(read)))
        },
        gone: |key| Change::Namespace(key.name, None),
    }
}

/// Pods by their metadata, of which only those with annotations of ours are kept.
fn pods(client: &Client) -> Kind<PartialObjectMeta<core::Pod>> {
    Kind {
        api: Api::all(client.clone()),
        labels: "",
        kept: Kept::Pod,
        read: |key, pod| Some(Change::Pod(key.clone(), Some(Pod::read(&pod.metadata)?))),
        gone: |key| Change::Pod(key, None),
    }
}

/// LocalityPolicies, untyped: one that an older definition let through must not stop the others from being read.
fn policies(client: &Client) -> Kind<DynamicObject> {
    Kind {
        api: Api::all_with(client.clone(), &policy_resource()),
        labels: "",
        kept: Kept::Policy,
        read: |key, object| {
            let none = Value::Null;
            let part = |name: &str| object.data.get(name).unwrap_or(&none);
            let policy = LocalityPolicy::read(&object.metadata, part("spec"), part("status"));
            Some(Change::Policy(key.clone(), Some(policy)))
        },
        gone: |key| Change::Policy(key, None),
    }
}

/// ServiceImports of the multi-cluster services API.
fn imports(client: &Client) -> Kind<DynamicObject> {
    Kind {
        api: Api::all_with(client.clone(), &multicluster("ServiceImport", "serviceimports")),
        labels: "",
        kept: Kept::Import,
        read: |key, object| {
            let spec = object.data.get("spec").unwrap_or(&Value::Null);
            Some(Change::Import(key.clone(), Some(Service::read_import(&object.metadata, spec))))
        },
        gone: |key| Change::Import(key, None),
    }
}

/// A kind of the multi-cluster services API, which a cluster may have or not.
pub(super) fn multicluster(kind: &str, plural: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}

/// The custom resource, for untyped requests.
pub fn policy_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(names::GROUP, names::VERSION, "LocalityPolicy");
    ApiResource::from_gvk_with_plural(&kind, "localitypolicies")
}
