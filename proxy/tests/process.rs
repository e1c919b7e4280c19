//! The proxy as a process: starts, reloads, is asked, drains. Real binary, real sockets.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests may fail loudly")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Waits are for conditions, up to this long.
const DEADLINE: Duration = Duration::from_secs(20);

/// A running proxy with its own topology file; killed and cleaned up at the end.
struct Proxy {
    child: Child,
    folder: PathBuf,
    admin: SocketAddr,
}

impl Proxy {
    fn start(topology: &str) -> Self {
        let folder = folder();
        fs::write(folder.join("t.toml"), topology).expect("written");
        let log = fs::File::create(folder.join("log")).expect("a log");
        let mut command = command();
        command.args(["--workers", "2", "--admin", "127.0.0.1:0", "--grace", "5s", "--topology"]);
        let child =
            command.arg(folder.join("t.toml")).stderr(log).spawn().expect("the proxy starts");
        let mut proxy = Self { child, folder, admin: ([0, 0, 0, 0], 0).into() };
        proxy.admin = proxy.logged("admin server listens");
        let admin = proxy.admin;
        until("it is ready", || {
            get(admin, "/ready").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
        });
        proxy
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).expect("a log")
    }

    /// The address in the first log line with that message.
    fn logged(&self, message: &str) -> SocketAddr {
        let find = || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(message))?;
            line.split("address=").nth(1)?.split_whitespace().next()?.parse().ok()
        };
        until(message, || find().is_some());
        find().expect("just seen")
    }

    fn rewrite(&self, topology: &str) {
        fs::write(self.folder.join("next"), topology).expect("written");
        fs::rename(self.folder.join("next"), self.folder.join("t.toml")).expect("renamed");
    }

    fn metrics(&self) -> String {
        get(self.admin, "/metrics").expect("an answer")
    }

    fn signal(&self, name: &str) {
        let killed = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(killed.success());
    }

    fn exit_status(&mut self) -> Option<i32> {
        until("it ends", || self.child.try_wait().expect("a child").is_some());
        self.child.wait().expect("a child").code()
    }

    fn why(&self, arguments: &[&str]) -> Output {
        command()
            .arg("why")
            .args(arguments)
            .args(["--admin", &self.admin.to_string()])
            .output()
            .expect("it runs")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended already, as the test wanted.
        if self.child.kill().is_ok() {
            self.child.wait().expect("a child");
        }
        fs::remove_dir_all(&self.folder).expect("its own folder");
    }
}

fn command() -> Command {
    // The kernel ends it with the test, also when that is killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_tidegate-proxy")]);
    command.env_clear().stdin(Stdio::null());
    command
}

fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path =
        std::env::temp_dir().join(format!("tidegate-process-{}-{number}", std::process::id()));
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let step = Duration::from_millis(20);
    let (never, waiting) = std::sync::mpsc::channel::<()>();
    for _ in 0..DEADLINE.as_millis() / step.as_millis() {
        if condition() {
            return;
        }
        assert!(waiting.recv_timeout(step).is_err(), "nobody sends");
    }
    drop(never);
    panic!("not within {DEADLINE:?}: {what}");
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Calls a service through the proxy.
fn call(listener: SocketAddr, service: &str) -> String {
    let mut stream = TcpStream::connect(listener).expect("it listens");
    write!(stream, "GET / HTTP/1.1\r\nhost: {service}\r\nconnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A topology with a forward listener and services of one endpoint each, in the proxy's zone.
fn topology(services: &[(&str, SocketAddr)]) -> String {
    let head = "[proxy]\nzone = \"a\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n";
    let service = |(name, endpoint): &(&str, SocketAddr)| {
        format!(
            "[[service]]\nname = \"{name}\"\n[[service.endpoint]]\naddress = \"{endpoint}\"\nzone = \"a\"\n"
        )
    };
    head.to_owned() + &services.iter().map(service).collect::<String>()
}

/// Answers every request, one read each, with 200 and ends with the test process.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
        let written = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        written.expect("the proxy reads what it asked for");
    }
}

#[test]
fn a_good_change_is_taken_and_a_bad_one_leaves_the_last_good_in_force() {
    let proxy = Proxy::start(&topology(&[("web", backend())]));
    let listener = proxy.logged("listening");
    let calls = |service: &str| call(listener, service);
    assert!(calls("web").ends_with("hello"), "{}", calls("web"));
    proxy.rewrite("[[listner]]\nzone = 3\n");
    until("the mistake is counted", || {
        proxy.metrics().contains("tidegate_discovery_errors_total 1")
    });
    assert!(proxy.metrics().contains("tidegate_discovery_up 0"));
    assert!(proxy.log().contains("did you mean listener?"), "{}", proxy.log());
    assert!(calls("web").ends_with("hello"), "still served");
    proxy.rewrite(&topology(&[("web", backend()), ("cart", backend())]));
    until("the new service is there", || calls("cart").ends_with("hello"));
    assert!(proxy.metrics().contains("tidegate_discovery_up 1"));
}

#[test]
fn a_person_gets_an_explanation() {
    let proxy = Proxy::start(&topology(&[("web", backend()), ("cart", backend())]));
    let told = proxy.why(&["web"]);
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(
        told.status.success() && text.starts_with("web: requests from zone a stay"),
        "{told:?}"
    );
    let told = proxy.why(&["cart", "--json"]);
    assert!(
        told.status.success()
            && String::from_utf8_lossy(&told.stdout).contains("\"name\": \"cart\""),
        "{told:?}"
    );
    let told = proxy.why(&["card"]);
    let text = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(1));
    assert!(text.contains("knows no service \"card\"; it knows cart, web"), "{text}");
}

#[test]
fn why_without_a_proxy_says_where_it_looked() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("bound").to_string();
    drop(free);
    let told = command().args(["why", "web", "--admin", &address]).output().expect("it runs");
    let text = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(1));
    assert!(text.contains(&format!("no proxy at {address}")) && text.contains("--admin"), "{text}");
}

#[test]
fn it_drains_and_exits_with_0() {
    for signal in ["-TERM", "-INT"] {
        let mut proxy = Proxy::start(&topology(&[]));
        proxy.signal(signal);
        assert_eq!(proxy.exit_status(), Some(0), "{}", proxy.log());
        assert!(proxy.log().contains("drained"), "{}", proxy.log());
    }
}

#[test]
fn what_it_is_told_wrong_is_exit_status_2() {
    let folder = folder();
    let (bad, good) = (folder.join("bad.toml"), folder.join("good.toml"));
    fs::write(&bad, "[[listener]]\naddress = \"x\"\n[[listener]]\n").expect("written");
    fs::write(&good, topology(&[])).expect("written");
    let cases: [(&[&str], &str); 5] = [
        (&[], "--topology <FILE>"),
        (
            &["--topology", bad.to_str().expect("text")],
            "bad.toml has 2 mistakes:\nline 2: listener[0].address: \"x\" is no address",
        ),
        (&["--topology", "/nowhere/t.toml"], "cannot read /nowhere/t.toml"),
        (
            &["--topology", good.to_str().expect("text"), "--log-level", "loud=very"],
            "no such level",
        ),
        (
            &["--topology", good.to_str().expect("text"), "--log-format", "xml"],
            "write text or json",
        ),
    ];
    for (arguments, expected) in cases {
        let told = command().args(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn an_admin_port_in_use_is_told_by_name() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let folder = folder();
    fs::write(folder.join("t.toml"), topology(&[])).expect("written");
    let address = taken.local_addr().expect("bound").to_string();
    let mut command = command();
    let told = command
        .args(["--admin", &address, "--topology"])
        .arg(folder.join("t.toml"))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("cannot listen on {address} (--admin)")), "{text}");
    fs::remove_dir_all(folder).expect("its own folder");
}

#[test]
fn every_metric_says_what_it_means() {
    let proxy = Proxy::start(&topology(&[("web", backend())]));
    let listener = proxy.logged("listening");
    let call = |host: &str| call(listener, host);
    assert!(call("web").ends_with("hello"));
    assert!(
        call("nowhere").starts_with("HTTP/1.1 "),
        "a request that names no service is answered too"
    );
    let answer = proxy.metrics();
    let (_, text) = answer.split_once("\r\n\r\n").expect("a head");
    let named = |kind: &str| {
        text.lines()
            .filter_map(|line| line.strip_prefix(kind)?.split(' ').next())
            .collect::<Vec<_>>()
    };
    let (helps, types) = (named("# HELP "), named("# TYPE "));
    assert_eq!(helps, types, "each family has both, once");
    let page = include_str!("../../docs/metrics.md");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let family = family.filter(|family| types.contains(family)).unwrap_or(name);
        assert!(types.contains(&family), "{line}");
        let row = page.lines().find(|row| row.starts_with(&format!("| `{family}` |")));
        let labels = row.expect("it is in docs/metrics.md").split('|').nth(3).expect("labels");
        for label in labels_of(line) {
            assert!(
                labels.contains(label) || label == "le",
                "label {label} of {family} is not in docs/metrics.md"
            );
        }
    }
    // Debian's package prometheus brings it; the checks above hold without.
    if let Ok(mut promtool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    {
        promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        let checked = promtool.wait_with_output().expect("it ends");
        assert!(checked.status.success(), "{checked:?}");
    }
}

fn labels_of(line: &str) -> Vec<&str> {
    let inside = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let inside = inside.map_or("", |(inside, _)| inside);
    inside.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect()
}
