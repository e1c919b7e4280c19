//! Counts the allocations of a request. Caller, proxy and endpoint share one thread here, and caller and endpoint allocate
//! nothing, so that what is counted is the proxy's.

use super::testing::{self, ask};
use tokio::net::TcpStream;

/// Requests between two looks at the counter.
const REQUESTS: u64 = 1000;

/// What a request allocates: four tables of the HTTP library's parser, which has room for 100 fields without; the request's
/// head and its copy for a retry; what the library hands it over with, and the maps of its header fields.
const EACH: u64 = 12;

#[test]
fn a_request_allocates_little() {
    let runtime = testing::runtime();
    let mut caller = runtime
        .block_on(async { TcpStream::connect(testing::start().await.address).await.unwrap() });
    // Connections, pools and tables are made first.
    runtime.block_on(ask_often(&mut caller));
    let counted =
        allocation_counter::measure(|| runtime.block_on(ask_often(&mut caller))).count_total;
    let each = counted as f64 / REQUESTS as f64;
    // A buffer that grows now and then is no matter.
    assert!(counted < EACH * REQUESTS + REQUESTS / 10, "{each} allocations a request");
}

async fn ask_often(caller: &mut TcpStream) {
    for _ in 0..REQUESTS {
        ask(caller).await;
    }
}
