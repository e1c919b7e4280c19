//! What the proxies are asked to do, and what it may cost.

use crate::load::Load;
use crate::peer::{Peer, Speaks};

/// One kind of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) speaks: Speaks,
    pub(crate) load: Load,
    /// The largest median ratio of Tidegate's CPU per request to Envoy's.
    pub(crate) budget: Option<f64>,
    /// Whether two proxies stand in a row, as the sidecars of caller and server do.
    pub(crate) two: bool,
}

/// All work, in the order of the table.
pub(crate) const ALL: [Work; 10] = [
    http1("HTTP/1.1, 1 connection", 1, None),
    http1("HTTP/1.1, 16 connections", 16, Some(0.38)),
    http1("HTTP/1.1, 64 connections", 64, None),
    http1("HTTP/1.1, 256 connections", 256, Some(0.32)),
    Work { two: true, ..http1("two proxies in a row, HTTP/1.1, 64 connections", 64, None) },
    Work {
        name: "HTTP/2, 8 x 32",
        speaks: Speaks::Http2,
        load: Load::Http2 { connections: 8, streams: 32 },
        budget: Some(0.45),
        two: false,
    },
    Work {
        name: "gRPC unary, 8 x 32",
        speaks: Speaks::Grpc,
        load: Load::Grpc { connections: 8, streams: 32 },
        budget: Some(0.45),
        two: false,
    },
    Work {
        name: "fixed 1,000/s",
        speaks: Speaks::Http1,
        load: Load::Fixed { rate: 1000 },
        budget: Some(0.45),
        two: false,
    },
    Work {
        name: "fixed 6,000/s",
        speaks: Speaks::Http1,
        load: Load::Fixed { rate: 6000 },
        budget: None,
        two: false,
    },
    Work {
        name: "TCP, 16 connections, each request 1 MiB",
        speaks: Speaks::Tcp,
        load: Load::Bulk { connections: 16 },
        budget: None,
        two: false,
    },
];

const fn http1(name: &'static str, connections: u32, budget: Option<f64>) -> Work {
    Work { name, speaks: Speaks::Http1, load: Load::Http1 { connections }, budget, two: false }
}

impl Work {
    /// Whether a peer can do it.
    pub(crate) fn suits(&self, peer: Peer) -> bool {
        match peer {
            Peer::Direct => !self.two,
            // A relay pairs each client connection with one to an endpoint, whatever the bytes are.
            Peer::Relay | Peer::Tidegate | Peer::Envoy | Peer::Haproxy => true,
            // To nginx, what passes streams is a package of its own.
            Peer::Hyper | Peer::Nginx => self.speaks != Speaks::Tcp,
        }
    }
}
