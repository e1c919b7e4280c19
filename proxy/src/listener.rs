//! Listening sockets. Each worker has its own socket on each address, and the kernel spreads new connections over them.

use crate::discovery::{ListenerKind, ListenerSpec};
use crate::worker::StartError;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io::Result;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Connections that the kernel keeps for a busy worker.
const BACKLOG: i32 = 4096;

/// A caller that acknowledges nothing for this long is dead. Longer than for endpoints: nobody waits for a caller.
const DEAD_AFTER: Duration = Duration::from_mins(1);

/// One worker's socket on one address.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) socket: TcpListener,
    pub(crate) kind: ListenerKind,
}

/// Binds all listeners, once for each of `workers`.
pub(crate) fn bind(
    listeners: &[ListenerSpec],
    workers: usize,
) -> std::result::Result<(Vec<SocketAddr>, Vec<Vec<Bound>>), StartError> {
    let mut addresses = Vec::with_capacity(listeners.len());
    let mut shares: Vec<Vec<Bound>> =
        (0..workers).map(|_| Vec::with_capacity(listeners.len())).collect();
    for listener in listeners {
        let bound = match sockets(listener, workers) {
            Ok(bound) => bound,
            Err(error) if listener.kind.is_redirected() && is_without_ipv6(listener, &error) => {
                tracing::info!(address = %listener.address, "no IPv6 here, so nothing comes by it");
                addresses.push(listener.address);
                continue;
            }
            Err(source) => return Err(StartError::Bind { address: listener.address, source }),
        };
        addresses.push(bound.0);
        for (share, socket) in shares.iter_mut().zip(bound.1) {
            share.push(Bound { socket, kind: listener.kind.clone() });
        }
    }
    Ok((addresses, shares))
}

/// Whether the machine has no IPv6 at all, or none on the address: no rule leads here then.
fn is_without_ipv6(listener: &ListenerSpec, error: &std::io::Error) -> bool {
    /// Of Linux: the family is not there.
    const EAFNOSUPPORT: i32 = 97;
    let absent = error.raw_os_error() == Some(EAFNOSUPPORT)
        || error.kind() == std::io::ErrorKind::AddrNotAvailable;
    listener.address.is_ipv6() && absent
}

fn sockets(listener: &ListenerSpec, count: usize) -> Result<(SocketAddr, Vec<TcpListener>)> {
    let one_family = listener.kind.is_redirected();
    let socket = |address, sharing| socket(address, sharing, one_family);
    let address = listener.address;
    // Sockets that share a port would also share it with another process of the same user: the first one is bound alone,
    // so that a port in use is an error.
    let alone = socket(address, Sharing::Alone)?;
    let address = alone.local_addr()?;
    if count == 1 {
        return Ok((address, vec![alone]));
    }
    drop(alone);
    let shared: Result<Vec<_>> =
        (0..count).map(|_| socket(address, Sharing::WithOtherWorkers)).collect();
    Ok((address, shared?))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    WithOtherWorkers,
}

fn socket(address: SocketAddr, sharing: Sharing, one_family: bool) -> Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if sharing == Sharing::WithOtherWorkers {
        socket.set_reuse_port(true)?;
    }
    // Connections inherit it: a caller that is gone without a word, its network with it, is found.
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
    let probes =
        TcpKeepalive::new().with_time(DEAD_AFTER / 2).with_interval(DEAD_AFTER / 4).with_retries(2);
    socket.set_tcp_keepalive(&probes)?;
    if one_family && address.is_ipv6() {
        // IPv4 has a listener of its own on the same port.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
