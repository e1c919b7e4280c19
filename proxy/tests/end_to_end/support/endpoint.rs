//! Endpoints that do what a test tells them.

use super::message::{Bodiless, Message, Wire};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A listening endpoint. It ends with its value.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Message>>>,
    task: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A body of an HTTP/2 endpoint.
pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

impl Endpoint {
    /// Runs `serve` for each connection.
    pub(crate) async fn raw<F: Future<Output = ()> + Send + 'static>(
        serve: impl Fn(Wire) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(Wire::new(stream)));
            }
        });
        Self { address, connections, seen: Arc::default(), task }
    }

    /// Answers every HTTP/1 request by the bytes that `answer` makes, and keeps the connection.
    pub(crate) async fn http1(answer: impl Fn(&Message) -> String + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&seen));
        let mut endpoint = Self::raw(move |mut wire| {
            let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
            async move {
                while let Some(request) = wire.message(Bodiless::Empty).await {
                    let bytes = answer(&request);
                    log.lock().push(request);
                    wire.write(bytes).await;
                }
            }
        })
        .await;
        endpoint.seen = seen;
        endpoint
    }

    /// Answers every request by that status and body.
    pub(crate) async fn fixed(status: u16, body: &'static str) -> Self {
        Self::http1(move |_| {
            format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        })
        .await
    }

    /// An HTTP/2 endpoint.
    pub(crate) async fn http2<F>(
        answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, answer) = (Arc::clone(&connections), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve_http2(stream, Arc::clone(&answer)));
            }
        });
        Self { address, connections, seen: Arc::default(), task }
    }

    /// Connections that were opened to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The requests that it got.
    pub(crate) fn seen(&self) -> Vec<Message> {
        self.seen.lock().clone()
    }

    /// The address of an endpoint that is not there: connections to it are refused.
    pub(crate) async fn gone() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }
}

async fn serve_http2<F>(
    stream: TcpStream,
    answer: Arc<impl Fn(Request<Incoming>) -> F + Send + Sync + 'static>,
) where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = hyper::service::service_fn(move |request| {
        let answering = answer(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.max_header_list_size(1 << 20);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        println!("endpoint's connection: {error}");
    }
}

pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

/// Data frames followed by trailers.
pub(crate) fn with_trailers(
    pieces: &[&'static str],
    trailers: &[(&'static str, &'static str)],
) -> Body {
    let mut map = HeaderMap::new();
    for (name, value) in trailers {
        map.append(*name, value.parse().unwrap());
    }
    let data = pieces.iter().map(|piece| Frame::data(Bytes::from_static(piece.as_bytes())));
    Frames(data.chain([Frame::trailers(map)]).map(Ok).collect()).boxed()
}

/// A body whose frames a test sends; it ends with the sender.
pub(crate) fn piped() -> (mpsc::Sender<std::io::Result<Frame<Bytes>>>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Piped(receiver).boxed())
}

struct Piped(mpsc::Receiver<std::io::Result<Frame<Bytes>>>);

impl http_body::Body for Piped {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(cx)
    }
}

struct Frames(VecDeque<Result<Frame<Bytes>, std::io::Error>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.pop_front())
    }
}
