//! The origin: answers every request at once with a fixed body (`/slow` after [`SLOW`], `/large` with [`LARGE`]); gRPC requests with one message and
//! `grpc-status: 0`.

use super::{LARGE, Local, on_one_thread};
use crate::arguments::OriginOptions;
use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec::IntoIter;
use tokio::net::TcpListener;

/// How long `/slow` takes: long enough for thousands of requests to be under way at the same time.
const SLOW: Duration = Duration::from_secs(2);

type Body = Either<Full<Bytes>, Frames>;

/// Serves until killed.
pub(crate) fn run(options: &OriginOptions) -> anyhow::Result<()> {
    let body = Bytes::from(vec![b'x'; options.body]);
    on_one_thread(async {
        for address in &options.listen {
            tokio::task::spawn_local(listen(bind(*address).await?, body.clone()));
        }
        std::future::pending().await
    })
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("no listener on {address}"))
}

async fn listen(listener: TcpListener, body: Bytes) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        // Losing this option only costs latency.
        if stream.set_nodelay(true).is_err() {
            continue;
        }
        let body = body.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(request, body.clone()));
            // A client that goes away in the middle is the end of its connection and nothing else.
            drop(auto::Builder::new(Local).serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(request: Request<Incoming>, body: Bytes) -> Result<Response<Body>, Infallible> {
    let grpc = request
        .headers()
        .get(http::header::CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    let slow = request.uri().path() == "/slow";
    let body = if request.uri().path() == "/large" { Bytes::from_static(LARGE) } else { body };
    // The request is read to its end before it is answered; a broken one ends with its connection.
    drop(request.into_body().collect().await);
    if slow {
        tokio::time::sleep(SLOW).await;
    }
    if grpc { Ok(grpc_answer(&body)) } else { Ok(Response::new(Either::Left(Full::new(body)))) }
}

fn grpc_answer(body: &Bytes) -> Response<Body> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut message = vec![0];
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = vec![Frame::data(Bytes::from(message)), Frame::trailers(trailers)];
    let mut response = Response::new(Either::Right(Frames(frames.into_iter())));
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A body of one message and trailers, all ready.
#[derive(Debug)]
struct Frames(IntoIter<Frame<Bytes>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}
