//! `cargo xtask bench injector`: how fast the webhook answers at a steady rate, and whether a call fails while its certificate
//! and its authority are renewed.
//!
//! The program runs as it does in a cluster, with certificates that live for seconds. The rate is kept whatever the answers
//! take, and a call's time counts from when it was due: a webhook that stands still is seen in every call that waits.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark stops at its first surprise and prints what it found"
)]

#[path = "../tests/webhook/caller.rs"]
mod caller;
#[path = "../tests/webhook/cluster.rs"]
mod cluster;
#[path = "../tests/webhook/program.rs"]
#[expect(dead_code, reason = "only the tests ask its admin server")]
mod program;

use caller::{Connection, connect, pod};
use clap::Parser;
use cluster::Cluster;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use program::{Running, start};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What is promised.
const P99_MAX: Duration = Duration::from_millis(50);
/// Of so many calls one comes on a new connection: API servers keep theirs, but each first call checks the certificate.
const NEW_CONNECTION_EVERY: u32 = 5;

/// Load on the webhook, while its certificates are renewed
#[derive(Parser)]
struct Arguments {
    /// Reviews a second
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

struct Found {
    nanoseconds: Histogram<u64>,
    failures: Vec<String>,
    certificates: BTreeSet<String>,
    authorities: BTreeSet<String>,
}

/// What every call needs.
struct Target {
    cluster: Cluster,
    address: SocketAddr,
    kept: tokio::sync::Mutex<Option<Connection>>,
    pod: Value,
    found: Mutex<Found>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cluster = Cluster::start(&[("shop", json!({ "tidegate.io/inject": "enabled" }))]).await;
    let lives = ["--certificate-life=15s", "--authority-life=60s"];
    let Running { child: mut program, webhook: address, .. } = start(&cluster, &lives).await;
    let found = Found {
        nanoseconds: Histogram::new(3).unwrap(),
        failures: Vec::new(),
        certificates: BTreeSet::new(),
        authorities: BTreeSet::new(),
    };
    let kept = tokio::sync::Mutex::new(None);
    let target =
        Arc::new(Target { cluster, address, kept, pod: large_pod(), found: Mutex::new(found) });

    let (start, mut calls) = (Instant::now(), Vec::new());
    for index in 0..arguments.rate * arguments.seconds {
        let due = start + Duration::from_secs(1) * index / arguments.rate;
        tokio::time::sleep_until(due).await;
        calls.push(tokio::spawn(call(Arc::clone(&target), index, due)));
    }
    for call in calls {
        call.await.unwrap();
    }
    assert!(program.try_wait().unwrap().is_none(), "the injector ended");
    report(&arguments, &target.found.lock())
}

/// A pod with as much in it as a large chart puts there.
fn large_pod() -> Value {
    let mut pod =
        pod(&json!({ "tidegate.io/log-level": "warn", "tidegate.io/cpu-request": "100m" }));
    let variable =
        |index: u32| json!({ "name": format!("SETTING_{index}"), "value": "x".repeat(40) });
    let variables: Vec<Value> = (0..60).map(variable).collect();
    for name in ["init", "other"] {
        let list = if name == "init" { "initContainers" } else { "containers" };
        let container =
            json!({ "name": name, "image": "web:1", "env": variables, "resources": {} });
        match pod["spec"][list].as_array_mut() {
            Some(containers) => containers.push(container),
            None => pod["spec"][list] = json!([container]),
        }
    }
    pod
}

async fn call(target: Arc<Target>, index: u32, due: Instant) {
    let done = if index.is_multiple_of(NEW_CONNECTION_EVERY) {
        new_connection(&target).await
    } else {
        kept_connection(&target).await
    };
    let mut found = target.found.lock();
    match done {
        Ok(answer) if !answer["patch"].is_null() => {
            let took = u64::try_from(due.elapsed().as_nanos()).unwrap();
            found.nanoseconds.record(took).unwrap();
        }
        Ok(answer) => found.failures.push(format!("call {index}: no patch: {answer}")),
        Err(error) => found.failures.push(format!("call {index}: {error}")),
    }
}

/// As an API server that starts: it trusts the bundle of the moment.
async fn new_connection(target: &Target) -> Result<Value, String> {
    let (bundle, certificate) = {
        let state = target.cluster.state.lock();
        (
            state.bundle.clone().unwrap(),
            state.secrets["tidegate-certificate"]["data"]["tls.crt"].to_string(),
        )
    };
    {
        let mut found = target.found.lock();
        found.certificates.insert(certificate);
        found.authorities.insert(bundle.clone());
    }
    connect(target.address, &bundle, "h2").await?.review("shop", &target.pod).await
}

/// As an API server that runs: over one connection for all.
async fn kept_connection(target: &Target) -> Result<Value, String> {
    let mut connection = {
        let mut kept = target.kept.lock().await;
        if kept.is_none() {
            let bundle = target.cluster.state.lock().bundle.clone().unwrap();
            *kept = Some(connect(target.address, &bundle, "h2").await?);
        }
        match &*kept {
            Some(Connection::Http2(sender)) => Connection::Http2(sender.clone()),
            other => panic!("not HTTP/2: {other:?}"),
        }
    };
    connection.review("shop", &target.pod).await
}

fn report(arguments: &Arguments, found: &Found) -> ExitCode {
    let quantile = |quantile| Duration::from_nanos(found.nanoseconds.value_at_quantile(quantile));
    let p99 = quantile(0.99);
    println!(
        "| reviews/s | reviews | failed | p50 | p99 | p99.9 | longest | certificates | bundles |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    println!(
        "| {} | {} | {} | {:.1?} | {p99:.1?} | {:.1?} | {:.1?} | {} | {} |",
        arguments.rate,
        arguments.rate * arguments.seconds,
        found.failures.len(),
        quantile(0.5),
        quantile(0.999),
        quantile(1.0),
        found.certificates.len(),
        found.authorities.len(),
    );
    for failure in found.failures.iter().take(10) {
        println!("{failure}");
    }
    let renewed = found.certificates.len() > 1 && found.authorities.len() > 1;
    if !renewed {
        println!("missed: nothing was renewed, run for longer");
    }
    if p99 > P99_MAX {
        println!("missed: p99 is more than {P99_MAX:?}");
    }
    let held = renewed && p99 <= P99_MAX && found.failures.is_empty();
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
