//! Tidegate with its defaults: balancing, breaker, retry bookkeeping and metrics all on.

use super::{Setup, Speaks, write};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub(super) fn command(program: &Path, setup: &Setup<'_>) -> anyhow::Result<Command> {
    let topology = write(setup, "topology.toml", &topology(setup)?)?;
    let mut command = Command::new(program);
    command.arg("--topology").arg(topology).args([
        "--admin",
        "127.0.0.1:0",
        "--workers",
        "1",
        "--log-level",
        "warn",
    ]);
    Ok(command)
}

fn topology(setup: &Setup<'_>) -> Result<String, std::fmt::Error> {
    let protocol = match setup.speaks {
        Speaks::Http1 => "http1",
        Speaks::Http2 | Speaks::Grpc => "http2",
        Speaks::Tcp => "opaque",
    };
    let mut text = format!(
        "[proxy]\nzone = \"a\"\nregion = \"r1\"\n\n[[listener]]\naddress = \"{}\"\n",
        setup.listen
    );
    if setup.services == 1 {
        writeln!(text, "service = \"s0\"")?;
    }
    for service in 0..setup.services {
        writeln!(text, "[[service]]\nname = \"s{service}\"\nprotocol = \"{protocol}\"")?;
        for endpoint in setup.endpoints {
            write!(
                text,
                "[[service.endpoint]]\naddress = \"{endpoint}\"\nzone = \"a\"\nregion = \"r1\"\n"
            )?;
        }
    }
    Ok(text)
}
