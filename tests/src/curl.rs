//! Real curl.

use std::path::Path;
use std::process::Command;

/// What curl got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status of the last response; 0 without one.
    pub status: u16,
    /// The HTTP version of the last response.
    pub version: String,
    /// Connections that the last transfer opened.
    pub connections: u32,
    /// Headers of all responses as they came, and curl's messages.
    pub headers: String,
    /// The bodies of all responses.
    pub body: Vec<u8>,
    /// curl's own exit status: 0 when the transfers were complete.
    pub exit: Option<i32>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The last value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.headers.lines().filter_map(|line| line.split_once(':'));
        let values = fields.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        values.map(|(_, value)| value.trim()).next_back()
    }
}

/// Begins the line that curl writes about a transfer.
const MARK: &str = "--transfer-- ";

/// Runs curl; no transfer takes longer than 30 s.
pub fn curl(program: &Path, arguments: &[&str]) -> Answer {
    let mut command = Command::new(program);
    // No proxy and no configuration of the machine.
    command.env_clear().args(["--disable", "--silent", "--show-error", "--max-time", "30"]);
    command.args(["--dump-header", "/dev/stderr", "--write-out"]);
    command.arg(format!("%{{stderr}}\n{MARK}%{{http_code}} %{{http_version}} %{{num_connects}}\n"));
    let output = command.args(arguments).output().unwrap();
    let headers = String::from_utf8_lossy(&output.stderr).into_owned();
    let transfer =
        headers.lines().rev().find_map(|line| line.strip_prefix(MARK)).unwrap_or_default();
    let mut words = transfer.split(' ');
    Answer {
        status: words.next().and_then(|status| status.parse().ok()).unwrap_or(0),
        version: words.next().unwrap_or_default().to_owned(),
        connections: words.next().and_then(|count| count.parse().ok()).unwrap_or(0),
        body: output.stdout,
        exit: output.status.code(),
        headers,
    }
}
