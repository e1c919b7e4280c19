//! HTTP/2 on either side or both.

use crate::support::caller::{ask, ask_http2, http2, read};
use crate::support::endpoint::{Endpoint, full, piped, with_trailers};
use crate::support::proxy::Proxy;
use crate::support::within;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Frame;

#[tokio::test(flavor = "multi_thread")]
async fn http2_to_http2_shares_one_connection() {
    let endpoint = Endpoint::http2(|request| async move {
        let line = format!("{} {:?}", request.uri(), request.version());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(full(format!("{line} {}", body.len())))
    })
    .await;
    let proxy = Proxy::http2("http2-both", &[endpoint.address]);
    let sender = http2(proxy.address).await;
    let mut asking = Vec::new();
    for number in 0..50_usize {
        let mut sender = sender.clone();
        let body = Full::new(Bytes::from(vec![b'x'; number * 1000]));
        let request = Request::post(format!("http://shop:80/{number}?q")).body(body).unwrap();
        asking.push(tokio::spawn(async move {
            read(sender.send_request(request).await.unwrap()).await
        }));
    }
    for (number, asking) in asking.into_iter().enumerate() {
        let answer = within("an answer", asking).await.unwrap();
        let expected = format!("http://shop:80/{number}?q HTTP/2.0 {}", number * 1000);
        assert_eq!(answer.body, expected);
    }
    assert_eq!(endpoint.connections(), 1);
    proxy.settles().await;
    proxy
        .counts("tidegate_requests_total", &["class=\"success\"", "protocol=\"http2\""], 50.0)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_to_http1_translates() {
    let endpoint = Endpoint::http1(|request| {
        let text =
            format!("{}|{}|{}", request.start(), request.field("host").unwrap(), request.text());
        format!(
            "HTTP/1.1 201 Fine\r\nconnection: keep-alive\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )
    })
    .await;
    let proxy = Proxy::http1("http2-to-1", &[endpoint.address]);
    let post =
        Request::post("http://shop/a?b").body(Full::new(Bytes::from_static(b"abc"))).unwrap();
    let answer = ask_http2(proxy.address, post).await;
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.body, "POST /a?b HTTP/1.1|shop|abc");
    let get = Request::get("http://shop").body(Empty::<Bytes>::new()).unwrap();
    let answer = ask_http2(proxy.address, get).await;
    assert_eq!(answer.body, "GET / HTTP/1.1|shop|");
    assert_eq!(endpoint.connections(), 1);
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_length_reaches_an_http1_endpoint_in_chunks() {
    let endpoint = Endpoint::http1(|request| {
        let text = format!(
            "{}|{}",
            request.field("transfer-encoding").unwrap_or_default(),
            request.text()
        );
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
    })
    .await;
    let proxy = Proxy::http1("http2-chunks", &[endpoint.address]);
    for method in ["GET", "POST"] {
        let body = with_trailers(&["ab", "c"], &[("x-sum", "1")]);
        let request = Request::builder().method(method).uri("http://shop/").body(body).unwrap();
        let answer = ask_http2(proxy.address, request).await;
        assert_eq!(answer.body, "chunked|abc", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_to_http2_translates() {
    let endpoint = Endpoint::http2(|request| async move {
        let te = request.headers().get("te").map(|te| te.to_str().unwrap().to_owned());
        let text = format!(
            "{} {} {te:?} {:?}",
            request.method(),
            request.uri(),
            request.headers().get("host")
        );
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::builder().status(202).body(full(format!("{text} {}", body.len()))).unwrap()
    })
    .await;
    let proxy = Proxy::http2("http1-to-2", &[endpoint.address]);
    let request = "POST /x?y HTTP/1.1\r\nhost: shop:81\r\nconnection: te\r\nte: trailers, deflate\r\n\
                   transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let answer = ask(proxy.address, request).await;
    assert_eq!(answer.status(), 202);
    assert_eq!(answer.text(), "POST http://shop:81/x?y Some(\"trailers\") None 3");
    let answer = ask(proxy.address, "GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await;
    assert_eq!(answer.text(), "GET http://shop/ None None 0");
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_both_ways() {
    let endpoint = Endpoint::http2(|request| async move {
        let trailers = request.into_body().collect().await.unwrap().trailers().cloned().unwrap();
        let echo = trailers.get("x-sum").unwrap().clone();
        let mut response =
            Response::new(with_trailers(&["one", "two"], &[("x-end", "done"), ("x-end", "twice")]));
        response.headers_mut().insert("x-echo", echo);
        response
    })
    .await;
    let proxy = Proxy::http2("http2-trailers", &[endpoint.address]);
    let request =
        Request::post("http://shop/").body(with_trailers(&["a"], &[("x-sum", "7")])).unwrap();
    let answer = ask_http2(proxy.address, request).await;
    assert_eq!(answer.field("x-echo"), Some("7"));
    assert_eq!(answer.body, "onetwo");
    assert_eq!(answer.trailers.get_all("x-end").iter().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_a_connection_may_have_open_another_one() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let held = std::sync::Arc::clone(&gate);
    let endpoint = Endpoint::http2(move |_| {
        let held = std::sync::Arc::clone(&held);
        async move {
            let _permit = held.acquire().await.unwrap();
            Response::new(full("ok"))
        }
    })
    .await;
    let proxy = Proxy::http2("http2-streams", &[endpoint.address]);
    let sender = http2(proxy.address).await;
    let mut asking = Vec::new();
    for _ in 0..200 {
        let mut sender = sender.clone();
        let request = Request::get("http://shop/").body(Empty::<Bytes>::new()).unwrap();
        asking.push(tokio::spawn(
            async move { sender.send_request(request).await.unwrap().status() },
        ));
    }
    crate::support::eventually("all are sent", || {
        proxy.snapshot().endpoints().map(|(_, seen)| seen.outstanding).sum::<u32>() == 200
    })
    .await;
    crate::support::eventually("two connections", || endpoint.connections() == 2).await;
    gate.add_permits(200);
    for asking in asking {
        assert_eq!(within("an answer", asking).await.unwrap(), 200);
    }
    assert_eq!(endpoint.connections(), 2);
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_cut_short_is_the_endpoints_failure() {
    let (pipe, body) = piped();
    let body = std::sync::Arc::new(parking_lot::Mutex::new(Some(body)));
    let endpoint = Endpoint::http2(move |_| {
        let body = body.lock().take().unwrap();
        async { Response::new(body) }
    })
    .await;
    let proxy = Proxy::http2("http2-cut", &[endpoint.address]);
    let mut sender = http2(proxy.address).await;
    let request = Request::get("http://shop/").body(Empty::<Bytes>::new()).unwrap();
    pipe.send(Ok(Frame::data(Bytes::from_static(b"half")))).await.unwrap();
    let mut response = within("an answer", sender.send_request(request)).await.unwrap();
    let half = within("half", response.frame()).await.unwrap().unwrap();
    assert_eq!(half.into_data().unwrap(), "half");
    pipe.send(Err(std::io::Error::other("scripted"))).await.unwrap();
    assert!(!read(response).await.complete);
    proxy.settles().await;
    proxy.counts("tidegate_requests_total", &["class=\"failure\""], 1.0).await;
}
