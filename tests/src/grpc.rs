//! Real gRPC peers: grpcio, in Python.

use crate::deadline::SOON;
use crate::folder::Folder;
use crate::process::Process;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("grpc").join(name)
}

/// A running gRPC server; `tests/grpc/server.py` says what its methods do.
#[derive(Debug)]
pub struct Server {
    /// The program.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    _folder: Folder,
}

impl Server {
    /// Starts it.
    pub fn start(python: &Path) -> Self {
        let folder = Folder::new();
        let mut command = Command::new(python);
        command.arg(script("server.py"));
        let mut process = Process::start("grpc-server", &command, folder.path());
        let port = process
            .until_printed(SOON, |line| line.strip_prefix("listening on port ")?.parse().ok());
        Self { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), _folder: folder }
    }
}

/// A call to make.
#[derive(Clone, Debug)]
pub struct Call(Value);

impl Call {
    /// A call of a method with the messages to send.
    pub fn new(method: &str, messages: &[&str]) -> Self {
        Self(json!({"method": method, "messages": messages}))
    }

    /// The same with a deadline.
    #[must_use]
    pub fn timeout(mut self, seconds: f64) -> Self {
        self.set("timeout", json!(seconds));
        self
    }

    /// The same with metadata.
    #[must_use]
    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        self.set("metadata", json!({ key: value }));
        self
    }

    fn set(&mut self, key: &str, value: Value) {
        self.0.as_object_mut().unwrap().insert(key.to_owned(), value);
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status code.
    pub code: u64,
    /// The status message.
    pub details: String,
    /// The messages that came.
    pub messages: Vec<String>,
    /// Metadata before the messages.
    pub initial: Value,
    /// Metadata after them.
    pub trailing: Value,
}

/// Makes calls one after another on one channel.
pub fn call(python: &Path, address: SocketAddr, authority: &str, calls: &[Call]) -> Vec<Outcome> {
    let calls: Vec<_> = calls.iter().map(|call| call.0.clone()).collect();
    let mut command = Command::new(python);
    command.arg(script("client.py")).args([&address.to_string(), authority]);
    let output = command.arg(Value::from(calls).to_string()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcomes: Value = serde_json::from_slice(&output.stdout).unwrap();
    outcomes.as_array().unwrap().iter().map(outcome).collect()
}

fn outcome(value: &Value) -> Outcome {
    let field = |key: &str| value.get(key).cloned().unwrap_or_default();
    let messages = field("messages");
    let texts = messages.as_array().into_iter().flatten().filter_map(Value::as_str);
    Outcome {
        code: field("code").as_u64().unwrap(),
        details: field("details").as_str().unwrap_or_default().to_owned(),
        messages: texts.map(str::to_owned).collect(),
        initial: field("initial"),
        trailing: field("trailing"),
    }
}
