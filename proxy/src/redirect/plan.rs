//! The rules of one address family, as text that `iptables-save` prints and `iptables-restore` takes. Pure.

use super::list::Ports;
use ipnet::IpNet;

/// Where the application's calls are sorted.
const OUTBOUND: &str = "TIDEGATE_OUTBOUND";
/// Where the calls to the application are sorted.
const INBOUND: &str = "TIDEGATE_INBOUND";
/// How the kernel's own chains lead to ours.
const JUMPS: [&str; 2] =
    ["OUTPUT -p tcp -j TIDEGATE_OUTBOUND", "PREROUTING -p tcp -j TIDEGATE_INBOUND"];

/// What is redirected, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) outbound_port: u16,
    pub(super) inbound_port: u16,
    pub(super) admin_port: u16,
    pub(super) proxy_uid: u32,
    pub(super) skip_outbound_ports: Vec<Ports>,
    pub(super) skip_outbound_subnets: Vec<IpNet>,
    pub(super) skip_inbound_ports: Vec<Ports>,
    pub(super) skip_inbound_subnets: Vec<IpNet>,
}

impl Plan {
    /// The rules of our chains in order, each written as `iptables-save` writes it, so that what is in force can be compared.
    pub(super) fn rules(&self) -> Vec<String> {
        let mut rules = vec![
            // The proxy's own connections go out as they are, or they would come back to it for ever.
            format!("-A {OUTBOUND} -m owner --uid-owner {} -j RETURN", self.proxy_uid),
            // What stays in the pod does not leave it unproxied; `kubectl port-forward` and probes of the pod's own use it.
            format!("-A {OUTBOUND} -o lo -j RETURN"),
        ];
        rules.extend(
            self.skip_outbound_subnets
                .iter()
                .map(|net| format!("-A {OUTBOUND} -d {net} -j RETURN")),
        );
        rules.extend(self.skip_outbound_ports.iter().map(|ports| skip_ports(OUTBOUND, ports)));
        rules.push(format!("-A {OUTBOUND} -p tcp -j REDIRECT --to-ports {}", self.outbound_port));
        rules.extend(
            self.skip_inbound_subnets.iter().map(|net| format!("-A {INBOUND} -s {net} -j RETURN")),
        );
        rules.push(skip_ports(INBOUND, &self.admin_port));
        rules.extend(self.skip_inbound_ports.iter().map(|ports| skip_ports(INBOUND, ports)));
        rules.push(format!("-A {INBOUND} -p tcp -j REDIRECT --to-ports {}", self.inbound_port));
        rules
    }

    /// One transaction that makes these rules the ones in force, whatever of ours `saved` (the output of `iptables-save -t
    /// nat`) holds. Naming a chain empties it.
    pub(super) fn change(&self, saved: &str) -> String {
        let mut lines =
            vec!["*nat".to_owned(), format!(":{OUTBOUND} - [0:0]"), format!(":{INBOUND} - [0:0]")];
        lines.extend(jumps_to_remove(saved));
        // First of all: a rule of others before it could let traffic pass by.
        lines.extend(JUMPS.map(|jump| format!("-I {}", jump.replacen(' ', " 1 ", 1))));
        lines.extend(self.rules());
        transaction(&lines)
    }

    /// What is not as planned; nothing if the rules are in force.
    pub(super) fn differences(&self, saved: &str) -> Vec<String> {
        let mut differences = Vec::new();
        for jump in JUMPS {
            let count = saved.lines().filter(|line| line.trim() == format!("-A {jump}")).count();
            if count != 1 {
                differences.push(format!("{jump}: found {count} times, not once"));
            }
        }
        for chain in [OUTBOUND, INBOUND] {
            let prefix = format!("-A {chain} ");
            let planned = self.rules();
            let planned: Vec<&str> = planned
                .iter()
                .map(String::as_str)
                .filter(|rule| rule.starts_with(&prefix))
                .collect();
            let found: Vec<&str> =
                saved.lines().map(str::trim).filter(|rule| rule.starts_with(&prefix)).collect();
            if let Some(missing) = planned.iter().find(|rule| !found.contains(rule)) {
                differences.push(format!("missing: {missing}"));
            } else if let Some(strange) = found.iter().find(|rule| !planned.contains(rule)) {
                differences.push(format!("not ours: {strange}"));
            } else if planned != found {
                differences.push(format!("{chain}: the rules stand in another order"));
            }
        }
        differences
    }
}

/// One transaction that removes all that is ours; `None` if there is nothing.
pub(super) fn removal(saved: &str) -> Option<String> {
    if !has_chains(saved) {
        return None;
    }
    let mut lines = vec!["*nat".to_owned()];
    lines.extend(jumps_to_remove(saved));
    let chains = [OUTBOUND, INBOUND].into_iter().filter(|chain| declares(saved, chain));
    lines.extend(chains.flat_map(|chain| [format!("-F {chain}"), format!("-X {chain}")]));
    Some(transaction(&lines))
}

/// Whether a chain of ours is there.
pub(super) fn has_chains(saved: &str) -> bool {
    [OUTBOUND, INBOUND].into_iter().any(|chain| declares(saved, chain))
}

fn declares(saved: &str, chain: &str) -> bool {
    saved.lines().any(|line| line.starts_with(&format!(":{chain} ")))
}

fn jumps_to_remove(saved: &str) -> impl Iterator<Item = String> {
    let leads_to_ours = |rule: &&str| {
        let ours =
            [OUTBOUND, INBOUND].into_iter().any(|chain| rule.ends_with(&format!(" -j {chain}")));
        rule.starts_with("-A ") && ours
    };
    saved.lines().map(str::trim).filter(leads_to_ours).map(|rule| rule.replacen("-A ", "-D ", 1))
}

fn skip_ports(chain: &str, ports: &impl std::fmt::Display) -> String {
    format!("-A {chain} -p tcp -m tcp --dport {ports} -j RETURN")
}

fn transaction(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push_str("\nCOMMIT\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let ports = |text: &str| text.split(',').map(|item| item.parse().unwrap()).collect();
        let nets = |text: &str| text.split(',').map(|item| item.parse().unwrap()).collect();
        Plan {
            outbound_port: 4240,
            inbound_port: 4243,
            admin_port: 4291,
            proxy_uid: 4242,
            skip_outbound_ports: ports("25,8000-8010"),
            skip_outbound_subnets: nets("10.1.0.0/16"),
            skip_inbound_ports: ports("9000"),
            skip_inbound_subnets: nets("10.2.0.1/32"),
        }
    }

    /// What `iptables-save` would print with these rules in force.
    fn saved(plan: &Plan) -> String {
        let jumps = JUMPS.map(|jump| format!("-A {jump}")).join("\n");
        format!(
            "*nat\n:OUTPUT ACCEPT [0:0]\n:{INBOUND} - [0:0]\n:{OUTBOUND} - [0:0]\n{jumps}\n{}\nCOMMIT\n",
            plan.rules().join("\n")
        )
    }

    #[test]
    fn the_first_run_makes_the_chains_and_leads_to_them() {
        let change = plan().change("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n");
        let wanted = "\
*nat
:TIDEGATE_OUTBOUND - [0:0]
:TIDEGATE_INBOUND - [0:0]
-I OUTPUT 1 -p tcp -j TIDEGATE_OUTBOUND
-I PREROUTING 1 -p tcp -j TIDEGATE_INBOUND
-A TIDEGATE_OUTBOUND -m owner --uid-owner 4242 -j RETURN
-A TIDEGATE_OUTBOUND -o lo -j RETURN
-A TIDEGATE_OUTBOUND -d 10.1.0.0/16 -j RETURN
-A TIDEGATE_OUTBOUND -p tcp -m tcp --dport 25 -j RETURN
-A TIDEGATE_OUTBOUND -p tcp -m tcp --dport 8000:8010 -j RETURN
-A TIDEGATE_OUTBOUND -p tcp -j REDIRECT --to-ports 4240
-A TIDEGATE_INBOUND -s 10.2.0.1/32 -j RETURN
-A TIDEGATE_INBOUND -p tcp -m tcp --dport 4291 -j RETURN
-A TIDEGATE_INBOUND -p tcp -m tcp --dport 9000 -j RETURN
-A TIDEGATE_INBOUND -p tcp -j REDIRECT --to-ports 4243
COMMIT
";
        assert_eq!(change, wanted);
    }

    #[test]
    fn a_further_run_replaces_what_an_earlier_one_left() {
        let change = plan().change(&saved(&plan()));
        let removed: Vec<&str> = change.lines().filter(|line| line.starts_with("-D")).collect();
        assert_eq!(
            removed,
            ["-D OUTPUT -p tcp -j TIDEGATE_OUTBOUND", "-D PREROUTING -p tcp -j TIDEGATE_INBOUND"]
        );
    }

    #[test]
    fn what_is_in_force_does_not_differ() {
        assert!(plan().differences(&saved(&plan())).is_empty());
    }

    #[test]
    fn every_difference_is_found() {
        let good = saved(&plan());
        let without = |rule: &str| {
            good.lines().filter(|line| !line.contains(rule)).collect::<Vec<_>>().join("\n")
        };
        let swapped = good
            .replace("-o lo", "-o @")
            .replace("-m owner --uid-owner 4242", "-o lo")
            .replace("-o @", "-m owner --uid-owner 4242");
        let strange = format!("{good}-A {OUTBOUND} -d 10.9.0.0/16 -j RETURN\n");
        let cases = [
            (String::new(), 4),
            (without("OUTPUT -p tcp"), 1),
            (without("--dport 25"), 1),
            (without("REDIRECT"), 2),
            (swapped, 1),
            (strange, 1),
            (format!("{good}-A OUTPUT -p tcp -j {OUTBOUND}\n"), 1),
        ];
        for (saved, count) in cases {
            let differences = plan().differences(&saved);
            assert_eq!(differences.len(), count, "{differences:?}\n{saved}");
        }
    }

    #[test]
    fn removing_takes_only_what_is_there() {
        assert_eq!(removal("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"), None);
        let half = format!(
            ":{OUTBOUND} - [0:0]\n-A OUTPUT -p tcp -j {OUTBOUND}\n-A OUTPUT -p tcp -j OTHERS\n"
        );
        let change = removal(&half).unwrap();
        assert_eq!(
            change,
            format!("*nat\n-D OUTPUT -p tcp -j {OUTBOUND}\n-F {OUTBOUND}\n-X {OUTBOUND}\nCOMMIT\n")
        );
    }
}
