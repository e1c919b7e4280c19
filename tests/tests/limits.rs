//! Callers that are slow or many, and a process that has little.
#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use tests::deadline::{SOON, until};
use tests::origin::Origin;
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{http, ports};

fn topology(endpoint: SocketAddr) -> (SocketAddr, Topology) {
    let web = ports::free();
    let topology =
        Topology::zone("a").listener(web, "web").service("web", "").endpoint(endpoint, "a");
    (web, topology)
}

fn closed(proxy: &Proxy, reason: &str) -> f64 {
    let labels = [("peer", "caller"), ("reason", reason)];
    proxy.metrics().sum("tidegate_closed_connections_total", &labels)
}

/// Waits until the other side has closed, whatever it says before.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn callers_that_are_slow_with_a_header_are_closed_and_others_served() {
    let origin = Origin::named("one");
    let (web, topology) = topology(origin.address);
    let proxy = Proxy::start_with(&topology, &["--header-timeout", "1s", "--idle-timeout", "1h"]);
    let beginnings: [&[u8]; 4] =
        [b"G", b"GET / HTTP/1.1\r\nHost: t\r\n", b"\r\n", b"PRI * HTTP/2.0\r\n"];
    let mut slow: Vec<_> = (0..200)
        .map(|number| {
            let mut stream = http::connect(web).unwrap();
            stream.write_all(beginnings[number % beginnings.len()]).unwrap();
            stream
        })
        .collect();
    assert_eq!(http::get(web, "/").unwrap().0, 200);
    assert!(slow.iter_mut().all(is_closed));
    assert!((closed(&proxy, "header_timeout") - 200.0).abs() < 0.5);
}

#[test]
fn idle_connections_are_closed() {
    let origin = Origin::named("one");
    let (web, topology) = topology(origin.address);
    let proxy = Proxy::start_with(&topology, &["--idle-timeout", "1s", "--header-timeout", "1h"]);
    let mut silent = http::connect(web).unwrap();
    assert!(is_closed(&mut silent));
    assert!(closed(&proxy, "idle") > 0.5);
}

#[test]
fn bodies_that_stand_still_are_given_up_and_no_endpoint_is_blamed() {
    let big = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = big.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in big.incoming().flatten() {
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                let length = stream.read(&mut head).unwrap_or(0);
                if head[..length].starts_with(b"GET") {
                    let size = 100_000_000;
                    let start = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
                    drop(stream.write_all(start.as_bytes()));
                    drop(stream.write_all(&vec![b'x'; size]));
                } else {
                    drop(std::io::copy(&mut stream, &mut std::io::sink()));
                }
            });
        }
    });
    let (web, topology) = topology(address);
    let proxy = Proxy::start_with(&topology, &["--stall-timeout", "1s"]);
    let mut sender = http::connect(web).unwrap();
    sender.write_all(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nsome").unwrap();
    assert!(is_closed(&mut sender));
    let mut reader = http::connect(web).unwrap();
    reader.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    until("the slow reader is given up", SOON, || {
        let count = closed(&proxy, "stalled");
        if count > 1.5 { Ok(()) } else { Err(count) }
    });
    proxy.assert_no_ejection("web");
}

#[test]
fn callers_beyond_the_limit_are_told_and_let_in_when_there_is_room() {
    let origin = Origin::named("one");
    let (web, topology) = topology(origin.address);
    let proxy = Proxy::start_with(&topology, &["--max-connections", "5"]);
    let request = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    let mut inside: Vec<_> = (0..5).map(|_| http::connect(web).unwrap()).collect();
    for stream in &mut inside {
        stream.write_all(request).unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    }
    let answer = http::send(web, request).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("tidegate-reason: overloaded"), "{answer}");
    assert!(closed(&proxy, "overloaded") > 0.5);
    inside.clear();
    until("there is room again", SOON, || match http::get(web, "/") {
        Ok((200, _)) => Ok(()),
        other => Err(other),
    });
}

#[test]
fn a_process_without_descriptors_sheds_and_recovers() {
    let origin = Origin::named("one");
    let (web, topology) = topology(origin.address);
    // By default it stops short of the limit; the second one runs into it.
    for arguments in [&["--workers", "1"][..], &["--workers", "1", "--max-connections", "10000"]] {
        let mut proxy = Proxy::start_with_files(&topology, arguments, 256);
        let request = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";
        let mut callers = Vec::new();
        let (mut served, mut shed) = (0, 0);
        for _ in 0..400 {
            let mut stream = TcpStream::connect(web).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
            let mut answer = [0; 4096];
            let length = stream.write_all(request).and_then(|()| stream.read(&mut answer));
            match length {
                Ok(length) if answer[..length].starts_with(b"HTTP/1.1 200") => served += 1,
                // Told, closed, or waiting in the kernel for its turn.
                _ => shed += 1,
            }
            callers.push(stream);
            if shed > 20 {
                break;
            }
        }
        println!("{arguments:?}: {served} served, {shed} not");
        assert!(served >= 90 && shed > 0, "{served} served, {shed} not");
        assert!(proxy.process.check_running().is_none());
        drop(callers);
        until("callers are served again", SOON, || match http::get(web, "/") {
            Ok((200, _)) => Ok(()),
            other => Err(other),
        });
        proxy.assert_no_ejection("web");
    }
}
