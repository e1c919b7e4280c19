//! Names of things.

use std::fmt;
use std::sync::Arc;

/// A namespaced object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its two parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One port of a service: what proxies balance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId {
    /// The service.
    pub service: Key,
    /// The port that callers name.
    pub port: u16,
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service, self.port)
    }
}

/// A cluster whose objects are watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cluster {
    /// The one that the controller runs in.
    Home,
    /// Another, by the name of the Secret that leads to it.
    Remote(Arc<str>),
}

impl Cluster {
    /// The name in metrics and logs.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Home => "home",
            Self::Remote(name) => name,
        }
    }
}
