//! An API server that only lists and watches: as many objects as wanted, and changes at a rate that a real one cannot take on a
//! machine that also carries a thousand listeners.

use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tests::kubernetes::plain_kubeconfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

type Body = BoxBody<Bytes, Infallible>;

/// Events that wait for a watch's connection.
const EVENTS: usize = 16;

/// A running server.
pub(crate) struct Simulated {
    address: SocketAddr,
    store: Arc<Store>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Store {
    collections: Mutex<Collections>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Collections {
    version: u64,
    by_path: HashMap<String, Collection>,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<String, Value>,
    /// All that ever happened, by version, as lines of a watch.
    events: Vec<(u64, Bytes)>,
}

impl Simulated {
    /// Starts one that has nothing.
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::<Store>::default();
        let accepting = Arc::clone(&store);
        drop(runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&accepting)));
            }
        }));
        Self { address, store, _runtime: runtime }
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> String {
        plain_kubeconfig(self.address)
    }

    /// Makes an object of a collection, or replaces it.
    pub(crate) fn apply(&self, path: &str, mut object: Value) {
        let mut collections = self.store.collections.lock();
        collections.version += 1;
        let version = collections.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let collection = collections.by_path.entry(path.to_owned()).or_default();
        let kind = if collection.objects.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        collection.events.push((version, line.into()));
        collection.objects.insert(name, object);
        self.store.changed.send_replace(version);
    }
}

async fn serve(stream: TcpStream, store: Arc<Store>) {
    stream.set_nodelay(true).unwrap();
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(request.uri(), &store);
        async move { Ok::<_, Infallible>(response) }
    });
    // A client that goes away is no surprise.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

fn answer(uri: &http::Uri, store: &Arc<Store>) -> Response<Body> {
    let parameter = |name: &str| {
        let mut pairs = uri.query().unwrap_or_default().split('&');
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    if uri.path() == "/version" {
        return full(
            &json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
        );
    }
    if parameter("watch") == Some("true") {
        let from = parameter("resourceVersion").unwrap().parse().unwrap();
        let (sender, receiver) = mpsc::channel(EVENTS);
        tokio::spawn(feed(Arc::clone(store), uri.path().to_owned(), from, sender));
        return Response::new(BoxBody::new(StreamBody::new(ReceiverStream::new(receiver))));
    }
    let collections = store.collections.lock();
    let objects = collections.by_path.get(uri.path()).map(|collection| &collection.objects);
    let items: Vec<&Value> = objects.into_iter().flat_map(BTreeMap::values).collect();
    let version = collections.version.to_string();
    full(
        &json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}),
    )
}

/// Sends what happens after a version, for as long as someone listens.
async fn feed(
    store: Arc<Store>,
    path: String,
    mut from: u64,
    sender: mpsc::Sender<Result<Frame<Bytes>, Infallible>>,
) {
    let mut changed = store.changed.subscribe();
    loop {
        changed.mark_unchanged();
        for (version, line) in store.events(&path, from) {
            if sender.send(Ok(Frame::data(line))).await.is_err() {
                return;
            }
            from = version;
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = sender.closed() => return,
        }
    }
}

impl Store {
    fn events(&self, path: &str, from: u64) -> Vec<(u64, Bytes)> {
        let collections = self.collections.lock();
        let Some(collection) = collections.by_path.get(path) else { return Vec::new() };
        let first = collection.events.partition_point(|(version, _)| *version <= from);
        collection.events[first..].to_vec()
    }
}

fn full(body: &Value) -> Response<Body> {
    Response::new(Full::new(Bytes::from(body.to_string())).boxed())
}
