//! Lists of ports and ranges of ports.

use std::fmt;
use std::str::FromStr;

/// Ports of protocols in which the server speaks first, or the client waits: SMTP, `MySQL`, Galera, `PostgreSQL`, Redis,
/// Elasticsearch's transport, memcached. The same that other meshes have.
const SERVER_FIRST: [u16; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];

/// Ports and ranges of ports, between commas: `25,8000-8010`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortList(Vec<(u16, u16)>);

/// Why a list of ports cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {0:?}: write a port from 1 to 65535 or a range such as 8000-8010")]
pub struct PortListError(String);

impl PortList {
    /// The ports of protocols in which the server speaks first.
    pub fn server_first() -> Self {
        Self(SERVER_FIRST.map(|port| (port, port)).to_vec())
    }

    /// Whether a port is in the list.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

impl FromStr for PortList {
    type Err = PortListError;

    fn from_str(text: &str) -> Result<Self, PortListError> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(range).collect::<Result<_, _>>().map(Self)
    }
}

fn range(text: &str) -> Result<(u16, u16), PortListError> {
    let refused = || PortListError(text.to_owned());
    let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0).ok_or_else(refused);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first > last { Err(refused()) } else { Ok((first, last)) }
}

impl fmt::Display for PortList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::PortList;

    #[test]
    fn lists_are_read_and_written_alike() {
        let list: PortList = "25, 8000-8010,".parse().unwrap();
        assert_eq!(list.to_string(), "25,8000-8010");
        assert!(list.contains(25) && list.contains(8000) && list.contains(8010));
        assert!(!list.contains(26) && !list.contains(8011));
        assert_eq!("".parse::<PortList>().unwrap().to_string(), "");
        for wrong in ["0", "x", "70000", "9-8", "1-2-3"] {
            assert!(wrong.parse::<PortList>().is_err(), "{wrong}");
        }
    }
}
