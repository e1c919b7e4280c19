//! Lists on the command line.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Items between commas; an empty text is an empty list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T: FromStr> FromStr for List<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        Ok(Self(items.map(str::parse).collect::<Result<_, _>>()?))
    }
}

/// A port or a range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    first: u16,
    last: u16,
}

/// Why an item of a list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListError {
    /// No ports.
    #[error("cannot read {0:?}: write a port from 1 to 65535 or a range such as 8000-8010")]
    Ports(String),
    /// No subnet.
    #[error("cannot read {0:?}: write a subnet or address such as 10.1.0.0/16 or fd00::1")]
    Subnet(String),
}

impl FromStr for Ports {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        let refused = || ListError::Ports(text.to_owned());
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or_else(refused);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (port(first)?, port(last)?);
        if first > last {
            return Err(refused());
        }
        Ok(Self { first, last })
    }
}

/// As iptables writes it.
impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}:{}", self.first, self.last)
        }
    }
}

/// A subnet, or an address as a subnet of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subnet(pub(super) IpNet);

impl FromStr for Subnet {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let net = text.parse::<IpNet>().or_else(|_| address());
        net.map(|net| Self(net.trunc()))
            .map_err(|_not_an_address| ListError::Subnet(text.to_owned()))
    }
}
