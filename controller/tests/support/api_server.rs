//! A scripted API server: lists and watches over HTTP, and every way in which a real one has been seen to fail.
#![expect(clippy::indexing_slicing, reason = "a test stops at its first surprise")]

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

type Body = BoxBody<Bytes, Infallible>;

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As it should.
    Well,
    /// Every request is answered with this status, and running watches end.
    Refuses(u16),
    /// Requests are taken and never answered; running watches hang.
    Silent,
}

#[derive(Debug)]
struct Store {
    version: u64,
    /// Versions up to this one are forgotten: a watch from there is 410 Gone.
    compacted: u64,
    /// 410 as a status of the answer rather than as an event in a good one.
    gone_as_status: bool,
    objects: BTreeMap<(String, String), Value>,
    log: Vec<(u64, String, &'static str, Value)>,
}

#[derive(Clone, Debug)]
pub(crate) struct ApiServer {
    store: Arc<Mutex<Store>>,
    changed: watch::Sender<u64>,
    mode: watch::Sender<Mode>,
    pub(crate) address: SocketAddr,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store = Store {
            version: 1,
            compacted: 0,
            gone_as_status: false,
            objects: BTreeMap::new(),
            log: Vec::new(),
        };
        let server = Self {
            store: Arc::new(Mutex::new(store)),
            changed: watch::channel(1).0,
            mode: watch::channel(Mode::Well).0,
            address: listener.local_addr().unwrap(),
        };
        let accepting = server.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        server
    }

    async fn serve(self, stream: TcpStream) {
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        // A client that goes away is no surprise.
        drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
    }

    pub(crate) fn config(&self) -> kube::Config {
        kube::Config::new(format!("http://{}", self.address).parse().unwrap())
    }

    pub(crate) fn behave(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Makes or replaces an object of the collection at `path`.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut store = self.store.lock();
        store.version += 1;
        object["metadata"]["resourceVersion"] = json!(store.version.to_string());
        let meta = &object["metadata"];
        let name = format!(
            "{}/{}",
            meta["namespace"].as_str().unwrap_or_default(),
            meta["name"].as_str().unwrap()
        );
        let old = store.objects.insert((path.to_owned(), name), object.clone());
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        let version = store.version;
        store.log.push((version, path.to_owned(), kind, object));
        self.changed.send_replace(version);
    }

    pub(crate) fn delete(&self, path: &str, name: &str) {
        let mut store = self.store.lock();
        store.version += 1;
        let version = store.version;
        let mut object = store.objects.remove(&(path.to_owned(), name.to_owned())).unwrap();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        store.log.push((version, path.to_owned(), "DELETED", object));
        self.changed.send_replace(version);
    }

    /// Forgets the past, as etcd does: a watch that was away must list again.
    pub(crate) fn compact(&self, gone_as_status: bool) {
        let mut store = self.store.lock();
        store.version += 1;
        store.compacted = store.version;
        store.gone_as_status = gone_as_status;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let mode = *self.mode.borrow();
        match mode {
            Mode::Well => {}
            Mode::Refuses(code) => return status(code, "scripted"),
            Mode::Silent => {
                let mut mode = self.mode.subscribe();
                // Even when all is well again, this connection stays dead, as one cut by a firewall.
                drop(mode.wait_for(|mode| *mode == Mode::Refuses(0)).await);
            }
        }
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let parameter = |name: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                .map(str::to_owned)
        };
        if path == "/version" {
            let version = json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": "" });
            return full(StatusCode::OK, &version);
        }
        if parameter("watch").as_deref() == Some("true") {
            return self.watch(path, parameter("resourceVersion").unwrap().parse().unwrap());
        }
        let store = self.store.lock();
        let items: Vec<&Value> = store
            .objects
            .iter()
            .filter(|((at, _), _)| *at == path)
            .map(|(_, object)| object)
            .collect();
        let version = store.version.to_string();
        full(
            StatusCode::OK,
            &json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": version }, "items": items }),
        )
    }

    fn watch(&self, path: String, from: u64) -> Response<Body> {
        let store = self.store.lock();
        if from < store.compacted {
            if store.gone_as_status {
                return status(410, "Expired");
            }
            let gone = json!({ "type": "ERROR", "object": { "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "Expired", "message": "too old resource version", "code": 410 } });
            return full(StatusCode::OK, &gone);
        }
        drop(store);
        let (sender, receiver) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(16);
        tokio::spawn(self.clone().feed(path, from, sender));
        Response::new(BodyExt::boxed(StreamBody::new(ReceiverStream::new(receiver))))
    }

    async fn feed(
        self,
        path: String,
        mut from: u64,
        sender: mpsc::Sender<Result<Frame<Bytes>, Infallible>>,
    ) {
        let (mut changed, mut mode) = (self.changed.subscribe(), self.mode.subscribe());
        loop {
            let now = *mode.borrow_and_update();
            match now {
                Mode::Well => {}
                Mode::Refuses(_) => return,
                // It hangs for good.
                Mode::Silent => std::future::pending().await,
            }
            changed.mark_unchanged();
            let due: Vec<_> = self
                .store
                .lock()
                .log
                .iter()
                .filter(|(version, at, ..)| *version > from && *at == path)
                .cloned()
                .collect();
            for (version, _, kind, object) in due {
                let line = format!("{}\n", json!({ "type": kind, "object": object }));
                if sender.send(Ok(Frame::data(line.into()))).await.is_err() {
                    return;
                }
                from = version;
            }
            tokio::select! {
                _ = changed.changed() => {}
                _ = mode.changed() => {}
                () = sender.closed() => return,
            }
        }
    }
}

fn full(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))).boxed());
    *response.status_mut() = status;
    response
}

fn status(code: u16, message: &str) -> Response<Body> {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": message, "code": code });
    full(StatusCode::from_u16(code).unwrap(), &body)
}
