//! Callers.

use super::message::{Bodiless, Message, Wire};
use super::within;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Opens a connection.
pub(crate) async fn connect(address: SocketAddr) -> Wire {
    Wire::new(within("connect", TcpStream::connect(address)).await.unwrap())
}

/// Sends one request on a connection of its own and reads the answer.
pub(crate) async fn ask(address: SocketAddr, request: impl AsRef<[u8]>) -> Message {
    let mut wire = connect(address).await;
    wire.write(request).await;
    wire.message(Bodiless::UntilClose).await.expect("an answer")
}

/// A plain GET.
pub(crate) async fn get(address: SocketAddr) -> Message {
    ask(address, "GET / HTTP/1.1\r\nhost: test\r\n\r\n").await
}

/// An answer to an HTTP/2 request, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
    /// Whether the body came to its proper end.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Opens an HTTP/2 connection.
pub(crate) async fn http2<B>(address: SocketAddr) -> SendRequest<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = within("connect", TcpStream::connect(address)).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.max_header_list_size(1 << 20);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            println!("caller's connection: {error}");
        }
    });
    sender
}

/// Sends one HTTP/2 request on a connection of its own and reads the answer.
pub(crate) async fn ask_http2<B>(address: SocketAddr, request: Request<B>) -> Answer
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut sender = http2(address).await;
    let response = within("an answer", sender.send_request(request)).await.unwrap();
    read(response).await
}

/// Reads an answer to its end.
pub(crate) async fn read(response: Response<Incoming>) -> Answer {
    let (head, mut incoming) = response.into_parts();
    let (mut body, mut trailers, mut complete) = (Vec::new(), HeaderMap::new(), true);
    while let Some(frame) = within("a frame", incoming.frame()).await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => body.extend_from_slice(&data),
            Ok(Err(frame)) => trailers = frame.into_trailers().unwrap(),
            Err(_) => complete = false,
        }
        if !complete {
            break;
        }
    }
    Answer { head, body: body.into(), trailers, complete }
}
