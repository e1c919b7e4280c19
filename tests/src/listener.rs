//! What a proxy hears from a controller, without the proxy: hundreds of them fit into one test.

use crate::deadline::{Moment, until};
use api::discovery::discovery_client::DiscoveryClient;
use api::discovery::{
    Destination, Endpoint, FromProxy, Hello, Known, Place, Service, ServiceChange, Subscribe,
    destination, from_controller, from_proxy, resolved,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::Channel;

/// Who listens.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// Namespace of its pod.
    pub namespace: String,
    /// Name of its pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Its token, if it has one.
    pub token: Option<String>,
}

/// The listeners of a test, all on one runtime.
#[derive(Debug)]
pub struct Listeners {
    runtime: Runtime,
}

/// One listener; it leaves when this is dropped.
#[derive(Debug)]
pub struct Listener {
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

/// All that was heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// The last word on where it stands.
    pub place: Option<Place>,
    /// Services by id.
    pub services: HashMap<String, Told>,
    /// What destinations are, as written: a service's id, or why not.
    pub resolved: HashMap<String, Result<String, i32>>,
    /// When each address was first and last heard of: appearing, and going.
    pub moments: HashMap<String, (Option<Moment>, Option<Moment>)>,
    /// Callers by service and zone.
    pub callers: HashMap<String, BTreeMap<String, u32>>,
    /// Messages that contradict what was known before.
    pub contradictions: Vec<String>,
    /// Number of messages with a service or a change of one.
    pub updates: usize,
    /// How the stream ended.
    pub ended: Option<String>,
}

/// A service as heard.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// All but its endpoints.
    pub head: Service,
    /// Its endpoints by address.
    pub endpoints: BTreeMap<String, Endpoint>,
}

impl Listeners {
    /// Nobody yet.
    pub fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { runtime }
    }

    /// Opens a stream that subscribes to destinations, an address or a name each.
    pub fn listen(&self, controller: SocketAddr, who: &Who, destinations: &[&str]) -> Listener {
        self.resume(controller, who, destinations, Vec::new())
    }

    /// The same for one that knows something from before.
    pub fn resume(
        &self,
        controller: SocketAddr,
        who: &Who,
        destinations: &[&str],
        known: Vec<Known>,
    ) -> Listener {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hello = Hello {
            pod_namespace: who.namespace.clone(),
            pod_name: who.pod.clone(),
            node: who.node.clone(),
            known,
            ..Hello::default()
        };
        let mut messages = vec![from_proxy::Message::Hello(hello)];
        messages.extend(destinations.iter().map(|text| {
            let destination = Some(destination(text));
            from_proxy::Message::Subscribe(Subscribe { destination })
        }));
        let task = converse(controller, who.token.clone(), messages, Arc::clone(&heard));
        Listener { heard, task: self.runtime.spawn(task) }
    }
}

impl Default for Listeners {
    fn default() -> Self {
        Self::new()
    }
}

fn destination(text: &str) -> Destination {
    let text = text.to_owned();
    let is_address = text.parse::<SocketAddr>().is_ok();
    Destination {
        destination: Some(if is_address {
            destination::Destination::Address(text)
        } else {
            destination::Destination::Name(text)
        }),
    }
}

async fn converse(
    controller: SocketAddr,
    token: Option<String>,
    messages: Vec<from_proxy::Message>,
    heard: Arc<Mutex<Heard>>,
) {
    let end = match listen(controller, token, messages, &heard).await {
        Ok(()) => "closed".to_owned(),
        Err(error) => error,
    };
    heard.lock().ended = Some(end);
}

async fn listen(
    controller: SocketAddr,
    token: Option<String>,
    messages: Vec<from_proxy::Message>,
    heard: &Mutex<Heard>,
) -> Result<(), String> {
    let endpoint = Channel::from_shared(format!("http://{controller}")).unwrap();
    let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
    let (sender, receiver) = mpsc::channel(messages.len());
    for message in messages {
        sender.try_send(FromProxy { message: Some(message) }).unwrap();
    }
    let mut request = Request::new(ReceiverStream::new(receiver));
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    let say = |status: tonic::Status| {
        let cause = status.source().map(|cause| format!(" ({cause:?})")).unwrap_or_default();
        format!("{:?}: {}{cause}", status.code(), status.message())
    };
    let stream = DiscoveryClient::new(channel).stream(request).await.map_err(say)?;
    let mut stream = stream.into_inner();
    while let Some(message) = stream.message().await.map_err(say)? {
        if let Some(message) = message.message {
            heard.lock().take_in(message);
        }
    }
    drop(sender);
    Ok(())
}

impl Heard {
    fn take_in(&mut self, message: from_controller::Message) {
        match message {
            from_controller::Message::Place(place) => self.place = Some(place),
            from_controller::Message::Service(service) => self.replace(service),
            from_controller::Message::Change(change) => self.change(change),
            from_controller::Message::Callers(callers) => {
                self.callers.insert(callers.service, callers.zones.into_iter().collect());
            }
            from_controller::Message::Resolved(told) => {
                let written = match told.destination.and_then(|written| written.destination) {
                    Some(
                        destination::Destination::Address(text)
                        | destination::Destination::Name(text),
                    ) => text,
                    None => String::new(),
                };
                let target = match told.target {
                    Some(resolved::Target::Service(id)) => {
                        if !self.services.contains_key(&id) {
                            self.contradictions
                                .push(format!("{written} is {id}, which is unknown"));
                        }
                        Ok(id)
                    }
                    Some(resolved::Target::Passthrough(why)) => Err(why),
                    None => Err(0),
                };
                self.resolved.insert(written, target);
            }
        }
    }

    fn replace(&mut self, service: Service) {
        self.updates += 1;
        let endpoints: BTreeMap<String, Endpoint> = service
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.address.clone(), endpoint.clone()))
            .collect();
        if endpoints.len() != service.endpoints.len() {
            self.contradictions.push(format!("an address of {} twice", service.id));
        }
        let now = Moment::now();
        for address in endpoints.keys() {
            self.moments.entry(address.clone()).or_default().0.get_or_insert(now);
        }
        let id = service.id.clone();
        let head = Service { endpoints: Vec::new(), ..service };
        self.services.insert(id, Told { head, endpoints });
    }

    fn change(&mut self, change: ServiceChange) {
        self.updates += 1;
        let Some(known) = self.services.get_mut(&change.id) else {
            self.contradictions.push(format!("a change of {}, which is unknown", change.id));
            return;
        };
        if known.head.version != change.base {
            self.contradictions.push(format!("a change of {} to another version", change.id));
        }
        let now = Moment::now();
        for endpoint in change.upserted {
            let moments = self.moments.entry(endpoint.address.clone()).or_default();
            moments.0.get_or_insert(now);
            known.endpoints.insert(endpoint.address.clone(), endpoint);
        }
        for address in change.removed {
            self.moments.entry(address.clone()).or_default().1 = Some(now);
            if known.endpoints.remove(&address).is_none() {
                self.contradictions.push(format!("{address} goes and was not there"));
            }
        }
        if let Some(head) = change.service {
            known.head = head;
        }
        known.head.version = change.version;
    }
}

impl Listener {
    /// Looks at what was heard.
    pub fn look<T>(&self, look: impl FnOnce(&Heard) -> T) -> T {
        look(&self.heard.lock())
    }

    /// The addresses of a service that it knows; `None` before it knows the service.
    pub fn addresses(&self, service: &str) -> Option<BTreeSet<String>> {
        self.look(|heard| Some(heard.services.get(service)?.endpoints.keys().cloned().collect()))
    }

    /// Waits for something to have been heard; the last thing seen is told when it takes too long. Fails at once when the
    /// stream ends: nothing more comes then.
    pub fn until<T>(
        &self,
        what: &str,
        limit: Duration,
        look: impl Fn(&Heard) -> Result<T, String>,
    ) -> T {
        until(what, limit, || {
            let heard = self.heard.lock();
            assert_eq!(heard.ended, None, "{what}: the stream ended");
            look(&heard)
        })
    }

    /// What a new stream would say it knows.
    pub fn known(&self) -> Vec<Known> {
        self.look(|heard| {
            let services = heard.services.iter();
            services
                .map(|(id, known)| Known { service: id.clone(), version: known.head.version })
                .collect()
        })
    }

    /// Fails when it was ever told nonsense.
    pub fn assert_consistent(&self) {
        self.look(|heard| assert_eq!(heard.contradictions, [""; 0]));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
