//! Peers that send HTTP/2 frames by the thousand.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at its first surprise")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tests::deadline::{Deadline, SOON};
use tests::ports;
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::wire::http2::{END_HEADERS, END_STREAM, caller, data, frame, headers, kind, origin};

/// More frames than any flood may get through: a connection that takes them all is not protected.
const FRAMES_MAX: u32 = 200_000;

/// What a flood may add to the memory of the proxy.
const GROWTH_KIB_MAX: u64 = 5 * 1024;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "wire"), (":path", "/")];

fn start(endpoint: SocketAddr) -> (SocketAddr, Proxy) {
    let web = ports::free();
    let topology = Topology::zone("a")
        .listener(web, "wire")
        .service("wire", "protocol = \"http2\"")
        .endpoint(endpoint, "a");
    (web, Proxy::start_with(&topology, &["--workers", "1"]))
}

/// One round of a flood; `round` counts from 0.
type Flood = fn(round: u32) -> Vec<u8>;

const FLOODS: [(&str, Flood); 12] = [
    ("rapid reset", |round| {
        let stream = 2 * round + 1;
        [headers(stream, &GET, END_STREAM), frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8])]
            .concat()
    }),
    ("made you reset", |round| {
        let stream = 2 * round + 1;
        [headers(stream, &GET, END_STREAM), frame(kind::WINDOW_UPDATE, 0, stream, &[0; 4])].concat()
    }),
    ("continuation", |round| match round {
        0 => frame(kind::HEADERS, END_STREAM, 1, &[]),
        _ => frame(kind::CONTINUATION, 0, 1, &[0x10, 1, b'a', 1, b'b']),
    }),
    ("empty continuation", |round| match round {
        0 => frame(kind::HEADERS, END_STREAM, 1, &[]),
        _ => frame(kind::CONTINUATION, 0, 1, &[]),
    }),
    ("empty data", |round| match round {
        0 => headers(1, &GET, 0),
        _ => data(1, "", 0),
    }),
    ("ping", |_| frame(kind::PING, 0, 0, &[0; 8])),
    ("settings", |_| frame(kind::SETTINGS, 0, 0, &[])),
    ("settings that change", |round| {
        frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, u8::try_from(round % 256).unwrap()])
    }),
    ("window update", |_| frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
    ("priority", |_| frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
    ("unknown frames", |_| frame(0x42, 0, 1, b"unknown")),
    ("goaway", |_| frame(kind::GOAWAY, 0, 0, &[0; 8])),
];

/// A caller beside the flood, whose requests must all succeed.
struct Good {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl Good {
    fn start(target: SocketAddr) -> Self {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (until, count) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let (status, _) = tests::http::get(target, "/follow").expect("an answer");
                assert_eq!(status, 200);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, asked, thread }
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every request beside the flood succeeds");
        self.asked.load(Ordering::Relaxed)
    }
}

#[test]
fn floods_of_callers_end_and_disturb_nobody() {
    let origin = origin::Origin::start();
    origin.set(Arc::new(origin::plain));
    let (target, proxy) = start(origin.address);
    let good = Good::start(target);
    for (name, flood) in FLOODS {
        let before = proxy.process.resident_kib();
        let mut peer = caller::connect(target);
        let mut reader = peer.stream.try_clone().unwrap();
        // What the proxy answers is read and not looked at, so that nothing stops it.
        let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        let sent = (0..FRAMES_MAX).step_by(50).find(|first| {
            let rounds: Vec<u8> = (*first..first + 50).flat_map(flood).collect();
            !peer.write(&rounds)
        });
        let grown = proxy.process.resident_kib().saturating_sub(before);
        println!("{name}: ended after {sent:?} rounds, {grown} KiB");
        assert!(sent.is_some(), "{name}: not ended after {FRAMES_MAX} rounds");
        assert!(grown <= GROWTH_KIB_MAX, "{name}: {grown} KiB");
        // A reset is as good an end as any.
        drop(reading.join().unwrap());
    }
    assert!(good.stop() > 0);
    let closed = proxy.metrics().sum("tidegate_closed_connections_total", &[("peer", "caller")]);
    assert!(closed >= 5.0, "{closed} floods were counted");
}

#[test]
fn floods_of_endpoints_end_and_are_their_failure() {
    let origin = origin::Origin::start();
    let (target, proxy) = start(origin.address);
    for (name, flood) in FLOODS {
        if matches!(
            name,
            "made you reset" | "rapid reset" | "continuation" | "empty data" | "goaway"
        ) {
            continue;
        }
        let before = proxy.process.resident_kib();
        origin.set(Arc::new(move |_| (0..20_000).flat_map(flood).collect()));
        let (status, _) = tests::http::get(target, "/").expect("an answer");
        let grown = proxy.process.resident_kib().saturating_sub(before);
        println!("{name}: {status}, {grown} KiB");
        assert_eq!(status, 502, "{name}");
        assert!(grown <= GROWTH_KIB_MAX, "{name}: {grown} KiB");
        assert_eq!(tests::http::get(target, "/follow").expect("an answer").0, 200, "{name}");
    }
    // Hints before an answer, without end.
    origin.set(Arc::new(|stream| {
        (0..20_000).flat_map(|_| headers(stream, &[(":status", "103")], 0)).collect()
    }));
    assert_eq!(tests::http::get(target, "/").expect("an answer").0, 502);
    // Resets of a stream that was answered.
    origin.set(Arc::new(|stream| {
        let resets = (0..20_000).flat_map(|_| frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        [headers(stream, &[(":status", "200")], END_STREAM | END_HEADERS), resets.collect()]
            .concat()
    }));
    assert_eq!(tests::http::get(target, "/").expect("an answer").0, 200);
    assert_eq!(tests::http::get(target, "/follow").expect("an answer").0, 200);
    let closed = proxy.metrics().sum("tidegate_closed_connections_total", &[("peer", "endpoint")]);
    assert!(closed >= 5.0, "{closed} floods were counted");
}

#[test]
fn one_callers_cancelled_requests_do_not_end_the_connection_of_others() {
    let origin = origin::Origin::start();
    // It never answers what is not from the good caller.
    origin.set(Arc::new(|_| Vec::new()));
    origin.bear_resets(400);
    let (target, proxy) = start(origin.address);
    let good = Good::start(target);
    let mut cancelled = 0;
    while cancelled < 1_500 {
        let mut peer = caller::connect(target);
        for stream in (1..).step_by(2).take(200) {
            let before = origin.requests();
            if !peer.write(&headers(stream, &GET, END_STREAM)) {
                break;
            }
            let soon = Deadline::within(SOON);
            while origin.requests() == before {
                assert!(!soon.is_over(), "the request does not arrive");
                std::thread::yield_now();
            }
            peer.write(&frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]));
            cancelled += 1;
        }
    }
    assert!(good.stop() > 0);
    assert_eq!(origin.ended(), 0, "the endpoint saw no connection with too many resets");
    println!("{} connections for {cancelled} cancelled requests", origin.connections());
    proxy.assert_no_ejection("wire");
}
