//! What a proxy still does with endpoints that say nothing any more.

use crate::load::Load;
use crate::world::World;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

/// After this time nothing but probes may begin there.
const NOTICED: Duration = Duration::from_secs(2);
/// After this time nothing may be open there.
const DEAD: Duration = Duration::from_secs(10);

/// Endpoints that are watched.
pub(crate) struct Silence {
    addresses: Vec<IpAddr>,
    begun: u64,
    probed: f64,
    open: usize,
}

impl Silence {
    /// Counts what begins after the first moments, and what is open later.
    pub(crate) fn watch(world: &World, numbers: &[usize], load: &Load, onset: Duration) -> Self {
        let addresses: Vec<_> =
            numbers.iter().map(|number| world.endpoints[*number].address.ip()).collect();
        for address in &addresses {
            let count = ["-w", "-A", "OUTPUT", "-p", "tcp", "--syn", "-d", &address.to_string()];
            output("iptables", &count);
        }
        let mut silence = Self { addresses, begun: 0, probed: 0.0, open: 0 };
        std::thread::sleep((onset + NOTICED).saturating_sub(load.elapsed()));
        (silence.begun, silence.probed) = (silence.begun(), probes(world));
        std::thread::sleep((onset + DEAD).saturating_sub(load.elapsed()));
        silence.open = silence.open();
        silence
    }

    pub(crate) fn remark(&self, world: &World) -> String {
        format!(
            "after {NOTICED:?} {} SYN packets to it and {} probes; after {DEAD:?} {} connections to it",
            self.begun() - self.begun,
            probes(world) - self.probed,
            self.open
        )
    }

    fn begun(&self) -> u64 {
        let listed = output("iptables", &["-w", "-nvxL", "OUTPUT"]);
        let rules = listed.lines().filter(|line| {
            self.addresses.iter().any(|address| line.contains(&format!(" {address} ")))
        });
        rules.map(|line| line.split_whitespace().next().unwrap().parse::<u64>().unwrap()).sum()
    }

    fn open(&self) -> usize {
        let count = |address: &IpAddr| {
            output("ss", &["-Htn", "state", "established", "dst", &address.to_string()])
                .lines()
                .count()
        };
        self.addresses.iter().map(count).sum()
    }
}

fn probes(world: &World) -> f64 {
    let metrics = world.proxy.metrics();
    metrics.sum("tidegate_probes_total", &[])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
