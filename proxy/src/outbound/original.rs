//! Where a redirected connection was going to: the kernel remembers what the caller dialled.

use socket2::SockRef;
use std::io::{ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;

/// The address that the caller dialled; `None` when that was the listener's own, without any rule between.
pub(crate) fn destination(stream: &TcpStream) -> Result<Option<SocketAddr>> {
    let local = canonical(stream.local_addr()?);
    let socket = SockRef::from(stream);
    let original =
        if local.is_ipv4() { socket.original_dst_v4() } else { socket.original_dst_v6() };
    match original {
        Ok(address) => Ok(address.as_socket().map(canonical).filter(|address| *address != local)),
        // No entry for the connection: ENOENT. No connection tracking here at all: ENOPROTOOPT.
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(92) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// IPv4 as such, also where it came through a socket of IPv6; without scope and flow, so that equal addresses are equal.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
        IpAddr::V6(ip) => {
            let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
            SocketAddr::new(ip, address.port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn addresses_are_compared_in_one_form() {
        let cases = [
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
            ("[fd00::1]:80", "[fd00::1]:80"),
            ("[fe80::1%3]:80", "[fe80::1]:80"),
        ];
        for (from, expected) in cases {
            assert_eq!(canonical(from.parse().unwrap()), expected.parse().unwrap(), "{from}");
        }
    }
}
