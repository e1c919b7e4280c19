//! A bare hyper proxy: round robin over its upstreams and a pool of its own, nothing else. It shows what the stack costs
//! before a mesh adds anything.

use super::{Local, on_one_thread};
use crate::arguments::ForwardOptions;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::{TcpListener, TcpStream};

type Body = Either<Incoming, Empty<Bytes>>;

/// Serves until killed.
pub(crate) fn run(options: &ForwardOptions) -> anyhow::Result<()> {
    on_one_thread(async {
        let listener = TcpListener::bind(options.listen).await?;
        let pool = Rc::new(Pool::new(&options.upstream, options.http2));
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            if stream.set_nodelay(true).is_err() {
                continue;
            }
            let pool = Rc::clone(&pool);
            tokio::task::spawn_local(async move {
                let service = service_fn(|request| forward(Rc::clone(&pool), request));
                // A client that goes away in the middle is the end of its connection and nothing else.
                drop(
                    auto::Builder::new(Local).serve_connection(TokioIo::new(stream), service).await,
                );
            });
        }
    })
}

async fn forward(
    pool: Rc<Pool>,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let sent =
        if pool.http2 { pool.send_http2(request).await } else { pool.send_http1(request).await };
    Ok(sent.map_or_else(|_| bad_gateway(), |response| response.map(Either::Left)))
}

fn bad_gateway() -> Response<Body> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

struct Upstream {
    address: SocketAddr,
    idle: RefCell<Vec<http1::SendRequest<Incoming>>>,
    shared: RefCell<Option<http2::SendRequest<Incoming>>>,
}

struct Pool {
    upstreams: Vec<Upstream>,
    next: Cell<usize>,
    http2: bool,
}

impl Pool {
    fn new(addresses: &[SocketAddr], http2: bool) -> Self {
        let upstream = |address: &SocketAddr| Upstream {
            address: *address,
            idle: RefCell::default(),
            shared: RefCell::default(),
        };
        Self { upstreams: addresses.iter().map(upstream).collect(), next: Cell::new(0), http2 }
    }

    fn next(&self) -> anyhow::Result<&Upstream> {
        let turn = self.next.get();
        self.next.set(turn.wrapping_add(1));
        self.upstreams
            .get(turn % self.upstreams.len().max(1))
            .ok_or_else(|| anyhow::anyhow!("no upstream"))
    }

    async fn send_http1(
        &self,
        mut request: Request<Incoming>,
    ) -> anyhow::Result<Response<Incoming>> {
        let upstream = self.next()?;
        *request.version_mut() = Version::HTTP_11;
        let idle = upstream.idle.borrow_mut().pop();
        let mut sender = match idle {
            Some(sender) if !sender.is_closed() => sender,
            _ => connect_http1(upstream.address).await?,
        };
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        // The connection goes back before the body is read: hyper takes the next request only once this one is over.
        upstream.idle.borrow_mut().push(sender);
        Ok(response)
    }

    async fn send_http2(
        &self,
        mut request: Request<Incoming>,
    ) -> anyhow::Result<Response<Incoming>> {
        let upstream = self.next()?;
        *request.version_mut() = Version::HTTP_2;
        let shared = upstream.shared.borrow().clone();
        let mut sender = match shared {
            Some(sender) if !sender.is_closed() => sender,
            _ => {
                let sender = connect_http2(upstream.address).await?;
                *upstream.shared.borrow_mut() = Some(sender.clone());
                sender
            }
        };
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }
}

async fn connect_http1(address: SocketAddr) -> anyhow::Result<http1::SendRequest<Incoming>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}

async fn connect_http2(address: SocketAddr) -> anyhow::Result<http2::SendRequest<Incoming>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http2::handshake(Local, TokioIo::new(stream)).await?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}
