//! gRPC: success is what `grpc-status` says, wherever it stands.

use crate::support::caller::{Answer, ask_http2};
use crate::support::endpoint::{Endpoint, full, with_trailers};
use crate::support::proxy::Proxy;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};

async fn call(proxy: &Proxy, shape: &str) -> Answer {
    let request = Request::post(format!("http://shop/{shape}"))
        .header("content-type", "application/grpc+proto")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(b"\0\0\0\0\0")))
        .unwrap();
    ask_http2(proxy.address, request).await
}

async fn endpoint() -> Endpoint {
    Endpoint::http2(|request| async move {
        let path = request.uri().path().to_owned();
        request.into_body().collect().await.unwrap();
        let (shape, code) = path.trim_start_matches('/').split_once('/').unwrap();
        let code: &'static str = code.to_owned().leak();
        let response = Response::builder().header("content-type", "application/grpc");
        match shape {
            "only" => response.header("grpc-status", code).body(full("")).unwrap(),
            "trailers" => {
                response.body(with_trailers(&["\0\0\0\0\0"], &[("grpc-status", code)])).unwrap()
            }
            "missing" => {
                response.body(with_trailers(&["\0\0\0\0\0"], &[("x-other", "1")])).unwrap()
            }
            _ => response.body(full("")).unwrap(),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decides_in_headers_and_in_trailers() {
    let endpoint = endpoint().await;
    let proxy = Proxy::http2("grpc-status", &[endpoint.address]);
    let failures = [2, 4, 13, 14, 15];
    for shape in ["only", "trailers"] {
        for code in 0..=16 {
            let failed = proxy.counted("tidegate_requests_total", &["class=\"failure\""]);
            let succeeded = proxy.counted("tidegate_requests_total", &["class=\"success\""]);
            let answer = call(&proxy, &format!("{shape}/{code}")).await;
            let status = answer
                .trailers
                .get("grpc-status")
                .or_else(|| answer.head.headers.get("grpc-status"));
            assert_eq!(status.unwrap().to_str().unwrap(), code.to_string(), "{shape}");
            let failure = failures.contains(&code);
            proxy
                .counts(
                    "tidegate_requests_total",
                    &["class=\"failure\""],
                    failed + f64::from(failure),
                )
                .await;
            proxy
                .counts(
                    "tidegate_requests_total",
                    &["class=\"success\""],
                    succeeded + f64::from(!failure),
                )
                .await;
        }
    }
    assert!(proxy.counted("tidegate_requests_total", &["protocol=\"grpc\""]) > 33.0);
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_status_is_a_failure() {
    let endpoint = endpoint().await;
    let proxy = Proxy::http2("grpc-missing", &[endpoint.address]);
    for shape in ["missing/x", "empty/x"] {
        call(&proxy, shape).await;
    }
    proxy.settles().await;
    proxy.counts("tidegate_requests_total", &["class=\"failure\""], 2.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_trailers_pass_unchanged() {
    let message: &'static str = "m".repeat(60_000).leak();
    let endpoint = Endpoint::http2(move |_| async move {
        let body = with_trailers(&[], &[("grpc-status", "5"), ("grpc-message", message)]);
        Response::builder().header("content-type", "application/grpc").body(body).unwrap()
    })
    .await;
    let proxy = Proxy::http2("grpc-large", &[endpoint.address]);
    let answer = call(&proxy, "large").await;
    assert_eq!(answer.trailers.get("grpc-message").map(http::HeaderValue::len), Some(60_000));
    assert_eq!(answer.trailers.get("grpc-status").unwrap(), "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_trailers_only_answers() {
    let gone = Endpoint::gone().await;
    let proxy = Proxy::http2("grpc-refused", &[gone]);
    let answer = call(&proxy, "x").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.field("content-type"), Some("application/grpc"));
    assert_eq!(answer.field("grpc-status"), Some("14"));
    assert_eq!(answer.field("tidegate-reason"), Some("endpoint_unreachable"));
    assert!(answer.field("grpc-message").is_some_and(|message| !message.is_empty()));

    let empty = Proxy::http2("grpc-empty", &[]);
    let answer = call(&empty, "x").await;
    assert_eq!((answer.status(), answer.field("grpc-status")), (200, Some("14")));
    let plain = Request::get("http://shop/").body(Empty::<Bytes>::new()).unwrap();
    let answer = ask_http2(empty.address, plain).await;
    assert_eq!((answer.status(), answer.field("tidegate-reason")), (503, Some("no_endpoints")));
    empty
        .counts("tidegate_requests_total", &["class=\"rejected\"", "dst_zone=\"unknown\""], 2.0)
        .await;
}
