//! Properties that must hold for any bytes: what the targets in `crates/fuzz` run, and what the ordinary tests run over their
//! corpus.

mod balancer;
mod body;

pub use balancer::balancer;
pub use body::body;

use balance::time::Timestamp;
use proxy::flood::{Meter, Side};
use proxy::fuzzing::{self, Spoken};

/// A target, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by the names of their folders.
pub const TARGETS: [Target; 6] = [
    ("detect", detect),
    ("head", head),
    ("body", body),
    ("frames", frames),
    ("topology", topology),
    ("balancer", balancer),
];

/// Detection never changes its mind, and makes it up in time.
pub fn detect(bytes: &[u8]) {
    let mut before = Spoken::Open;
    let longest = bytes.len().min(fuzzing::DETECTED_BY);
    for length in 0..=longest {
        let seen = bytes.get(..length).unwrap_or_default();
        let now = fuzzing::detect(seen);
        assert!(before == Spoken::Open || before == now, "{before:?}, then {now:?}: {seen:?}");
        before = now;
    }
    assert!(longest < fuzzing::DETECTED_BY || before != Spoken::Open, "never certain: {bytes:?}");
}

/// What passes the rules carries nothing that belongs to the connection, and nothing twice that frames or routes.
pub fn head(bytes: &[u8]) {
    for http2 in [false, true] {
        let Some(headers) = fuzzing::request_head(bytes, http2) else { continue };
        for name in [
            "connection",
            "keep-alive",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
            "http2-settings",
        ] {
            assert!(!headers.contains_key(name), "{name} is passed on");
        }
        assert!(headers.get("te").is_none_or(|te| te == "trailers"));
        for name in ["host", "te", "cookie"] {
            assert!(headers.get_all(name).iter().count() <= 1, "{name} twice");
        }
    }
}

/// The meter counts the same however the bytes are cut.
pub fn frames(bytes: &[u8]) {
    let start = Timestamp::from_nanos(1);
    for side in [Side::Server, Side::Client] {
        let mut whole = Meter::new(side, start);
        let mut cut = Meter::new(side, start);
        let at_once = whole.received(bytes, || start);
        whole.sent(bytes);
        let mut in_pieces = Ok(());
        for piece in bytes.chunks(7) {
            let counted = cut.received(piece, || start);
            in_pieces = in_pieces.and(counted);
        }
        for piece in bytes.chunks(3) {
            cut.sent(piece);
        }
        // A flood in the middle may be made up for by the end; the end itself is the same.
        if in_pieces.is_ok() {
            assert_eq!(at_once, Ok(()));
            assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        }
    }
}

/// A topology file is taken or refused with its mistakes.
pub fn topology(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match proxy::discovery::topology::parse(text) {
        Ok(_) => {}
        Err(report) => assert!(!report.to_string().is_empty()),
    }
}
