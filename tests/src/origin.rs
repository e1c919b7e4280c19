//! A scripted server: HTTP/1.1 and HTTP/2 with prior knowledge on the same port.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Sleep;

/// A request as the origin saw it, with its whole body.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its target as it came: origin form or absolute form.
    pub target: String,
    /// `Host`, or `:authority`.
    pub host: String,
    /// Its HTTP version.
    pub version: Version,
    /// Its header.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The connection it came on, counted from 0.
    pub connection: usize,
}

/// What the origin does with a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Time before the header.
    pub after: Duration,
    /// The status.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
    /// Trailer fields.
    pub trailers: Vec<(&'static str, String)>,
    /// Cut the body short: reset the stream or close the connection after it.
    pub truncate: bool,
}

impl Answer {
    /// A status with a body.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self {
            after: Duration::ZERO,
            status,
            headers: Vec::new(),
            body: body.into(),
            trailers: Vec::new(),
            truncate: false,
        }
    }

    /// The same with one more header field.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same with one more trailer field.
    #[must_use]
    pub fn trailer(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.trailers.push((name, value.into()));
        self
    }

    /// The same after a while.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.after = time;
        self
    }

    /// The same with its body cut short.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.truncate = true;
        self
    }
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

/// A running origin; it ends when this is dropped.
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<State>,
    _runtime: Runtime,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("address", &self.address).finish_non_exhaustive()
    }
}

struct State {
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
}

impl Origin {
    /// Starts one that answers by a script.
    pub fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { script: Mutex::new(Arc::new(script)), seen: Mutex::default() };
        let state = Arc::new(state);
        runtime.spawn(accept(listener, Arc::clone(&state)));
        Self { address, state, _runtime: runtime }
    }

    /// One that answers 200 with its name.
    pub fn named(name: &'static str) -> Self {
        Self::start(move |_| Answer::new(200, name))
    }

    /// Changes what it does.
    pub fn script(&self, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
        *self.state.script.lock() = Arc::new(script);
    }

    /// What it saw since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.seen.lock())
    }

    /// How many requests it saw since then.
    pub fn count(&self) -> usize {
        self.state.seen.lock().len()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = 0;
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(serve(socket, Arc::clone(&state), connections));
        connections += 1;
    }
}

async fn serve(socket: TcpStream, state: Arc<State>, connection: usize) {
    socket.set_nodelay(true).unwrap();
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().keep_alive(true);
    server.http2().max_header_list_size(512 * 1024);
    let service = service_fn(|request| answer(request, Arc::clone(&state), connection));
    // How a connection ends is the peer's matter.
    drop(server.serve_connection(TokioIo::new(socket), service).await);
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
    connection: usize,
) -> Result<Response<ScriptedBody>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let host = head.headers.get("host").and_then(|host| host.to_str().ok());
    let host = host.or_else(|| head.uri.authority().map(http::uri::Authority::as_str));
    let seen = Seen {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        host: host.unwrap_or_default().to_owned(),
        version: head.version,
        headers: head.headers.clone(),
        body,
        connection,
    };
    let script = Arc::clone(&state.script.lock());
    let answer = script(&seen);
    state.seen.lock().push(seen);
    tokio::time::sleep(answer.after).await;
    Ok(respond(answer))
}

fn respond(answer: Answer) -> Response<ScriptedBody> {
    let mut response = Response::new(ScriptedBody::new(&answer));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap();
    for (name, value) in answer.headers {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

/// A body by script.
#[derive(Debug)]
struct ScriptedBody {
    frames: VecDeque<Frame<Bytes>>,
    /// When the body is cut short: later than what was sent before, which would otherwise be given up with it.
    truncate: Option<Pin<Box<Sleep>>>,
    size: SizeHint,
}

/// Time for what precedes a cut to reach the peer.
const BEFORE_CUT: Duration = Duration::from_millis(100);

impl ScriptedBody {
    fn new(answer: &Answer) -> Self {
        let mut frames = VecDeque::new();
        let mut size = SizeHint::new();
        if !answer.body.is_empty() {
            frames.push_back(Frame::data(answer.body.clone()));
        }
        if answer.trailers.is_empty() && !answer.truncate {
            size = SizeHint::with_exact(u64::try_from(answer.body.len()).unwrap());
        }
        if !answer.trailers.is_empty() {
            let mut trailers = HeaderMap::new();
            for (name, value) in &answer.trailers {
                trailers.append(*name, value.parse().unwrap());
            }
            frames.push_back(Frame::trailers(trailers));
        }
        let truncate = answer.truncate.then(|| Box::pin(tokio::time::sleep(BEFORE_CUT)));
        Self { frames, truncate, size }
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.truncate {
            Some(wait) => {
                wait.as_mut().poll(cx).map(|()| Some(Err(io::Error::other("cut short by script"))))
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.truncate.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}
