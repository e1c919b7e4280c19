//! New connections to endpoints.

use crate::endpoint::Endpoint;
use crate::upstream::failure::Failure;
use crate::upstream::stream::Counted;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::net::TcpStream;

/// A peer that does not acknowledge for this long is dead; probes find one that is silent in half of it.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(20);

/// Where to connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) connect_timeout: Duration,
    pub(crate) clock: crate::clock::Clock,
}

/// Connects.
pub(crate) async fn connect(to: &Target<'_>) -> Result<TokioIo<Counted>, Failure> {
    let address = to.endpoint.address;
    let connecting = tokio::time::timeout(to.connect_timeout, TcpStream::connect(address));
    let stream = match connecting.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(Failure::Connect { address, source }),
        Err(_elapsed) => {
            return Err(Failure::ConnectTimeout { address, limit: to.connect_timeout });
        }
    };
    prepare(&stream).map_err(|source| Failure::Connect { address, source })?;
    Ok(TokioIo::new(Counted::new(stream, to.endpoint.zone.bytes())))
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
    let probes =
        TcpKeepalive::new().with_time(DEAD_AFTER / 2).with_interval(DEAD_AFTER / 4).with_retries(2);
    socket.set_tcp_keepalive(&probes)
}
