//! The wire table against our proxy, row by row.

use std::net::SocketAddr;
use tests::ports;
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::wire::origin::Origin;
use tests::wire::row::{End, Row};
use tests::wire::strict::Message;
use tests::wire::{http2, rows, run};

/// A proxy with one worker and one endpoint.
fn start(endpoint: SocketAddr, protocol: &str) -> (SocketAddr, Proxy) {
    let web = ports::free();
    let topology = Topology::zone("a")
        .listener(web, "wire")
        .service("wire", &format!("protocol = \"{protocol}\""))
        .endpoint(endpoint, "a");
    (web, Proxy::start_with(&topology, &["--workers", "1"]))
}

/// Fails with all complaints at once.
fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} rows:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_row_about_http1_holds() {
    let origin = Origin::start();
    let (target, _proxy) = start(origin.address, "http1");
    let mut failures = Vec::new();
    for row in rows::all() {
        let outcome = run::run(target, &origin, &row);
        let complaints = row.expected.complaints(&outcome);
        println!("{}: {}", row.id, outcome.summary());
        if !complaints.is_empty() {
            failures.push(format!("{}: {} ({})", row.id, complaints.join(", "), outcome.summary()));
        }
    }
    report(&failures);
}

#[test]
fn every_row_about_http2_callers_holds() {
    let origin = Origin::start();
    let (target, _proxy) = start(origin.address, "http1");
    let mut failures = Vec::new();
    for row in http2::rows::requests() {
        origin.set(&Row::new(row.id, ""));
        let outcome = http2::caller::run(target, &row);
        let (requests, junk) = origin.seen();
        println!("{}: {:?} {:?}", row.id, outcome.answer, outcome.end);
        let text = requests.first().map(Message::text).unwrap_or_default();
        let mut complaints: Vec<String> = row.expected.complaint(&outcome).into_iter().collect();
        if requests.len() != row.requests || !junk.is_empty() {
            complaints.push(format!("{} requests, junk {junk:?}", requests.len()));
        }
        let missing = row.says.iter().filter(|line| !text.lines().any(|found| found == **line));
        complaints.extend(missing.map(|line| format!("no line {line:?} in {text:?}")));
        let present = row.lacks.iter().filter(|part| text.contains(**part));
        complaints.extend(present.map(|part| format!("{part:?} is there")));
        if !complaints.is_empty() {
            failures.push(format!("{}: {}", row.id, complaints.join(", ")));
        }
    }
    report(&failures);
}

#[test]
fn every_row_about_http2_endpoints_holds() {
    // It only parses here; what it answers does not matter.
    let scripts = http2::origin::Origin::start();
    let (target, _proxy) = start(scripts.address, "http2");
    let unused = Origin::start();
    let mut failures = Vec::new();
    for (id, script, status) in http2::rows::answers() {
        scripts.set(script);
        let row = Row::new(id, "GET / HTTP/1.1\r\nHost: wire\r\n\r\n").requests(0);
        let outcome = run::run(target, &unused, &row);
        let found = outcome.answer.as_ref().map_or(0, Message::status);
        println!("{id}: {found} {:?}", outcome.end);
        if found != status || outcome.end != End::Kept || outcome.broken.is_some() {
            failures.push(format!("{id}: {found}, not {status}; {:?}", outcome.end));
        }
        // Only what was provably not looked at is sent again.
        let again = id == "h2-goaway-before-the-request";
        if scripts.requests() != 1 && !again {
            failures.push(format!("{id}: {} requests", scripts.requests()));
        }
    }
    report(&failures);
}

#[test]
fn a_message_means_the_same_however_it_is_cut() {
    let origin = Origin::start();
    let (target, _proxy) = start(origin.address, "http1");
    let mut failures = Vec::new();
    let short = |row: &Row| row.request.len() < 120 && row.expected.requests > 0;
    for row in rows::all().iter().filter(|row| short(row) && CUT.contains(&row.id)) {
        let each = (1..row.request.len()).map(|cut| vec![cut]);
        let everywhere = (1..row.request.len()).collect();
        for cuts in each.chain([everywhere]) {
            let outcome = run::run_in_pieces(target, &origin, row, &cuts);
            let complaints = row.expected.complaints(&outcome);
            if !complaints.is_empty() {
                failures.push(format!("{} cut at {cuts:?}: {complaints:?}", row.id));
            }
        }
    }
    report(&failures);
}

/// One row for each kind of framing.
const CUT: [&str; 5] = [
    "two-equal-lengths",
    "get-with-chunked-body",
    "chunk-extension",
    "trailers-announced",
    "empty-line-before-request",
];
