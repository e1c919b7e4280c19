//! The program itself.

use crate::caller::{connect, pod};
use crate::cluster::Cluster;
use crate::program::{PROGRAM, start};
use crate::support::{SOON, until};
use injector::metrics::METRICS;
use serde_json::json;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

#[tokio::test]
async fn it_serves_counts_drains_and_ends_well() {
    let cluster = Cluster::start(&[("shop", json!({}))]).await;
    let mut running = start(&cluster, &["--linger=200ms"]).await;
    let bundle = cluster.state.lock().bundle.clone().unwrap();
    let mut connection = connect(running.webhook, &bundle, "h2").await.unwrap();
    connection.review("shop", &pod(&json!({}))).await.unwrap();
    let metrics = get(running.admin, "/metrics").await.unwrap();
    for (name, kind, ..) in METRICS.iter().filter(|(name, ..)| !name.ends_with("bare_pods")) {
        assert!(metrics.contains(&format!("# TYPE {name} {kind}\n")), "{name} in {metrics}");
    }
    let line = "tidegate_injector_reviews_total{result=\"injected\",reason=\"\"} 1";
    assert!(metrics.contains(line), "{line} in {metrics}");

    let id = running.child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().await.unwrap().success());
    until("it no longer wants calls", async || {
        get(running.admin, "/ready")
            .await
            .is_none_or(|answer| answer.contains("draining"))
            .then_some(())
    })
    .await;
    let status = tokio::time::timeout(SOON, running.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn mistakes_are_told_and_end_it() {
    let cases: [(&[&str], i32, &str); 6] = [
        (&["serve", "--kubeconfig=/nowhere"], 1, "cannot read /nowhere (--kubeconfig)"),
        (&["serve", "--certificate-file=x"], 2, "--certificate-key-file"),
        (&["serve", "--certificate-life=soon"], 2, "--certificate-life"),
        (&["serve", "--log-level=loud=x=y"], 1, "no such level"),
        (&["serve", "--pod-security-default=none"], 2, "write privileged, baseline or restricted"),
        (&["serf"], 2, "'serve'"),
    ];
    for (arguments, status, text) in cases {
        let output = Command::new(PROGRAM).args(arguments).env_clear().output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(text), "{arguments:?}: {errors}");
    }
    let help = Command::new(PROGRAM).args(["serve", "--help"]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("--webhook-configuration"));
}
