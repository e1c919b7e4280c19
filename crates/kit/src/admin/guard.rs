//! Who may ask.

use http::header::{HOST, HeaderValue};
use http::request::Parts;
use http::uri::Authority;
use std::net::{IpAddr, SocketAddr};

/// Whether the request names this server by address or as `localhost`. A request without `Host` (HTTP/1.0) comes from no
/// browser and is let in; one with two is not.
pub(crate) fn host_is_literal(request: &Parts) -> bool {
    if let Some(host) = request.uri.host()
        && !is_literal(host)
    {
        return false;
    }
    let mut hosts = request.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => true,
        (Some(host), None) => parse(host).is_some_and(|authority| is_literal(authority.host())),
        (Some(_), Some(_)) => false,
    }
}

fn parse(host: &HeaderValue) -> Option<Authority> {
    Authority::try_from(host.as_bytes()).ok()
}

fn is_literal(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Whether the peer is this machine.
pub(crate) fn is_loopback(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn only_addresses_and_localhost_are_let_in() {
        let cases: &[(&[&str], bool)] = &[
            (&[], true),
            (&["127.0.0.1:4291"], true),
            (&["10.1.2.3"], true),
            (&["[::1]:4291"], true),
            (&["localhost:4291"], true),
            (&["LOCALHOST"], true),
            (&["evil.example:4291"], false),
            (&["127.0.0.1.evil.example"], false),
            (&["localhost.evil.example"], false),
            (&["user@127.0.0.1@evil.example"], false),
            (&["127.0.0.1", "127.0.0.1"], false),
            (&[""], false),
        ];
        for (hosts, expected) in cases {
            let request =
                hosts.iter().fold(Request::get("/"), |request, host| request.header(HOST, *host));
            let (parts, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(host_is_literal(&parts), *expected, "{hosts:?}");
        }
        let (parts, ()) =
            Request::get("http://evil.example/").body(()).expect("a request").into_parts();
        assert!(!host_is_literal(&parts), "absolute form counts too");
    }

    #[test]
    fn loopback_is_seen_through_mapped_addresses() {
        let cases = [
            ("127.0.0.1:1", true),
            ("127.8.9.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("10.0.0.1:1", false),
        ];
        for (peer, expected) in cases {
            assert_eq!(is_loopback(peer.parse().expect("an address")), expected, "{peer}");
        }
    }
}
