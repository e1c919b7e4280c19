//! The certificate: replicas agree on one, and no call fails while it changes.

use crate::caller::{connect, pod};
use crate::cluster::{Cluster, decoded};
use crate::support::{keeper, own, replica, terms, until};
use injector::certificate::keeper::Source;
use injector::certificate::{Held, Terms};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

const YEAR: Duration = Duration::from_hours(365 * 24);

fn year() -> Terms {
    terms(YEAR, 10 * YEAR)
}

/// What the Secret holds.
fn stored(cluster: &Cluster, key: &str) -> String {
    let state = cluster.state.lock();
    decoded(state.secrets["tidegate-certificate"]["data"][key].as_str().unwrap())
}

#[tokio::test]
async fn replicas_agree_on_one_certificate() {
    let cluster = Cluster::start(&[]).await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tidegate-certificate", "resourceVersion": "1" } });
    // Empty, as the chart makes it; and none at all.
    for prepared in [Some(secret), None] {
        cluster.state.lock().secrets = prepared
            .iter()
            .map(|secret| ("tidegate-certificate".to_owned(), secret.clone()))
            .collect();
        let mut replicas = Vec::new();
        for _ in 0..4 {
            replicas.push(replica(&cluster, own(&cluster, year())).await);
        }
        let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
        let rounds = replicas.into_iter().map(|mut replica| {
            tokio::spawn(
                async move { replica.keeper.round().await.map_err(|error| error.to_string()) },
            )
        });
        for round in rounds.collect::<Vec<_>>() {
            assert_eq!(round.await.unwrap(), Ok(()));
        }
        let bundle = cluster.state.lock().bundle.clone().unwrap();
        assert_eq!(bundle, stored(&cluster, "ca.crt"), "prepared: {}", prepared.is_some());
        for address in addresses {
            connect(address, &bundle, "h2").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_certificate_is_served_only_after_its_authority_was_told() {
    let cluster = Cluster::start(&[]).await;
    let mut replica = replica(&cluster, own(&cluster, year())).await;
    cluster.state.lock().broken = Some("mutatingwebhookconfigurations");
    let error = replica.keeper.round().await.unwrap_err().to_string();
    assert!(error.starts_with("MutatingWebhookConfiguration tidegate: "), "{error}");
    let bundle = stored(&cluster, "ca.crt");
    connect(replica.address, &bundle, "h2").await.expect_err("nothing is served");
    cluster.state.lock().broken = None;
    replica.keeper.round().await.unwrap();
    connect(replica.address, &bundle, "h2").await.unwrap();

    // Somebody takes the authorities out of the configuration: they are back after a round.
    cluster.state.lock().bundle = None;
    replica.keeper.round().await.unwrap();
    assert_eq!(cluster.state.lock().bundle.as_deref(), Some(bundle.as_str()));
}

#[tokio::test]
async fn no_call_fails_while_certificates_and_authorities_change() {
    const ROUNDS: u32 = 16;
    let cluster = Cluster::start(&[("shop", json!({}))]).await;
    let hour = Duration::from_hours(1);
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let mut replica = replica(&cluster, own(&cluster, terms(hour, hour))).await;
        replica.keeper.round().await.unwrap();
        replicas.push(replica);
    }
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
    let calls = Arc::new(AtomicUsize::new(0));
    let (called, caller) = (Arc::clone(&calls), cluster.clone());
    let calling = tokio::spawn(async move {
        loop {
            let call = called.fetch_add(1, Ordering::Relaxed);
            // As the API server does: the bundle of the moment, and a connection each.
            let bundle = caller.state.lock().bundle.clone().unwrap();
            let address = addresses[call % addresses.len()];
            let mut connection = connect(address, &bundle, "h2").await.unwrap();
            let answer = connection.review("shop", &pod(&json!({}))).await.unwrap();
            assert_eq!(answer["allowed"], true, "call {call}");
        }
    });
    let (mut certificates, mut authorities) = (BTreeSet::new(), BTreeSet::new());
    let (mut certificate, mut authority) = (hour, hour);
    for round in 0..ROUNDS {
        // A certificate is due when a third of its life is left: to one who wants it to live four times as long, at once.
        *(if round % 2 == 0 { &mut authority } else { &mut certificate }) *= 4;
        for replica in &replicas {
            let source = own(&cluster, terms(certificate, authority));
            keeper(&cluster, source, &replica.serving).0.round().await.unwrap();
            let before = calls.load(Ordering::Relaxed);
            until("four more calls", async || {
                assert!(!calling.is_finished(), "a call failed");
                (calls.load(Ordering::Relaxed) > before + 4).then_some(())
            })
            .await;
        }
        certificates.insert(stored(&cluster, "tls.crt"));
        authorities.insert(stored(&cluster, "ca.key"));
    }
    calling.abort();
    // The calls alone tell nothing if nothing changed.
    assert_eq!((certificates.len(), authorities.len()), (9, 8));
}

#[tokio::test]
async fn a_given_certificate_is_taken_over_when_its_files_change_and_only_as_a_pair() {
    let folder = std::env::temp_dir().join(format!("tidegate-given-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let [one, two] =
        [0, 1].map(|_| Held::made(&year(), SystemTime::UNIX_EPOCH + 56 * YEAR).unwrap());
    let put = |held: &Held| {
        write("ca.crt", &held.authorities);
        write("tls.crt", &held.chain);
        write("tls.key", &held.key);
    };
    let cluster = Cluster::start(&[("shop", json!({}))]).await;
    let source = Source::Given {
        chain: folder.join("tls.crt"),
        key: folder.join("tls.key"),
        authorities: Some(folder.join("ca.crt")),
    };
    let mut replica = replica(&cluster, source).await;
    let error = replica.keeper.round().await.unwrap_err().to_string();
    assert!(error.contains("ca.crt: No such file"), "{error}");
    put(&one);
    replica.keeper.round().await.unwrap();
    connect(replica.address, &one.authorities, "h2").await.unwrap();
    // The key comes a moment before its certificate.
    write("tls.key", &two.key);
    let error = replica.keeper.round().await.unwrap_err().to_string();
    assert!(error.starts_with("certificate and private key: "), "{error}");
    connect(replica.address, &one.authorities, "h2").await.unwrap();
    put(&two);
    replica.keeper.round().await.unwrap();
    connect(replica.address, &two.authorities, "h2").await.unwrap();
    connect(replica.address, &one.authorities, "h2").await.unwrap_err();
    assert_eq!(cluster.state.lock().bundle.as_deref(), Some(two.authorities.as_str()));
    until("the folder is gone", async || fs::remove_dir_all(&folder).ok()).await;
}
