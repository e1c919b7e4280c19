//! What the proxy turned away, and why: requests that it answered itself, connections that it ended.

use super::Lazy;
use std::sync::LazyLock;

/// Why the proxy ended a connection that its peer would have kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Nothing came for a long time.
    Idle,
    /// A request's header did not arrive in time.
    HeaderTimeout,
    /// A body stood still: the peer did not send what was waited for, or did not read.
    Stalled,
    /// The first message was no HTTP, or its framing was wrong.
    BadMessage,
    /// Too many HTTP/2 frames that carry nothing.
    ControlFlood,
    /// Too many HTTP/2 streams taken back.
    ResetFlood,
    /// There was no room for it.
    Overloaded,
}

/// Whose connection it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The application, or whoever calls it.
    Caller,
    /// An endpoint.
    Endpoint,
}

/// The values of the label `reason` of `tidegate_closed_connections_total`.
const CLOSED: [&str; 7] = [
    "idle",
    "header_timeout",
    "stalled",
    "bad_message",
    "control_flood",
    "reset_flood",
    "overloaded",
];

const PEERS: [&str; 2] = ["caller", "endpoint"];

/// More than there are reasons for the proxy to answer itself.
const REFUSALS_MAX: usize = 32;

/// One for the process: a peer that is turned away has no service yet.
static EDGE: LazyLock<Edge> = LazyLock::new(Edge::default);

#[derive(Debug, Default)]
struct Edge {
    refused: Lazy<REFUSALS_MAX>,
    closed: [Lazy<7>; 2],
}

/// Says what each metric means.
pub(super) fn describe() {
    metrics::describe_counter!(
        "tidegate_refused_requests_total",
        "Requests that the proxy answered itself, by what the answer says in `tidegate-reason`"
    );
    metrics::describe_counter!(
        "tidegate_closed_connections_total",
        "Connections that the proxy ended although their peer would have kept them"
    );
}

/// Counts a request that the proxy answered itself; `index` is the reason's own.
pub(crate) fn refused(index: usize, reason: &'static str) {
    EDGE.refused.increment(index, || {
        metrics::counter!("tidegate_refused_requests_total", "direction" => "outbound", "reason" => reason)
    });
}

/// Counts a connection that was ended.
pub(crate) fn closed(peer: Peer, why: Closed) {
    let names = (PEERS.get(peer as usize), CLOSED.get(why as usize));
    if let (Some(family), (Some(peer), Some(reason))) = (EDGE.closed.get(peer as usize), names) {
        family.increment(why as usize, || {
            metrics::counter!("tidegate_closed_connections_total", "peer" => *peer, "reason" => *reason)
        });
    }
}
