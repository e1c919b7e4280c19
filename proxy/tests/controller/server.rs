//! A controller that does what a test tells it to: a real server on a real socket, where faults can be written down.

use api::discovery as proto;
use api::discovery::discovery_server::{Discovery, DiscoveryServer};
use api::discovery::from_controller::Message;
use api::discovery::{FromController, FromProxy, from_proxy};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Far above what anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A scripted controller. It and all its connections end with it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    streams: mpsc::Receiver<Stream>,
    refusal: Arc<Mutex<Option<Status>>>,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

/// One proxy's stream.
pub(crate) struct Stream {
    /// How the proxy introduced itself.
    pub(crate) hello: proto::Hello,
    /// The `authorization` of the call.
    pub(crate) authorization: Option<String>,
    inbound: Streaming<FromProxy>,
    outbound: mpsc::Sender<Result<FromController, Status>>,
}

struct Script {
    streams: mpsc::Sender<Stream>,
    refusal: Arc<Mutex<Option<Status>>>,
    accepted: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl Discovery for Script {
    type StreamStream = ReceiverStream<Result<FromController, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<FromProxy>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let refusal = self.refusal.lock().clone();
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let mut inbound = request.into_inner();
        let first = inbound.message().await?.unwrap();
        let Some(from_proxy::Message::Hello(hello)) = first.message else {
            panic!("hello comes first, not {first:?}")
        };
        let (outbound, receiver) = mpsc::channel(1000);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let stream = Stream { hello, authorization, inbound, outbound };
        self.streams.send(stream).await.map_err(|_over| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), None)
    }

    /// At an address, so that one may come back where it was.
    pub(crate) fn start_at(address: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::channel(16);
        let refusal = Arc::new(Mutex::new(None));
        let accepted = Arc::new(AtomicUsize::new(0));
        let script = Script {
            streams: sender,
            refusal: Arc::clone(&refusal),
            accepted: Arc::clone(&accepted),
        };
        let task = tokio::spawn(serve(listener, DiscoveryServer::new(script), tls));
        Self { address, streams, refusal, accepted, task }
    }

    /// From now on, streams are refused.
    pub(crate) fn refuse(&self, status: Status) {
        *self.refusal.lock() = Some(status);
    }

    /// The next stream, once a proxy opens one.
    pub(crate) async fn stream(&mut self) -> Stream {
        let stream = tokio::time::timeout(SOON, self.streams.recv()).await;
        stream.expect("a stream in time").unwrap()
    }

    /// Streams so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Whether no stream is open that the test has not taken.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address at which connections are never answered: its queue is full, and nobody takes them from it.
pub(crate) struct Silent {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Silent {
    pub(crate) async fn start() -> Self {
        /// A connection on loopback takes far less.
        const FULL: Duration = Duration::from_millis(200);
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = tokio::time::timeout(FULL, TcpStream::connect(address)).await {
            queue.push(stream.unwrap());
        }
        Self { address, _listener: listener, _queue: queue }
    }
}

async fn serve(listener: TcpListener, service: DiscoveryServer<Script>, tls: Option<TlsAcceptor>) {
    // They end with this task.
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (service, tls) = (TowerToHyperService::new(service.clone()), tls.clone());
        connections.spawn(async move {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // Its end is told to the proxy, and that is what tests look at.
            match tls {
                None => drop(builder.serve_connection(TokioIo::new(socket), service).await),
                Some(tls) => {
                    if let Ok(socket) = tls.accept(socket).await {
                        drop(builder.serve_connection(TokioIo::new(socket), service).await);
                    }
                }
            }
        });
    }
}

impl Stream {
    pub(crate) async fn send(&self, message: Message) {
        let message = FromController { message: Some(message) };
        self.outbound.send(Ok(message)).await.expect("the stream is open");
    }

    pub(crate) async fn place(&self, zone: &str) {
        let place = proto::Place { zone: zone.to_owned(), ..proto::Place::default() };
        self.send(Message::Place(place)).await;
    }

    /// A service whole, with these addresses in zone `a`.
    pub(crate) async fn service(&self, id: &str, version: u64, addresses: &[&str]) {
        let endpoints = addresses.iter().map(|address| proto::Endpoint {
            address: (*address).to_owned(),
            zone: "a".to_owned(),
            ..proto::Endpoint::default()
        });
        self.send(Message::Service(proto::Service {
            id: id.to_owned(),
            version,
            endpoints: endpoints.collect(),
            ..proto::Service::default()
        }))
        .await;
    }

    /// What a destination is, written as the proxy wrote it.
    pub(crate) async fn resolved(&self, destination: &str, id: &str) {
        self.send(Message::Resolved(proto::Resolved {
            destination: Some(written(destination)),
            target: Some(proto::resolved::Target::Service(id.to_owned())),
        }))
        .await;
    }

    /// The next that the proxy says: `+cart:80` to subscribe, `-cart:80` to unsubscribe.
    pub(crate) async fn heard(&mut self) -> String {
        let message = tokio::time::timeout(SOON, self.inbound.message()).await;
        let message = message.expect("a message in time").unwrap().expect("an open stream");
        match message.message.unwrap() {
            from_proxy::Message::Subscribe(sent) => format!("+{}", read(sent.destination)),
            from_proxy::Message::Unsubscribe(sent) => format!("-{}", read(sent.destination)),
            other @ from_proxy::Message::Hello(_) => panic!("once is enough: {other:?}"),
        }
    }

    /// Ends the stream with an error.
    pub(crate) async fn fail(self, status: Status) {
        self.outbound.send(Err(status)).await.expect("the stream is open");
    }
}

fn written(destination: &str) -> proto::Destination {
    use proto::destination::Destination as Written;
    let written = match destination.parse::<SocketAddr>() {
        Ok(_) => Written::Address(destination.to_owned()),
        Err(_) => Written::Name(destination.to_owned()),
    };
    proto::Destination { destination: Some(written) }
}

fn read(destination: Option<proto::Destination>) -> String {
    use proto::destination::Destination as Written;
    match destination.unwrap().destination.unwrap() {
        Written::Address(text) | Written::Name(text) => text,
    }
}
