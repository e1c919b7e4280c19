//! Behaviours over real sockets.

use std::time::Duration;

use super::behaviour::tests::instant;
use super::*;
use crate::fetch::{self, FetchError};

/// Long enough that it only ends a broken test.
const PATIENCE: Duration = Duration::from_secs(20);

async fn start(behaviour: Behaviour) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let backend =
        Backend::bind("127.0.0.1:0".parse().unwrap(), "b".to_owned(), behaviour).await.unwrap();
    (backend.address(), tokio::spawn(backend.run()))
}

async fn counted(address: SocketAddr, counter: &str) -> u64 {
    let control = fetch::get(address, "/_control", PATIENCE).await.unwrap();
    serde_json::from_str::<serde_json::Value>(&control.body).unwrap()[counter].as_u64().unwrap()
}

#[tokio::test]
async fn it_answers_with_its_zone_and_counts() {
    let (address, _) = start(instant()).await;
    for _ in 0..3 {
        let answer = fetch::get(address, "/any/path", PATIENCE).await.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "........"));
    }
    assert_eq!(counted(address, "requests").await, 3);
    assert_eq!(counted(address, "answered").await, 3);
}

#[tokio::test]
async fn it_fails_as_told_while_it_runs_and_heals() {
    let (address, _) = start(instant()).await;
    fetch::post(address, "/_control?fail-percent=100&fail-status=500", PATIENCE).await.unwrap();
    assert_eq!(fetch::get(address, "/", PATIENCE).await.unwrap().status, 500);
    fetch::post(address, "/_control?reset", PATIENCE).await.unwrap();
    assert_eq!(fetch::get(address, "/", PATIENCE).await.unwrap().status, 200);
    assert_eq!((counted(address, "failed").await, counted(address, "answered").await), (1, 1));
}

#[tokio::test]
async fn it_hangs_until_the_caller_gives_up_and_still_obeys() {
    let (address, _) = start(Behaviour { hang: true, ..instant() }).await;
    let error = fetch::get(address, "/", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, FetchError::Timeout { .. }), "{error}");
    let deadline = Deadline::within(PATIENCE);
    while counted(address, "given_up").await == 0 {
        assert!(!deadline.is_over(), "the abandoned request was never counted");
    }
    fetch::post(address, "/_control?hang=false", PATIENCE).await.unwrap();
    assert_eq!(fetch::get(address, "/", PATIENCE).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_crash_ends_it_and_its_port_can_be_taken_again() {
    let (address, running) = start(instant()).await;
    // It may end before or after its answer is sent.
    drop(fetch::post(address, "/_control?crash", PATIENCE).await);
    running.await.unwrap();
    let error = fetch::get(address, "/", PATIENCE).await.unwrap_err();
    assert!(matches!(error, FetchError::Connect { .. }), "{error}");
    let again = Backend::bind(address, "b".to_owned(), instant()).await.unwrap();
    assert_eq!(again.address(), address);
}

#[tokio::test]
async fn a_wrong_change_is_refused_with_a_reason() {
    let (address, _) = start(instant()).await;
    let answer = fetch::post(address, "/_control?fail-percent=many", PATIENCE).await.unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("from 0 to 100"), "{}", answer.body);
}

#[tokio::test]
async fn it_speaks_http2_with_prior_knowledge() {
    let (address, _) = start(instant()).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request =
        Request::get(format!("http://{address}/")).body(Full::<Bytes>::default()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-zone"], "b");
}
