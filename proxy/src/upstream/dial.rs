//! New connections to endpoints.

use crate::endpoint::Endpoint;
use crate::overload::Overload;
use crate::upstream::failure::Failure;
use crate::upstream::stream::Counted;
use hyper_util::rt::TokioIo;
use metrics::Counter;
use socket2::{SockRef, TcpKeepalive};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// A peer that does not acknowledge for this long is dead; probes find one that is silent in half of it.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(8);

/// How long a connection that goes straight may take: as long as three lost SYNs, since there is no other endpoint to try.
const STRAIGHT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) connect_timeout: Duration,
    pub(crate) clock: crate::clock::Clock,
}

/// Connects for HTTP.
pub(crate) async fn connect(
    to: &Target<'_>,
    overload: &Arc<Overload>,
) -> Result<TokioIo<Counted>, Failure> {
    let mut stream = open(to).await?;
    stream.read_by_share(overload);
    Ok(TokioIo::new(stream))
}

/// Connects.
pub(crate) async fn open(to: &Target<'_>) -> Result<Counted, Failure> {
    let stream = within(to.connect_timeout, to.endpoint.address).await?;
    Ok(Counted::new(stream, to.endpoint.zone.bytes()))
}

/// Connects to an address that belongs to no service, and counts its bytes there.
pub(crate) async fn straight(
    address: SocketAddr,
    bytes: (Counter, Counter),
) -> Result<Counted, Failure> {
    let stream = within(STRAIGHT_TIMEOUT, address).await?;
    Ok(Counted::new(stream, bytes))
}

async fn within(limit: Duration, address: SocketAddr) -> Result<TcpStream, Failure> {
    let stream = match tokio::time::timeout(limit, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) if is_local(&source) => return Err(Failure::Local { address, source }),
        Ok(Err(source)) => return Err(Failure::Connect { address, source }),
        Err(_elapsed) => return Err(Failure::ConnectTimeout { address, limit }),
    };
    prepare(&stream).map_err(|source| Failure::Connect { address, source })?;
    Ok(stream)
}

/// Whether a connection failed for want of something of ours: descriptors of the process or the system, ports, memory. That
/// says nothing about the endpoint.
pub(crate) fn is_local(error: &std::io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOBUFS: i32 = 105;
    const ENOMEM: i32 = 12;
    const EADDRNOTAVAIL: i32 = 99;
    const EAGAIN: i32 = 11;
    matches!(
        error.raw_os_error(),
        Some(EMFILE | ENFILE | ENOBUFS | ENOMEM | EADDRNOTAVAIL | EAGAIN)
    )
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
    let probes =
        TcpKeepalive::new().with_time(DEAD_AFTER / 2).with_interval(DEAD_AFTER / 4).with_retries(2);
    socket.set_tcp_keepalive(&probes)
}
