//! The wire table against Tidegate and other proxies, side by side; writes `docs/wire.md`. Run by `cargo xtask differential`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a command line tool that stops at its first surprise"
)]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tests::deadline::{SOON, until};
use tests::folder::Folder;
use tests::ports;
use tests::process::Process;
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::wire::origin::Origin;
use tests::wire::row::{End, PLAIN, Row};
use tests::wire::{http2, rows, run};

/// A proxy under test.
struct Peer {
    name: String,
    http1: SocketAddr,
    http2: SocketAddr,
    origin: Origin,
    /// Keep it running.
    _program: Box<dyn std::any::Any>,
}

fn main() {
    let folder = Folder::new();
    let peers = [tidegate(), envoy(&folder), haproxy(&folder), nginx(&folder)];
    let mut page = INTRODUCTION.to_owned();
    let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
    writeln!(page, "## HTTP/1\n\n{}", head("row", &names)).unwrap();
    let mut disagreements = vec![0; peers.len()];
    for row in rows::all() {
        let cells: Vec<String> = peers
            .iter()
            .zip(&mut disagreements)
            .map(|(peer, count)| {
                let outcome = run::run(peer.http1, &peer.origin, &row);
                // A request that is sent again after a bad answer is no disagreement about requests.
                let asked = row.answer == PLAIN.as_bytes();
                let more = asked && outcome.requests.len() > row.expected.requests.max(1);
                *count += usize::from((!outcome.junk.is_empty() || more) && !row.expected.raw);
                outcome.summary().replace("; origin", "<br>origin")
            })
            .collect();
        println!("{}: {}", row.id, cells.join(" | "));
        writeln!(page, "| {} | {} |", row.id, cells.join(" | ")).unwrap();
    }
    let counts: Vec<String> = disagreements.iter().map(usize::to_string).collect();
    writeln!(
        page,
        "| **rows in which the origin saw what is no request, or one too many** | {} |",
        counts.join(" | ")
    )
    .unwrap();
    writeln!(page, "\n## HTTP/2 from callers\n\n{}", head("row", &names)).unwrap();
    for row in http2::rows::requests() {
        let cells: Vec<String> = peers.iter().map(|peer| http2_cell(peer, &row)).collect();
        println!("{}: {}", row.id, cells.join(" | "));
        writeln!(page, "| {} | {} |", row.id, cells.join(" | ")).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wire.md");
    std::fs::write(&path, page).unwrap();
    println!("written: {}", path.display());
}

fn http2_cell(peer: &Peer, row: &http2::rows::Row) -> String {
    peer.origin.set(&Row::new(row.id, ""));
    let outcome = http2::caller::run(peer.http2, row);
    let (requests, junk) = peer.origin.seen();
    let answer = match outcome.answer {
        http2::caller::Answer::Status(status) => status.to_string(),
        http2::caller::Answer::Reset(code) => format!("reset {code}"),
        http2::caller::Answer::Nothing => "no answer".to_owned(),
    };
    let end = match outcome.end {
        End::Kept => "kept",
        End::Closed => "closed",
        End::Silent => "hangs",
    };
    let junk: Vec<String> = junk.iter().map(|why| format!(", junk: {why}")).collect();
    format!("{answer}, {end}; {} seen{}", requests.len(), junk.concat())
}

fn head(first: &str, names: &[&str]) -> String {
    format!("| {first} | {} |\n| --- |{}", names.join(" | "), " --- |".repeat(names.len()))
}

fn tidegate() -> Peer {
    let (origin, listen) = (Origin::start(), ports::free());
    let topology = Topology::zone("a")
        .listener(listen, "wire")
        .service("wire", "protocol = \"http1\"")
        .endpoint(origin.address, "a");
    let proxy = Proxy::start_with(&topology, &["--workers", "1"]);
    Peer {
        name: "Tidegate".to_owned(),
        http1: listen,
        http2: listen,
        origin,
        _program: Box::new(proxy),
    }
}

fn version(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text.split(|c: char| c.is_whitespace() || c == '/' || c == '-');
    let found = words
        .find(|word| word.chars().next().is_some_and(|c| c.is_ascii_digit()) && word.contains('.'));
    found.unwrap_or("?").to_owned()
}

fn started(
    name: String,
    command: &Command,
    listen: [SocketAddr; 2],
    origin: Origin,
    folder: &Folder,
) -> Peer {
    let mut process = Process::start(&name, command, folder.path());
    until(&format!("{name} listens"), SOON, || {
        assert!(process.check_running().is_none(), "{name} ended: {}", process.log());
        std::net::TcpStream::connect(listen[0]).map(|_| ())
    });
    Peer { name, http1: listen[0], http2: listen[1], origin, _program: Box::new(process) }
}

fn envoy(folder: &Folder) -> Peer {
    let program = std::env::var("TIDEGATE_ENVOY").unwrap_or_else(|_| "envoy".to_owned());
    let (origin, listen) = (Origin::start(), ports::free());
    let json = ENVOY
        .replace("LISTEN", &listen.port().to_string())
        .replace("ORIGIN", &origin.address.port().to_string());
    let file = folder.write("envoy.json", &json);
    let name = format!("Envoy {}", version(&program, "--version"));
    let mut command = Command::new(program);
    command.arg("-c").arg(file);
    command.args(["--concurrency", "1", "--disable-hot-restart", "-l", "error"]);
    started(name, &command, [listen, listen], origin, folder)
}

fn haproxy(folder: &Folder) -> Peer {
    let (origin, listen) = (Origin::start(), ports::free());
    let text = format!(
        "global\n    nbthread 1\ndefaults\n    mode http\n    timeout connect 1s\n    timeout client 60s\n    timeout server 60s\n\
         frontend in\n    bind {listen}\n    default_backend origin\n\
         backend origin\n    http-reuse always\n    retries 1\n    retry-on conn-failure empty-response\n    server s {}\n",
        origin.address
    );
    let file = folder.write("haproxy.cfg", &text);
    let program = program("haproxy");
    let name = format!("HAProxy {}", version(&program, "-v"));
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(file);
    started(name, &command, [listen, listen], origin, folder)
}

fn nginx(folder: &Folder) -> Peer {
    let (origin, listen) = (Origin::start(), [ports::free(), ports::free()]);
    let text = format!(
        "daemon off;\nworker_processes 1;\npid {0}/nginx.pid;\nerror_log stderr error;\nevents {{ }}\n\
         http {{\n access_log off;\n client_body_temp_path {0}/body;\n proxy_temp_path {0}/proxy;\n fastcgi_temp_path {0}/f;\n\
         \x20uwsgi_temp_path {0}/u;\n scgi_temp_path {0}/s;\n upstream origin {{ server {1}; keepalive 8; }}\n\
         \x20server {{\n  listen {2};\n  listen {3} http2;\n  location / {{\n   proxy_http_version 1.1;\n   proxy_request_buffering off;\n\
         \x20  proxy_set_header Connection \"\";\n   proxy_set_header Host $http_host;\n   proxy_pass http://origin;\n  }}\n }}\n}}\n",
        folder.path().display(),
        origin.address,
        listen[0],
        listen[1]
    );
    let file = folder.write("nginx.conf", &text);
    let program = program("nginx");
    let name = format!("nginx {}", version(&program, "-v"));
    let mut command = Command::new(program);
    command.arg("-p").arg(folder.path()).arg("-c").arg(file);
    started(name, &command, listen, origin, folder)
}

/// Debian puts programs of administrators aside.
fn program(name: &str) -> String {
    let aside = format!("/usr/sbin/{name}");
    if Path::new(&aside).exists() { aside } else { name.to_owned() }
}

const ENVOY: &str = r#"{"static_resources": {"listeners": [{"name": "in",
 "address": {"socket_address": {"address": "127.0.0.1", "port_value": LISTEN}},
 "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": {
  "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
  "stat_prefix": "in", "codec_type": "AUTO",
  "route_config": {"name": "all", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
   {"match": {"prefix": "/"}, "route": {"cluster": "origin", "timeout": "0s",
    "retry_policy": {"retry_on": "connect-failure,refused-stream,reset", "num_retries": 1}}}]}]},
  "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
   "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
 "clusters": [{"name": "origin", "type": "STATIC", "connect_timeout": "1s",
  "load_assignment": {"cluster_name": "origin", "endpoints": [{"lb_endpoints": [{"endpoint": {"address":
   {"socket_address": {"address": "127.0.0.1", "port_value": ORIGIN}}}}]}]}}]}}"#;

const INTRODUCTION: &str = include_str!("differential/introduction.md");
