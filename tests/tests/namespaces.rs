//! Redirected connections, with the kernel's real rules: network namespaces are the pod of a caller and servers in three zones.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test stops at its first surprise")]

use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use tests::deadline::{SOON, until};
use tests::lab::{APPLICATION, Host, Lab, PROXY, Sidecar};
use tests::process::Process;
use tests::{need, programs};

/// Debian's own: what stands first in the search path may be out of reach for the users that applications run as.
const PYTHON: &str = "/usr/bin/python3";

const ZONES: [&str; 3] = ["a", "b", "c"];

/// A caller in zone a with rules and a proxy, and a host in each zone.
struct Mesh {
    proxy: Sidecar,
    running: Vec<Process>,
    caller: Host,
    servers: Vec<(Host, &'static str)>,
    lab: Lab,
}

/// A service: its name, the last number of its cluster addresses, its port, and what it speaks if that is said.
type Service<'a> = (&'a str, u8, u16, &'a str);

impl Mesh {
    fn new(mut lab: Lab, services: &[Service<'_>]) -> Self {
        let caller = lab.host();
        let servers: Vec<_> = ZONES.map(|zone| (lab.host(), zone)).into();
        let proxy = lab.inject(&caller, "zone = \"a\"", &topology(services, &servers));
        caller.count_leaving(&[APPLICATION, PROXY]);
        Self { proxy, running: Vec::new(), caller, servers, lab }
    }

    /// Starts a program on all servers and waits until the port answers; `{zone}` in its arguments is the zone.
    fn serve(&mut self, port: u16, command: &[&str]) {
        for (host, zone) in &self.servers {
            let words: Vec<String> =
                command.iter().map(|word| word.replace("{zone}", zone)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let folder = self.lab.folder().path();
            self.running.push(host.start(
                APPLICATION,
                &format!("port-{port}-{zone}"),
                folder,
                &words,
            ));
        }
        for (host, zone) in &self.servers {
            let dial = format!("echo > /dev/tcp/{}/{port}", host.v4);
            until(&format!("port {port} in zone {zone}"), SOON, || {
                let output = host.try_run(APPLICATION, &["bash", "-c", &dial]);
                if output.status.success() { Ok(()) } else { Err(output) }
            });
        }
    }

    fn serve_web(&mut self) {
        let demo = self.lab.demo();
        self.serve(80, &[&demo, "backend", "--listen", "[::]:80", "--zone", "{zone}"]);
    }

    /// Nothing of the application left the pod but through the proxy.
    fn assert_all_proxied(&self) {
        let (application, [v4, v6]) = (self.caller.left(APPLICATION), self.caller.left(PROXY));
        println!(
            "TCP packets that left: {v4} + {v6} of the proxy, {application:?} of the application"
        );
        assert_eq!(application, [0, 0], "TCP packets that the application sent past the proxy");
        assert!(v4 > 0, "the proxy sent nothing");
    }

    fn call(&self, command: &[&str]) -> String {
        self.caller.run(APPLICATION, command)
    }
}

fn topology(services: &[Service<'_>], servers: &[(Host, &'static str)]) -> String {
    let mut text = String::new();
    for (name, last, port, protocol) in services {
        for family in [4, 6] {
            let prefix = if family == 4 { "10.96.0.".to_owned() } else { "[fd96::".to_owned() };
            let end = if family == 4 { "" } else { "]" };
            writeln!(
                text,
                "[[service]]\nname = \"{name}{family}\"\naddresses = [\"{prefix}{last}{end}:{port}\"]"
            )
            .unwrap();
            if !protocol.is_empty() {
                writeln!(text, "protocol = \"{protocol}\"").unwrap();
            }
            for (host, zone) in servers {
                let ip = if family == 4 { host.v4.clone() } else { format!("[{}]", host.v6) };
                writeln!(
                    text,
                    "[[service.endpoint]]\naddress = \"{ip}:{port}\"\nzone = \"{zone}\""
                )
                .unwrap();
            }
        }
    }
    text
}

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name).display().to_string()
}

#[test]
fn http_stays_in_the_zone_and_none_of_it_leaves_unproxied() {
    let mut mesh = Mesh::new(need!(Lab::new()), &[("web", 1, 80, "")]);
    mesh.serve_web();
    for (service, url) in [("web4", "http://10.96.0.1/"), ("web6", "http://[fd96::1]/")] {
        for _ in 0..20 {
            let answer = mesh.call(&["curl", "-sS", "-i", url]);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let format = "%{http_version} %{http_code}";
        let http2 =
            ["curl", "-sS", "--http2-prior-knowledge", "-o", "/dev/null", "-w", format, url];
        assert_eq!(mesh.call(&http2), "2 200");
        for (protocol, count) in [("http1", 20.0), ("http2", 1.0)] {
            let labels = [("service", service), ("protocol", protocol), ("class", "success")];
            mesh.proxy.counts("tidegate_requests_total", &labels, count);
        }
    }
    // Once it is warm, all of it stays.
    let picks = |locality: &str| {
        mesh.proxy
            .metrics()
            .sum("tidegate_picks_total", &[("service", "web4"), ("locality", locality)])
    };
    // A machine that stands still for a moment looks like a zone in trouble: then the next calls are looked at.
    until("calls of a warm service all stay in their zone", SOON, || {
        let (local, remote) = (picks("local"), picks("remote"));
        for _ in 0..20 {
            mesh.call(&["curl", "-sS", "http://10.96.0.1/"]);
        }
        let (local, remote) = (picks("local") - local, picks("remote") - remote);
        if remote < 0.5 && (local - 20.0).abs() < 0.5 { Ok(()) } else { Err((local, remote)) }
    });
    mesh.assert_all_proxied();
}

/// Starts Redis, a TLS server with a certificate of its zone, and two plain servers in each zone. Returns the folder of the
/// certificates.
fn serve_databases(mesh: &mut Mesh, redis: &Path, openssl: &Path) -> String {
    let redis = redis.display().to_string();
    mesh.serve(
        6379,
        &[
            &redis,
            "--port",
            "6379",
            "--bind",
            "*",
            "-::*",
            "--protected-mode",
            "no",
            "--save",
            "",
            "--dbfilename",
            "{zone}.rdb",
        ],
    );
    let folder = mesh.lab.folder().path().display().to_string();
    for zone in ZONES {
        let (key, certificate) = (format!("{folder}/{zone}.key"), format!("{folder}/{zone}.pem"));
        let subject = format!("/CN=zone-{zone}");
        let make = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &certificate,
        ];
        assert!(std::process::Command::new(openssl).args(make).output().unwrap().status.success());
        std::process::Command::new("chmod").args(["644", &key]).status().unwrap();
    }
    let openssl = openssl.display().to_string();
    let (key, certificate) = (format!("{folder}/{{zone}}.key"), format!("{folder}/{{zone}}.pem"));
    mesh.serve(
        8443,
        &[&openssl, "s_server", "-accept", "8443", "-www", "-key", &key, "-cert", &certificate],
    );
    let plain = script("python/plain.py");
    mesh.serve(7000, &[PYTHON, &plain, "greet", "7000", "zone-{zone}"]);
    mesh.serve(7001, &[PYTHON, &plain, "late", "7001", "{zone}"]);
    folder
}

#[test]
fn databases_tls_and_servers_that_speak_first_are_balanced_by_connection() {
    let (redis, openssl) =
        (need!(programs::tool("redis-server")), need!(programs::tool("openssl")));
    let services = [
        ("redis", 1, 6379, ""),
        ("tls", 2, 8443, ""),
        ("greet", 3, 7000, ""),
        ("late", 4, 7001, ""),
    ];
    let mut mesh = Mesh::new(need!(Lab::new()), &services);
    let folder = serve_databases(&mut mesh, &redis, &openssl);
    for (address, family) in [("10.96.0.", 4), ("fd96::", 6)] {
        let at = |last: u8| format!("{address}{last}");
        for (host, zone) in &mesh.servers {
            host.run(APPLICATION, &["redis-cli", "-h", "127.0.0.1", "set", "zone", zone]);
        }
        for _ in 0..10 {
            assert_eq!(mesh.call(&["redis-cli", "-h", &at(1), "get", "zone"]).trim(), "a");
        }
        let url = if family == 4 { "https://10.96.0.2:8443/" } else { "https://[fd96::2]:8443/" };
        let trusted = format!("{folder}/a.pem");
        let tls = ["curl", "-sS", "-v", "--cacert", &trusted, "--insecure", "-o", "/dev/null", url];
        let output = mesh.caller.try_run(APPLICATION, &tls);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && said.contains("CN=zone-a"),
            "the endpoint's own certificate: {said}"
        );
        let greeting = format!("exec 3<>/dev/tcp/{}/7000; head -1 <&3", at(3));
        assert_eq!(mesh.call(&["bash", "-c", &greeting]).trim(), "zone-a");
        // All that comes after the caller's end.
        let late = format!(
            "import socket\ns = socket.create_connection((\"{}\", 7001))\ns.sendall(b\"all\")\ns.shutdown(socket.SHUT_WR)\nn = 0\nwhile d := s.recv(65536): n += len(d)\nprint(n)",
            at(4)
        );
        assert_eq!(mesh.call(&[PYTHON, "-c", &late]).trim(), "10000000");
        for name in ["redis", "tls", "greet", "late"] {
            let service = format!("{name}{family}");
            let (count, labels) = (
                if name == "redis" { 10.0 } else { 1.0 },
                [("service", service.as_str()), ("dst_zone", "a"), ("class", "success")],
            );
            mesh.proxy.counts("tidegate_connections_total", &labels, count);
            mesh.proxy.counts("tidegate_requests_total", &[("service", service.as_str())], 0.0);
        }
    }
    mesh.assert_all_proxied();
}

/// Makes an empty database cluster for each zone, as the user that serves it.
fn make_databases(mesh: &Mesh, initdb: &Path) {
    for (host, zone) in &mesh.servers {
        let data = mesh.lab.folder().path().join(format!("data-{zone}"));
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::chown(&data, Some(APPLICATION), Some(APPLICATION)).unwrap();
        let (program, data) = (initdb.display().to_string(), data.display().to_string());
        let make = [&program, "-D", &data, "--no-sync", "--auth", "trust", "--username", "shop"];
        host.run(APPLICATION, &[make.as_slice(), &["--no-locale", "--encoding", "UTF8"]].concat());
        let access = "host all all all trust\n";
        std::fs::write(format!("{data}/pg_hba.conf"), access).unwrap();
    }
}

#[test]
fn postgresql_and_nginx_are_served_by_the_own_zone() {
    let (nginx, initdb) = (need!(programs::tool("nginx")), need!(programs::postgresql("initdb")));
    let postgres = need!(programs::postgresql("postgres")).display().to_string();
    let services = [("db", 1, 5432, ""), ("web", 2, 80, "")];
    let mut mesh = Mesh::new(need!(Lab::new()), &services);
    make_databases(&mesh, &initdb);
    let folder = mesh.lab.folder().path().display().to_string();
    let data = format!("{folder}/data-{{zone}}");
    let settings =
        ["listen_addresses=*", "unix_socket_directories=", "fsync=off", "cluster_name=zone-{zone}"];
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
    mesh.serve(5432, &[&[postgres.as_str(), "-D", &data], settings.as_slice()].concat());
    for zone in ZONES {
        let scratch = format!("{folder}/scratch-{zone}");
        std::fs::create_dir(&scratch).unwrap();
        std::os::unix::fs::chown(&scratch, Some(APPLICATION), Some(APPLICATION)).unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {scratch}/{what};"));
        let text = format!(
            "daemon off; pid {scratch}/pid; error_log stderr; events {{}} http {{ access_log off; {} \
             server {{ listen 80; listen [::]:80; location / {{ return 200 zone-{zone}; }} }} }}",
            temporary.concat()
        );
        std::fs::write(format!("{folder}/nginx-{zone}.conf"), text).unwrap();
    }
    let config = format!("{folder}/nginx-{{zone}}.conf");
    mesh.serve(80, &[&nginx.display().to_string(), "-c", &config, "-e", "stderr"]);
    for (address, family) in [("10.96.0.", 4), ("fd96::", 6)] {
        let database = format!("{address}1");
        let ask = "create temp table t as select generate_series(1, 100000) n; select current_setting('cluster_name'), sum(n) from t";
        for _ in 0..3 {
            let psql = ["psql", "-h", &database, "-U", "shop", "-d", "postgres", "-qtAc", ask];
            assert_eq!(mesh.call(&psql).trim(), "zone-a|5000050000");
        }
        let labels =
            [("service", &*format!("db{family}")), ("dst_zone", "a"), ("class", "success")];
        mesh.proxy.counts("tidegate_connections_total", &labels, 3.0);
        let url = if family == 4 { "http://10.96.0.2/" } else { "http://[fd96::2]/" };
        // A new service looks around once; then it stays.
        until("nginx of the own zone answers", SOON, || {
            match mesh.call(&["curl", "-sS", url]).as_str() {
                "zone-a" => Ok(()),
                other => Err(other.to_owned()),
            }
        });
        let service = format!("web{family}");
        let failed = mesh
            .proxy
            .metrics()
            .sum("tidegate_requests_total", &[("service", &service), ("class", "failure")]);
        assert!(failed < 0.5, "{failed} failed");
    }
    mesh.assert_all_proxied();
}

#[test]
fn grpc_and_websockets_pass() {
    let python = need!(programs::python()).display().to_string();
    let mut mesh = Mesh::new(need!(Lab::new()), &[("grpc", 1, 50051, ""), ("chat", 2, 8000, "")]);
    mesh.serve(50051, &[&python, &script("grpc/server.py"), "[::]:50051"]);
    mesh.serve(8000, &[&python, &script("python/websocket.py"), "serve", "8000"]);
    let calls = r#"[{"method": "Unary", "messages": ["x"]}, {"method": "Chat", "messages": ["1", "2", "3"]}, {"method": "Fail", "messages": ["5 0"]}]"#;
    for (address, grpc, chat) in
        [("10.96.0.1:50051", "grpc4", "chat4"), ("[fd96::1]:50051", "grpc6", "chat6")]
    {
        let answers = mesh.call(&[&python, &script("grpc/client.py"), address, "grpc.test", calls]);
        let answers: Value = serde_json::from_str(&answers).unwrap();
        let codes: Vec<i64> = answers
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| answer["code"].as_i64().unwrap())
            .collect();
        assert_eq!(codes, [0, 0, 5], "{answers}");
        assert_eq!(answers[1]["messages"].as_array().unwrap().len(), 3, "{answers}");
        mesh.proxy.counts(
            "tidegate_requests_total",
            &[("service", grpc), ("protocol", "grpc"), ("class", "success")],
            3.0,
        );

        let url = if chat == "chat4" { "ws://10.96.0.2:8000/" } else { "ws://[fd96::2]:8000/" };
        let talk = mesh.call(&[&python, &script("python/websocket.py"), "talk", url]);
        let expected = r#"{"text": "h\u00e9llo", "large": true, "pong": true, "code": 4001, "reason": "as asked"}"#;
        assert_eq!(talk.trim(), expected);
        mesh.proxy.counts(
            "tidegate_connections_total",
            &[("service", chat), ("class", "success")],
            1.0,
        );
        mesh.proxy.counts("tidegate_open_connections", &[("service", chat)], 0.0);
    }
    mesh.assert_all_proxied();
}

#[test]
fn what_belongs_to_no_service_goes_straight_and_udp_is_left_alone() {
    let mut mesh = Mesh::new(need!(Lab::new()), &[("web", 1, 80, "")]);
    mesh.serve_web();
    let (host, _) = mesh.servers[1].clone();
    for url in [format!("http://{}/", host.v4), format!("http://[{}]/", host.v6)] {
        let answer = mesh.call(&["curl", "-sS", "-i", &url]);
        assert!(answer.contains("x-zone: b"), "the pod that was dialled: {answer}");
    }
    mesh.proxy.counts(
        "tidegate_connections_total",
        &[("service", "unknown"), ("class", "success")],
        2.0,
    );
    mesh.proxy.counts("tidegate_requests_total", &[], 0.0);
    // Nobody listens there, and no address is there at all.
    let refused =
        mesh.caller.try_run(APPLICATION, &["curl", "-sS", &format!("http://{}:81/", host.v4)]);
    assert!(!refused.status.success());
    mesh.proxy.counts(
        "tidegate_connections_total",
        &[("service", "unknown"), ("class", "failure")],
        1.0,
    );
    mesh.assert_all_proxied();

    let plain = script("python/plain.py");
    let folder = mesh.lab.folder().path();
    let _dns = host.start(APPLICATION, "udp", folder, &[PYTHON, &plain, "udp", "53", "answer"]);
    for (family, address) in [("AF_INET", &host.v4), ("AF_INET6", &host.v6)] {
        let ask = format!(
            "import socket\ns = socket.socket(socket.{family}, socket.SOCK_DGRAM)\ns.settimeout(1)\ns.sendto(b\"?\", (\"{address}\", 53))\nprint(s.recv(100).decode())"
        );
        let answer = until("an answer by UDP", SOON, || {
            let output = mesh.caller.try_run(APPLICATION, &[PYTHON, "-c", &ask]);
            if output.status.success() { Ok(output.stdout) } else { Err(output) }
        });
        assert_eq!(String::from_utf8_lossy(&answer).trim(), "answer");
    }
}

#[test]
fn calls_to_the_application_are_counted_and_nothing_else_is_reached() {
    let mut lab = need!(Lab::new());
    let (caller, pod) = (lab.host(), lab.host());
    let proxy = lab.inject(&pod, "zone = \"a\"", "");
    let (demo, plain) = (lab.demo(), script("python/plain.py"));
    let folder = lab.folder().path();
    let web = ["backend", "--listen", "[::]:80", "--zone", "a"];
    let _web = pod.start(APPLICATION, "web", folder, &[&[demo.as_str()], web.as_slice()].concat());
    let _greet =
        pod.start(APPLICATION, "greet", folder, &[PYTHON, &plain, "greet", "7000", "hello"]);
    let private = ["backend", "--listen", "127.0.0.1:9000", "--zone", "private"];
    let _private =
        pod.start(APPLICATION, "private", folder, &[&[demo.as_str()], private.as_slice()].concat());
    until("the application listens", SOON, || {
        let output = pod
            .try_run(APPLICATION, &["curl", "-sf", "http://127.0.0.1:9000/", "http://127.0.0.1/"]);
        if output.status.success() { Ok(()) } else { Err(output) }
    });
    let inbound = ("direction", "inbound");
    for (count, ip) in [(5.0, pod.v4.clone()), (10.0, format!("[{}]", pod.v6))] {
        for _ in 0..5 {
            let answer = caller.run(APPLICATION, &["curl", "-sS", "-i", &format!("http://{ip}/")]);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        proxy.counts(
            "tidegate_requests_total",
            &[inbound, ("service", ":80"), ("dst_zone", "a"), ("class", "success")],
            count,
        );
        // The kubelet's probes pass, and are not the application's callers.
        let probe = ["curl", "-sSf", "-A", "kube-probe/1.31", "-o", "/dev/null"];
        caller.run(APPLICATION, &[probe.as_slice(), &[&format!("http://{ip}/")]].concat());
        proxy.counts("tidegate_requests_total", &[inbound], count);
    }
    for (count, ip) in [(1.0, &pod.v4), (2.0, &pod.v6)] {
        let greeting = format!("exec 3<>/dev/tcp/{ip}/7000; head -1 <&3");
        assert_eq!(caller.run(APPLICATION, &["bash", "-c", &greeting]).trim(), "hello");
        proxy.counts(
            "tidegate_connections_total",
            &[inbound, ("service", ":7000"), ("class", "success")],
            count,
        );
    }
    proxy.counts("tidegate_requests_in_flight", &[inbound], 0.0);
    proxy.counts("tidegate_zone_bytes_total", &[], 0.0);

    // What the application offers on loopback alone, and the proxy's own ports, are nobody's.
    let refused = |count: f64, url: &str| {
        let output = caller.try_run(APPLICATION, &["curl", "-sS", "--max-time", "5", url]);
        assert!(!output.status.success(), "{url}: {output:?}");
        proxy.counts("tidegate_connections_total", &[inbound, ("class", "rejected")], count);
    };
    for (count, ip) in [(2.0, pod.v4.clone()), (4.0, format!("[{}]", pod.v6))] {
        refused(count - 1.0, &format!("http://{ip}:4243/"));
        refused(count, &format!("http://{ip}:4240/"));
        let answer = caller.run(APPLICATION, &["curl", "-sS", "-i", &format!("http://{ip}:9000/")]);
        assert!(answer.contains("tidegate-reason: endpoint_unreachable"), "{answer}");
    }
    // Something for another machine that came here by a route of the caller's own goes nowhere.
    caller.run(0, &["ip", "route", "add", "10.99.0.1/32", "via", &pod.v4]);
    refused(5.0, "http://10.99.0.1/");
    // A program of the pod that was told of the proxy names the service itself; this one is not known.
    let told = pod
        .run(APPLICATION, &["curl", "-sS", "-i", "-x", "http://127.0.0.1:4240", "http://nowhere/"]);
    assert!(told.contains("tidegate-reason: unknown_service"), "{told}");
}
