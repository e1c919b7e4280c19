//! Free ports that stay free.
//!
//! Backends are killed and started again on the same port a minute later. A port that the system hands out by itself
//! could meanwhile become the source port of one of the demo's own connections, so these come from below the range
//! that Linux (32768) and macOS (49152) use for that.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

const FIRST: u16 = 18_000;
const LAST: u16 = 32_000;

/// Finds `count` free ports on loopback.
pub(crate) fn free(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let start = fastrand::u16(FIRST..LAST);
    let candidates = (start..LAST).chain(FIRST..start);
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    let found: Vec<_> = candidates
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .filter(is_free)
        .take(count)
        .collect();
    anyhow::ensure!(
        found.len() == count,
        "only {} free ports on loopback from {FIRST} to {LAST}",
        found.len()
    );
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_free() {
        let ports = free(30).unwrap();
        let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), 30);
    }

    #[test]
    fn a_taken_port_is_left_out() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!free(30).unwrap().contains(&taken.local_addr().unwrap()));
    }
}
