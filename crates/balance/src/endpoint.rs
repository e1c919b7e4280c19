//! What the core is told about endpoints.

/// The caller's name for one endpoint. It must never be given to another endpoint, also not after this one is gone:
/// load, latency and breaker state belong to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey(pub u64);

/// A zone, as a number that the caller chose. Used to keep zones apart and to weigh them, never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

/// One endpoint as discovery describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    /// Stable name of the endpoint.
    pub key: EndpointKey,
    /// Position in the policy's list of tiers, 0 the nearest. Endpoints outside the last tier are not in the set at all.
    pub tier: u8,
    /// Whether this tier is the caller's own zone or nearer, so that a request to the endpoint crosses no zone border.
    pub same_zone: bool,
    /// Whether it lies in the caller's region: remote endpoints of the own region are taken before others.
    pub same_region: bool,
    /// Its zone, `None` when unknown.
    pub zone: Option<ZoneId>,
}

/// Where an endpoint lies as seen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// In the caller's nearest tier that has endpoints, normally its zone.
    Local,
    /// Outside of it.
    Remote,
}

impl Locality {
    /// The value of the label `locality` in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}
