//! The policies that run side by side, and the topology file that tells a proxy about the demo's world.

use std::fmt;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::str::FromStr;

/// The zones, in the order of every table and chart.
pub(crate) const ZONES: [&str; 3] = ["a", "b", "c"];

/// The one service of the demo.
pub(crate) const SERVICE: &str = "web";

/// A locality policy of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Policy {
    /// Strict zone pinning.
    Pinned,
    /// Tidegate's default.
    Adaptive,
    /// No locality: power of two choices over all zones.
    P2c,
    /// The load signal of HAZL, with its usual band.
    Hazl,
}

impl Policy {
    /// All there are.
    pub(crate) const ALL: [Self; 4] = [Self::Pinned, Self::Adaptive, Self::P2c, Self::Hazl];

    /// Its name on the command line and in `report.json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Adaptive => "adaptive",
            Self::P2c => "p2c",
            Self::Hazl => "hazl",
        }
    }

    /// Its heading in the report.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Pinned => "Strict zone pinning",
            Self::Adaptive => "Tidegate, adaptive",
            Self::P2c => "No locality (P2C over all zones)",
            Self::Hazl => "Tidegate with HAZL’s load band",
        }
    }

    /// Its `[service.policy]` in the topology file.
    fn toml(self) -> &'static str {
        match self {
            Self::Pinned => "[service.policy]\nmode = \"Pinned\"\ntiers = [\"zone\"]\n",
            Self::Adaptive => {
                "[service.policy]\nmode = \"Adaptive\"\ntiers = [\"zone\", \"any\"]\n"
            }
            Self::P2c => "[service.policy]\nmode = \"Off\"\n",
            Self::Hazl => concat!(
                "[service.policy]\nmode = \"Adaptive\"\ntiers = [\"zone\", \"any\"]\n",
                "[service.policy.load]\nsignal = \"Outstanding\"\nlow = 0.8\nhigh = 2.0\n"
            ),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What is no policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no policy {0:?}; there are pinned, adaptive, p2c and hazl")]
pub(crate) struct PolicyError(String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(given: &str) -> Result<Self, PolicyError> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == given);
        found.ok_or_else(|| PolicyError(given.to_owned()))
    }
}

/// What one proxy is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Topology<'a> {
    /// The policy of its service.
    pub(crate) policy: Policy,
    /// Its own zone.
    pub(crate) zone: &'a str,
    /// What its callers dial: its listener for the service, or the service's address.
    pub(crate) listen: SocketAddr,
    /// Its forward listener, or where redirected connections arrive.
    pub(crate) forward: SocketAddr,
    /// Whether its callers' connections are redirected to it.
    pub(crate) redirected: bool,
    /// The endpoints, with their zones.
    pub(crate) endpoints: &'a [(SocketAddr, &'a str)],
}

impl Topology<'_> {
    /// The topology file.
    pub(crate) fn toml(&self) -> String {
        let Self { zone, listen, forward, .. } = self;
        let (listeners, addresses) = if self.redirected {
            let listeners =
                format!("[[listener]]\naddress = \"{forward}\"\nredirected = \"outbound\"\n");
            (listeners, format!("addresses = [\"{listen}\"]\n"))
        } else {
            let listeners = format!(
                "[[listener]]\naddress = \"{listen}\"\nservice = \"{SERVICE}\"\n\n[[listener]]\naddress = \"{forward}\"\n"
            );
            (listeners, String::new())
        };
        let mut text = format!(
            "[proxy]\nzone = \"{zone}\"\nregion = \"local\"\n\n{listeners}\n[[service]]\nname = \"{SERVICE}\"\n{addresses}\n{}",
            self.policy.toml()
        );
        for (address, zone) in self.endpoints {
            let written = write!(
                text,
                "\n[[service.endpoint]]\naddress = \"{address}\"\nzone = \"{zone}\"\nregion = \"local\"\n"
            );
            debug_assert!(written.is_ok(), "a string takes any text");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_by_its_name() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        let error = "adptive".parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains("pinned, adaptive, p2c and hazl"), "{error}");
    }

    #[test]
    fn redirected_callers_dial_the_services_address() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let topology = Topology {
            policy: Policy::P2c,
            zone: "a",
            listen: address(1),
            forward: address(2),
            redirected: true,
            endpoints: &[],
        };
        let text = topology.toml();
        let listener = "[[listener]]\naddress = \"127.0.0.1:2\"\nredirected = \"outbound\"\n";
        assert_eq!(text.matches("[[listener]]").count(), 1, "{text}");
        assert!(
            text.contains(listener) && text.contains("addresses = [\"127.0.0.1:1\"]"),
            "{text}"
        );
    }

    #[test]
    fn the_topology_names_zone_listeners_policy_and_endpoints() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let topology = Topology {
            policy: Policy::Hazl,
            zone: "b",
            listen: address(1),
            forward: address(2),
            redirected: false,
            endpoints: &[(address(3), "a"), (address(4), "b")],
        };
        assert_eq!(
            topology.toml(),
            r#"[proxy]
zone = "b"
region = "local"

[[listener]]
address = "127.0.0.1:1"
service = "web"

[[listener]]
address = "127.0.0.1:2"

[[service]]
name = "web"

[service.policy]
mode = "Adaptive"
tiers = ["zone", "any"]
[service.policy.load]
signal = "Outstanding"
low = 0.8
high = 2.0

[[service.endpoint]]
address = "127.0.0.1:3"
zone = "a"
region = "local"

[[service.endpoint]]
address = "127.0.0.1:4"
zone = "b"
region = "local"
"#
        );
    }
}
