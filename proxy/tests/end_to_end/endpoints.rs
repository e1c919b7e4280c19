//! Endpoints come and go.

use crate::support::caller::{connect, get};
use crate::support::endpoint::Endpoint;
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;
use crate::support::{eventually, within};
use std::sync::Arc;
use tokio::sync::Semaphore;

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_endpoint_gets_nothing_new_and_finishes_what_it_has() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let old = Endpoint::raw(move |mut wire| {
        let held = Arc::clone(&held);
        async move {
            while wire.message(Bodiless::Empty).await.is_some() {
                wire.write("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nol").await;
                held.acquire().await.unwrap().forget();
                wire.write("d one").await;
            }
        }
    })
    .await;
    let new = Endpoint::fixed(200, "new").await;
    let proxy = Proxy::http1("endpoints-removed", &[old.address]);
    let mut wire = connect(proxy.address).await;
    wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    eventually("the answer began", || {
        proxy.snapshot().endpoints().any(|(endpoint, _)| endpoint.counts.open_bodies() == 1)
    })
    .await;
    proxy.set_endpoints(&[new.address]);
    for _ in 0..10 {
        assert_eq!(get(proxy.address).await.text(), "new");
    }
    gate.add_permits(1);
    let answer = within("the old answer", wire.message(Bodiless::UntilClose)).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.complete), ("old one", true));
    assert_eq!(old.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_to_a_removed_endpoint_are_closed() {
    let closed = Arc::new(Semaphore::new(0));
    let signal = Arc::clone(&closed);
    let old = Endpoint::raw(move |mut wire| {
        let signal = Arc::clone(&signal);
        async move {
            while wire.message(Bodiless::Empty).await.is_some() {
                wire.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
            signal.add_permits(1);
        }
    })
    .await;
    let proxy = Proxy::http1("endpoints-idle", &[old.address]);
    assert_eq!(get(proxy.address).await.status(), 200);
    proxy.set_endpoints(&[]);
    within("the idle connection closes", closed.acquire()).await.unwrap().forget();
    assert_eq!(get(proxy.address).await.status(), 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_endpoints_answers_at_once_and_comes_back() {
    let endpoint = Endpoint::fixed(200, "back").await;
    let proxy = Proxy::http1("endpoints-zero", &[]);
    let mut wire = connect(proxy.address).await;
    for (endpoints, status) in
        [(vec![], 503), (vec![endpoint.address], 200), (vec![], 503), (vec![endpoint.address], 200)]
    {
        proxy.set_endpoints(&endpoints);
        wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!(answer.status(), status, "{endpoints:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_stay_keep_their_identity_and_connections() {
    let endpoint = Endpoint::fixed(200, "").await;
    let others = [Endpoint::gone().await, Endpoint::gone().await];
    let proxy = Proxy::http1("endpoints-stay", &[endpoint.address]);
    let key = |proxy: &Proxy| {
        proxy
            .snapshot()
            .endpoints()
            .find(|(known, _)| known.address == endpoint.address)
            .unwrap()
            .0
            .key()
    };
    assert_eq!(get(proxy.address).await.status(), 200);
    let first = key(&proxy);
    proxy.set_endpoints(&[others[0], endpoint.address]);
    assert_eq!(key(&proxy), first);
    proxy.set_endpoints(&[endpoint.address, others[1]]);
    proxy.set_endpoints(&[endpoint.address]);
    assert_eq!(key(&proxy), first);
    for _ in 0..5 {
        assert_eq!(get(proxy.address).await.status(), 200);
    }
    assert_eq!(endpoint.connections(), 1);
    proxy.set_endpoints(&[]);
    proxy.set_endpoints(&[endpoint.address]);
    assert_ne!(key(&proxy), first, "who comes back is somebody new");
}
