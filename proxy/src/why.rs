//! `tidegate-proxy why SERVICE`: asks the running proxy and explains to a person, at three in the morning, where the requests
//! go and why.

pub mod text;
mod words;

use crate::admin::debug::{ServiceView, View};
use crate::cli::WhyArguments;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// Longest wait for the proxy's answer: it is on this machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest answer that is read: some 100,000 endpoints.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// Nothing listens there.
    #[error(
        "no proxy at {address} ({reason}): is it running here, and is its admin server there (--admin, TIDEGATE_ADMIN)?"
    )]
    Nobody {
        /// Where it was looked for.
        address: SocketAddr,
        /// What happened.
        reason: String,
    },
    /// Something listens there, but it gave no usable answer.
    #[error("{address} answered, but not like a proxy of this version ({reason})")]
    Stranger {
        /// Where it was asked.
        address: SocketAddr,
        /// What happened.
        reason: String,
    },
    /// The proxy knows no such service.
    #[error("the proxy at {address} knows no service {name:?}; {}", known(.services))]
    Unknown {
        /// Where it was asked.
        address: SocketAddr,
        /// What was asked for.
        name: String,
        /// What it knows.
        services: Vec<String>,
    },
    /// The proxy knows several.
    #[error("{name:?} may be any of {}: name one of them", .services.join(", "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// What it may be.
        services: Vec<String>,
    },
    /// The proxy passes it on as it is.
    #[error("calls to {name:?} are passed on unbalanced ({reason}): {meaning}")]
    NotBalanced {
        /// What was asked for.
        name: String,
        /// The reason's name.
        reason: String,
        /// What it means.
        meaning: &'static str,
    },
    /// This process could not do its part.
    #[error("cannot ask: {0}")]
    Unable(#[source] std::io::Error),
}

fn known(services: &[String]) -> String {
    if services.is_empty() {
        "it knows none".to_owned()
    } else {
        format!("it knows {}", services.join(", "))
    }
}

/// Asks the running proxy. The answer is what is to be printed.
pub fn ask(arguments: &WhyArguments) -> Result<String, WhyError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WhyError::Unable)?;
    let address = reachable(arguments.admin);
    let json = runtime.block_on(fetch(address))?;
    let stranger =
        |error: serde_json::Error| WhyError::Stranger { address, reason: error.to_string() };
    let view: View = serde_json::from_slice(&json).map_err(stranger)?;
    let asked = &arguments.service;
    let found: Vec<&ServiceView> =
        view.services.iter().filter(|service| named(&service.name, asked)).collect();
    let service = match found.as_slice() {
        [service] => *service,
        [] => return Err(unknown(address, asked, &view)),
        several => {
            let services = several.iter().map(|service| service.name.clone()).collect();
            return Err(WhyError::Ambiguous { name: asked.clone(), services });
        }
    };
    if arguments.json {
        return serde_json::to_string_pretty(service).map(|text| text + "\n").map_err(stranger);
    }
    Ok(text::explain(&view.proxy, &view.discovery, service))
}

/// Whether a service, which may be called `namespace/name:port`, is meant by what people write: all of it, or `name`,
/// `name.namespace` or `namespace/name`, each with or without the port.
fn named(service: &str, asked: &str) -> bool {
    let same = |candidate: &str| candidate.eq_ignore_ascii_case(asked);
    let Some((namespace, rest)) = service.split_once('/') else { return same(service) };
    let name = rest.split_once(':').map_or(rest, |(name, _)| name);
    let port = rest.strip_prefix(name).unwrap_or_default();
    ["", port].iter().any(|port| {
        same(&format!("{name}{port}"))
            || same(&format!("{name}.{namespace}{port}"))
            || same(&format!("{namespace}/{name}{port}"))
    })
}

/// Nothing is balanced by that name: because it is called, but passed on, or because it was not called.
fn unknown(address: SocketAddr, asked: &str, view: &View) -> WhyError {
    let called = view.discovery.controller.iter().flat_map(|controller| &controller.destinations);
    let mut passed = called.filter_map(|called| {
        let host = called.destination.rsplit_once(':').map_or("", |(host, _)| host);
        let named = [host, &called.destination].iter().any(|name| name.eq_ignore_ascii_case(asked));
        called.passthrough.clone().filter(|_| named)
    });
    let name = asked.to_owned();
    if let Some(reason) = passed.next() {
        return WhyError::NotBalanced { name, meaning: words::of_passthrough(&reason), reason };
    }
    let services = view.services.iter().map(|service| service.name.clone()).collect();
    WhyError::Unknown { address, name, services }
}

/// An address to listen on all interfaces is asked on this machine.
fn reachable(admin: SocketAddr) -> SocketAddr {
    let ip = match admin.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, admin.port())
}

async fn fetch(address: SocketAddr) -> Result<Bytes, WhyError> {
    let nobody = |reason: String| WhyError::Nobody { address, reason };
    let stranger = |reason: String| WhyError::Stranger { address, reason };
    let exchange = async {
        let stream =
            TcpStream::connect(address).await.map_err(|error| nobody(error.to_string()))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| stranger(error.to_string()))?;
        let request = Request::get("/debug/services")
            .header(http::header::HOST, address.to_string())
            .body(Empty::<Bytes>::new())
            .map_err(|error| stranger(error.to_string()))?;
        let answer = async {
            let response =
                sender.send_request(request).await.map_err(|error| stranger(error.to_string()))?;
            if response.status() != StatusCode::OK {
                return Err(stranger(response.status().to_string()));
            }
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            body.collect()
                .await
                .map(http_body_util::Collected::to_bytes)
                .map_err(|error| stranger(error.to_string()))
        };
        tokio::pin!(connection, answer);
        tokio::select! {
            answer = &mut answer => answer,
            // It has ended, or the connection with it: what was received is still to be read.
            _ended = &mut connection => answer.await,
        }
    };
    tokio::time::timeout(PATIENCE, exchange)
        .await
        .unwrap_or_else(|_elapsed| Err(nobody(format!("no answer within {PATIENCE:?}"))))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn services_of_a_cluster_are_found_as_people_write_them() {
        for asked in
            ["shop/cart:80", "cart", "Cart", "cart.shop", "shop/cart", "cart:80", "cart.shop:80"]
        {
            assert!(named("shop/cart:80", asked), "{asked}");
        }
        for asked in ["shop", "cart:8", "cart.till", "till/cart", "art", "80", ""] {
            assert!(!named("shop/cart:80", asked), "{asked}");
        }
        assert!(named("web", "WEB") && !named("web", "web:80"));
    }
}
