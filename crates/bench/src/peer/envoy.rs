//! Envoy as a sidecar would run it: one worker, least request, retries and outlier detection on, no access log.

use super::{Setup, Speaks, write};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

pub(super) fn command(program: &Path, setup: &Setup<'_>) -> anyhow::Result<Command> {
    let configuration = write(setup, "envoy.json", &configuration(setup).to_string())?;
    let mut command = Command::new(program);
    command.arg("-c").arg(configuration).args([
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "-l",
        "error",
    ]);
    Ok(command)
}

fn configuration(setup: &Setup<'_>) -> Value {
    json!({"static_resources": {
        "listeners": [{
            "name": "in",
            "address": address(&setup.listen),
            "filter_chains": [{"filters": [if setup.speaks == Speaks::Tcp { tcp_filter() } else { http_filter() }]}],
        }],
        "clusters": [cluster(setup)],
    }})
}

fn address(address: &std::net::SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

fn tcp_filter() -> Value {
    json!({"name": "envoy.filters.network.tcp_proxy", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "in", "cluster": "origin",
    }})
}

fn http_filter() -> Value {
    json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "codec_type": "AUTO",
        "route_config": {"name": "all", "virtual_hosts": [{
            "name": "all", "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {
                "cluster": "origin", "timeout": "0s",
                "retry_policy": {"retry_on": "connect-failure,refused-stream,reset", "num_retries": 1},
            }}],
        }]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
        }}],
    }})
}

fn cluster(setup: &Setup<'_>) -> Value {
    let endpoints: Vec<Value> = setup
        .endpoints
        .iter()
        .map(|endpoint| json!({"endpoint": {"address": address(endpoint)}}))
        .collect();
    let limits = json!({"max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000});
    json!({
        "name": "origin", "type": "STATIC", "connect_timeout": "1s", "lb_policy": "LEAST_REQUEST",
        "circuit_breakers": {"thresholds": [limits]},
        "outlier_detection": {},
        "load_assignment": {"cluster_name": "origin", "endpoints": [{"lb_endpoints": endpoints}]},
        "typed_extension_protocol_options": upstream_protocol(setup.speaks),
    })
}

fn upstream_protocol(speaks: Speaks) -> Value {
    let protocol = match speaks {
        Speaks::Tcp => return json!({}),
        Speaks::Http1 => json!({"http_protocol_options": {}}),
        Speaks::Http2 | Speaks::Grpc => json!({"http2_protocol_options": {}}),
    };
    json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": protocol,
    }})
}
