//! Ports that stay free until a program takes them.

use crate::programs::{self, Missing};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which Linux and macOS take the source ports of connections, so that no connection of a test running
/// at the same time can take one in between.
const FIRST: u16 = 18_000;
const COUNT: u16 = 14_000;

/// An address of this machine that is not loopback, which Kubernetes takes for no endpoint. What is sent there does not leave.
pub fn outside() -> Result<IpAddr, Missing> {
    // Nothing is sent: only the route is asked for.
    let route = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9))?;
        socket.local_addr()
    });
    match route {
        Ok(address) if !address.ip().is_loopback() => Ok(address.ip()),
        Ok(_) | Err(_) => Err(programs::missing("a network, if only to have an address")),
    }
}

/// A free address on loopback. No two calls in one process give the same.
pub fn free() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test programs that run at the same time begin elsewhere.
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = (u32::from(start) * 37 + u32::from(step)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port on loopback");
}
