//! A gateway in front of an API server, which has bad days: it refuses, dawdles, or says nothing.

use super::Client;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What it does with requests. A change ends all connections, except that those of a silent time stay open and dead for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Passes them on.
    Open,
    /// Answers all with this status.
    Refuse(u16),
    /// Passes lists on after this time, and everything else at once.
    SlowLists(Duration),
    /// Says nothing any more, as if a firewall had forgotten the connection: on old connections, and on new ones.
    Silent,
}

/// A running gateway. Whoever connects has the rights of the client that it passes requests on with.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    _client: Client,
}

impl Gateway {
    /// Opens one on a free port.
    pub fn open(client: Client) -> Self {
        let (mode, inner) = (watch::Sender::new(Mode::Open), client.inner());
        let listener = client.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        client.spawn(accept(listener, inner, mode.subscribe()));
        Self { address, mode, _client: client }
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self) -> String {
        super::plain_kubeconfig(self.address)
    }

    /// Behaves so from now on.
    pub fn behave(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn accept(listener: TcpListener, client: kube::Client, mode: watch::Receiver<Mode>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, client.clone(), mode.clone()));
    }
}

async fn serve(stream: TcpStream, client: kube::Client, mut mode: watch::Receiver<Mode>) {
    let now = *mode.borrow_and_update();
    let service = service_fn(move |request| {
        let client = client.clone();
        async move { Ok::<_, Infallible>(answer(request, client, now).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // Callers that go away are no surprise.
        ended = connection.as_mut() => drop(ended),
        _ = mode.changed() => {
            if now == Mode::Silent || *mode.borrow() == Mode::Silent {
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    client: kube::Client,
    mode: Mode,
) -> Response<Either<Body, Full<Bytes>>> {
    let is_list = request.method() == "GET"
        && !request.uri().query().is_some_and(|query| query.contains("watch="));
    match mode {
        Mode::SlowLists(time) if is_list => tokio::time::sleep(time).await,
        Mode::Open | Mode::SlowLists(_) => {}
        Mode::Silent => std::future::pending().await,
        Mode::Refuse(status) => return refusal(status),
    }
    let (mut head, body) = request.into_parts();
    // The API server's own name and the gateway's own rights.
    head.headers.remove("host");
    head.headers.remove("authorization");
    let Ok(body) = body.collect().await else { return refusal(400) };
    let request = Request::from_parts(head, Body::from(body.to_bytes().to_vec()));
    match client.send(request).await {
        Ok(response) => response.map(Either::Left),
        Err(_) => refusal(503),
    }
}

fn refusal(code: u16) -> Response<Either<Body, Full<Bytes>>> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": "Trouble", "message": "scripted", "code": code});
    let mut response = Response::new(Either::Right(Full::from(status.to_string())));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}
