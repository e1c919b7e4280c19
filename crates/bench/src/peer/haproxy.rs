//! HAProxy with one thread, least connections and keep-alive to the endpoints.

use super::{Setup, Speaks, write};
use std::fmt::Write as _;
use std::process::Command;

pub(super) fn command(setup: &Setup<'_>) -> anyhow::Result<Command> {
    let configuration = write(setup, "haproxy.cfg", &configuration(setup)?)?;
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(configuration);
    Ok(command)
}

fn configuration(setup: &Setup<'_>) -> Result<String, std::fmt::Error> {
    let (mode, front, back) = match setup.speaks {
        Speaks::Http1 => ("http", "", ""),
        Speaks::Http2 | Speaks::Grpc => ("http", " proto h2", " proto h2"),
        Speaks::Tcp => ("tcp", "", ""),
    };
    let reuse = if mode == "http" {
        "    http-reuse always\n    retries 1\n    retry-on conn-failure empty-response\n"
    } else {
        ""
    };
    let mut text = format!(
        "global\n    nbthread 1\n    maxconn 9500\n\
         defaults\n    mode {mode}\n    timeout connect 1s\n    timeout client 120s\n    timeout server 120s\n\
         frontend in\n    bind {}{front}\n    default_backend origin\n\
         backend origin\n    balance leastconn\n{reuse}",
        setup.listen
    );
    for (index, endpoint) in setup.endpoints.iter().enumerate() {
        writeln!(text, "    server s{index} {endpoint}{back}")?;
    }
    Ok(text)
}
