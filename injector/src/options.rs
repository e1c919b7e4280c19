//! What a pod's annotations ask for. A value that cannot be read is a warning, and the installation's value holds: a typing
//! mistake must not keep a pod from starting.

use crate::decide::Warning;
use crate::nearest::nearest;
use crate::quantity;
use api::names::{GROUP, annotation, label};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a pod asks for, over what the installation says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Image of the proxy.
    pub image: Option<String>,
    /// Which log lines appear.
    pub log_level: Option<String>,
    /// CPU asked for.
    pub cpu_request: Option<String>,
    /// CPU allowed.
    pub cpu_limit: Option<String>,
    /// Memory asked for.
    pub memory_request: Option<String>,
    /// Memory allowed.
    pub memory_limit: Option<String>,
    /// Ports whose bytes are not looked at, as in the annotation.
    pub opaque_ports: Option<String>,
    /// Destination ports past the proxy.
    pub skip_outbound_ports: Option<String>,
    /// Destination subnets past the proxy.
    pub skip_outbound_subnets: Option<String>,
    /// Ports of the application past the proxy.
    pub skip_inbound_ports: Option<String>,
    /// Callers past the proxy.
    pub skip_inbound_subnets: Option<String>,
    /// Zone of the pod.
    pub zone: Option<String>,
    /// Region of the pod.
    pub region: Option<String>,
    /// `tidegate.io/redirect: none`.
    pub no_rules: bool,
}

impl Options {
    /// Reads the annotations; what cannot be read goes to `warnings`.
    pub fn read(annotations: &BTreeMap<String, String>, warnings: &mut Vec<Warning>) -> Self {
        let mut options = Self::default();
        for (key, value) in annotations {
            if let Err(wanted) = options.take(key, value.trim()) {
                warnings.push(match wanted {
                    Refused::Value(wanted) => {
                        Warning::Value { key: key.clone(), value: value.clone(), wanted }
                    }
                    Refused::Key => Warning::Key { key: key.clone(), nearest: nearest(key) },
                    Refused::IsLabel => Warning::IsLabel { key: key.clone() },
                });
            }
        }
        options
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        let (field, check): (&mut Option<String>, Check) = match key {
            annotation::PROXY_IMAGE => (&mut self.image, word),
            annotation::LOG_LEVEL => (&mut self.log_level, word),
            annotation::CPU_REQUEST => (&mut self.cpu_request, quantity),
            annotation::CPU_LIMIT => (&mut self.cpu_limit, quantity),
            annotation::MEMORY_REQUEST => (&mut self.memory_request, quantity),
            annotation::MEMORY_LIMIT => (&mut self.memory_limit, quantity),
            annotation::OPAQUE_PORTS => (&mut self.opaque_ports, ports),
            annotation::SKIP_OUTBOUND_PORTS => (&mut self.skip_outbound_ports, ports),
            annotation::SKIP_INBOUND_PORTS => (&mut self.skip_inbound_ports, ports),
            annotation::SKIP_OUTBOUND_SUBNETS => (&mut self.skip_outbound_subnets, subnets),
            annotation::SKIP_INBOUND_SUBNETS => (&mut self.skip_inbound_subnets, subnets),
            annotation::ZONE => (&mut self.zone, word),
            annotation::REGION => (&mut self.region, word),
            annotation::REDIRECT if value == "none" => {
                self.no_rules = true;
                return Ok(());
            }
            annotation::REDIRECT => return Err(Refused::Value("`none`, or leave it out")),
            annotation::INJECTED | annotation::LOCALITY_MODE | annotation::LOAD_BAND => {
                return Ok(());
            }
            label::INJECT => return Err(Refused::IsLabel),
            _ if key.split('/').next() == Some(GROUP) => return Err(Refused::Key),
            _ => return Ok(()),
        };
        *field = Some(check(value).map_err(Refused::Value)?);
        Ok(())
    }
}

/// Takes a value, or says what it may be.
type Check = fn(&str) -> Result<String, &'static str>;

/// Why an annotation is not taken.
enum Refused {
    Value(&'static str),
    Key,
    IsLabel,
}

fn word(value: &str) -> Result<String, &'static str> {
    if value.is_empty() || value.contains(char::is_whitespace) {
        return Err("one word without spaces");
    }
    Ok(value.to_owned())
}

/// The API server refuses a pod with a quantity that it cannot read.
fn quantity(value: &str) -> Result<String, &'static str> {
    match quantity::amount(value) {
        Some(amount) if amount > 0.0 => Ok(value.to_owned()),
        _ => Err("a quantity greater than 0, such as 100m or 64Mi"),
    }
}

fn ports(value: &str) -> Result<String, &'static str> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let good = |item: &str| match item.split_once('-') {
        None => port(item).is_some(),
        Some((first, last)) => {
            port(first).zip(port(last)).is_some_and(|(first, last)| first <= last)
        }
    };
    list(value, good).ok_or("ports and ranges from 1 to 65535, such as 25,8000-8010")
}

fn subnets(value: &str) -> Result<String, &'static str> {
    let good = |item: &str| item.parse::<IpNet>().is_ok() || item.parse::<IpAddr>().is_ok();
    list(value, good).ok_or("subnets or addresses, such as 10.1.0.0/16,fd00::/8")
}

/// The items of a list, without the spaces around them; nothing if one is not good.
fn list(value: &str, good: impl Fn(&str) -> bool) -> Option<String> {
    let items: Vec<&str> = value.split(',').map(str::trim).collect();
    items.iter().all(|item| good(item)).then(|| items.join(","))
}
