//! What goes where the application sent it, with the kernel's real rules: calls of gateways for hosts that are no service's,
//! connections whose service goes away, and everything while no controller was ever there.
use tests::deadline::{SOON, until};
use tests::lab::{APPLICATION, Host, Lab};
use tests::need;
use tests::process::Process;

/// Debian's own: what stands first in the search path may be out of reach for the users that applications run as.
const PYTHON: &str = "/usr/bin/python3";

/// One connection, and requests on it until its zone is another one; any answer but 200 ends it.
const KEEP: &str = r#"
import http.client, sys, time
connection = http.client.HTTPConnection(sys.argv[1], 80, timeout=10)
first = None
while True:
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    zone = answer.headers["x-zone"]
    socket = connection.sock.getsockname()
    if first is None:
        first = (zone, socket)
        print("began", zone, flush=True)
    if answer.status != 200 or socket != first[1]:
        sys.exit(f"{answer.status} {answer.headers}")
    if zone != first[0]:
        print("ended", zone, flush=True)
        break
    time.sleep(0.05)
"#;

/// A caller and two servers, each with a web server on port 80 and one that greets on port 7000.
struct World {
    lab: Lab,
    caller: Host,
    servers: [Host; 2],
    _running: Vec<Process>,
}

impl World {
    fn new(mut lab: Lab) -> Self {
        let caller = lab.host();
        let servers = [lab.host(), lab.host()];
        let demo = lab.demo();
        let plain = format!("{}/python/plain.py", env!("CARGO_MANIFEST_DIR"));
        let mut running = Vec::new();
        for (host, zone) in servers.iter().zip(["a", "b"]) {
            let web = [&*demo, "backend", "--listen", "[::]:80", "--zone", zone];
            let greet = [PYTHON, &plain, "greet", "7000", zone];
            for (name, command) in [("web", &web[..]), ("greet", &greet[..])] {
                let name = format!("{name}-{zone}");
                running.push(host.start(APPLICATION, &name, lab.folder().path(), command));
            }
            for port in ["80", "7000"] {
                until_open(host, port);
            }
        }
        Self { lab, caller, servers, _running: running }
    }

    /// The zone of the server that answers a request.
    fn zone(&self, url: &str, more: &[&str]) -> String {
        let ask = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %header{x-zone}", url];
        self.caller.run(APPLICATION, &[&ask, more].concat())
    }

    fn greeting(&self, address: &str) -> String {
        let greeting = format!("exec 3<>/dev/tcp/{address}/7000; head -1 <&3");
        self.caller.run(APPLICATION, &["bash", "-c", &greeting]).trim().to_owned()
    }
}

fn until_open(host: &Host, port: &str) {
    let dial = format!("echo > /dev/tcp/127.0.0.1/{port}");
    until("the server listens", SOON, || {
        let output = host.try_run(APPLICATION, &["bash", "-c", &dial]);
        if output.status.success() { Ok(()) } else { Err(output) }
    });
}

/// A service at an address, with one endpoint.
fn service(address: &str, host: &str, endpoint: &str) -> String {
    format!(
        "[[service]]\nname = \"web\"\nhosts = [\"{host}\"]\naddresses = [\"{address}:80\"]\n\
         [[service.endpoint]]\naddress = \"{endpoint}:80\"\nzone = \"a\"\n"
    )
}

#[test]
fn a_gateway_is_routed_by_host_and_to_the_pod_where_that_is_no_service() {
    let world = World::new(need!(Lab::new()));
    let [here, there] = &world.servers;
    let services = service("10.96.0.1", "web.shop", &here.v4);
    let proxy = world.lab.inject_as("gateway", &world.caller, "zone = \"a\"", &services);
    let pod = format!("http://{}/", there.v4);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let with = |host: &str| world.zone(&pod, &[version, "-H", &format!("Host: {host}")]);
        assert_eq!(with("web.shop"), "200 a", "{version}: the service of the host");
        assert_eq!(with("shop.example"), "200 b", "{version}: the pod that was dialled");
    }
    assert_eq!(world.zone("http://10.96.0.1/", &["-H", "Host: shop.example"]), "200 a");
    let straight = [("service", "unknown"), ("class", "success")];
    proxy.counts("tidegate_requests_total", &straight, 2.0);
    proxy.counts("tidegate_requests_total", &[("service", "web"), ("class", "success")], 3.0);
    // What is not HTTP has no host.
    assert_eq!(world.greeting(&there.v4), "b");
    proxy.counts("tidegate_connections_total", &straight, 1.0);
}

#[test]
fn requests_on_a_connection_whose_service_goes_away_reach_where_they_were_going() {
    let world = World::new(need!(Lab::new()));
    let [here, there] = &world.servers;
    let services = service(&there.v4, "web.shop", &here.v4);
    let proxy = world.lab.inject(&world.caller, "zone = \"a\"", &services);
    let folder = world.lab.folder().path();
    let command = [PYTHON, "-c", KEEP, &there.v4];
    let mut caller = world.caller.start(APPLICATION, "keep", folder, &command);
    let zone = |line: &str, word: &str| line.strip_prefix(word).map(|zone| zone.trim().to_owned());
    assert_eq!(caller.until_printed(SOON, |line| zone(line, "began")), "a");
    proxy.set_services("");
    assert_eq!(caller.until_printed(SOON, |line| zone(line, "ended")), "b");
}

#[test]
fn without_a_controller_calls_go_where_the_application_dials() {
    let world = World::new(need!(Lab::new()));
    let [_, there] = &world.servers;
    // A cluster address that somebody answers at, as kube-proxy would see to.
    there.run(0, &["ip", "address", "add", "10.96.0.1/32", "dev", "eth0"]);
    there.run(0, &["ip", "-6", "address", "add", "fd96::1/128", "dev", "eth0", "nodad"]);
    // Nobody has that address.
    let nobody = "http://10.77.0.250:4280";
    for arguments in [&[][..], &["--ingress"]] {
        let proxy = world.lab.follow(&world.caller, nobody, arguments);
        let dialled = ["10.96.0.1", "[fd96::1]", &there.v4];
        for (number, address) in (1_u8..).zip(dialled) {
            assert_eq!(world.zone(&format!("http://{address}/"), &[]), "200 b", "{arguments:?}");
            let unknown = [("service", "unknown"), ("class", "success")];
            until("it is counted", SOON, || {
                let metrics = proxy.metrics();
                let passed = metrics.sum("tidegate_connections_total", &unknown)
                    + metrics.sum("tidegate_requests_total", &unknown);
                if (passed - f64::from(number)).abs() < 0.5 { Ok(()) } else { Err(passed) }
            });
        }
        assert_eq!(world.greeting("10.96.0.1"), "b");
    }
}
