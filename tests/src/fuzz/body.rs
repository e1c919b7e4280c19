//! Requests through a whole proxy, held against a strict parser: both must agree on how many there are and what they say.

use crate::wire::origin::Origin;
use crate::wire::row::Row;
use crate::wire::run;
use crate::wire::strict::{self, Kind, Message, Parsed};
use parking_lot::Mutex;
use proxy::clock::Clock;
use proxy::discovery::topology;
use proxy::drain::Signal;
use proxy::registry::Registry;
use proxy::worker::Workers;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// What the bytes follow, if they do not begin with a request themselves.
const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: wire\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Marks input that is sent as it is.
const WHOLE: u8 = b'!';

/// The bytes are a chunked body with all that follows it, or after `!` a request. No request that the origin sees is malformed;
/// and of what a strict parser reads, the proxy passes on exactly that, or refuses it.
pub fn body(bytes: &[u8]) {
    let request = match bytes.split_first() {
        Some((&WHOLE, rest)) => rest.to_vec(),
        _ => [CHUNKED, bytes].concat(),
    };
    // Another protocol is none of this target's business.
    if proxy::fuzzing::detect(&request) != proxy::fuzzing::Spoken::Http1 {
        return;
    }
    let strict = requests(&request);
    let setup = SETUP.get_or_init(Setup::start).lock();
    let mut row = Row::new("fuzz", request.clone());
    row.expected.requests = 0;
    let (seen, junk) = run::pass(setup.proxy, &setup.origin, &row);
    assert!(junk.is_empty(), "the origin saw {junk:?} of {:?}", String::from_utf8_lossy(&request));
    let leading = seen.iter().zip(&strict);
    for (seen, strict) in leading {
        assert_eq!(method(seen), method(strict), "{:?}", String::from_utf8_lossy(&request));
        assert!(
            seen.body == strict.body,
            "another body for {:?}",
            String::from_utf8_lossy(&request)
        );
    }
}

/// The requests in these bytes, up to the first that is broken.
fn requests(mut bytes: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    while let Parsed::Whole(message, used) = strict::parse(bytes, Kind::Request, true) {
        found.push(message);
        bytes = bytes.get(used..).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
    }
    found
}

fn method(message: &Message) -> &str {
    message.start.split(' ').next().unwrap_or_default()
}

struct Setup {
    proxy: SocketAddr,
    origin: Origin,
    _workers: Workers,
}

static SETUP: OnceLock<Mutex<Setup>> = OnceLock::new();

impl Setup {
    fn start() -> Mutex<Self> {
        let origin = Origin::start();
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:0\"\nservice = \"wire\"\n[[service]]\nname = \"wire\"\nprotocol = \"http1\"\n\
             [[service.endpoint]]\naddress = \"{}\"\n",
            origin.address
        );
        let world = topology::parse(&text).unwrap();
        let registry = Arc::new(Registry::new(Clock::start()));
        registry.apply(&world);
        let workers = Workers::start(1, &registry, &world.listeners, &Signal::default()).unwrap();
        let proxy = workers.addresses.first().copied().unwrap();
        Mutex::new(Self { proxy, origin, _workers: workers })
    }
}
