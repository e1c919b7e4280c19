//! Why a pick went where it went, and why the pool changed: one closed list.

/// Why a request was sent where it was sent, or why the share of the local zone is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nothing is present at all.
    NoEndpoints,
    /// Every endpoint is ejected: pick among all rather than refuse.
    Panic,
    /// The caller does not know its zone.
    ZoneUnknown,
    /// No local endpoint is available.
    NoLocal,
    /// No remote endpoint is available.
    NoRemote,
    /// Local requests fail more often than remote ones.
    Failure,
    /// Ejected local endpoints are lost capacity.
    Capacity,
    /// Crossing was found not to help and is given up for a while.
    Hold,
    /// Local requests queue.
    Load,
    /// Local requests pile up unanswered.
    Surge,
    /// The uncongested latency is not yet known.
    Warmup,
    /// Nothing speaks against staying local.
    Local,
    /// A guard of the policy failed.
    Guard,
    /// The request was sampled out of the policy (`percent`).
    Percent,
    /// The policy is `Off`.
    Off,
    /// The spill budget (`maxRemotePercent`) kept it local.
    Budget,
    /// A probe of an ejected endpoint.
    Trial,
    /// A second attempt.
    Retry,
    /// Mode `Proportional` sent it where capacity is left.
    Proportional,
}

impl Reason {
    /// Every reason, in the order of the list above.
    pub const ALL: [Self; 19] = [
        Self::NoEndpoints,
        Self::Panic,
        Self::ZoneUnknown,
        Self::NoLocal,
        Self::NoRemote,
        Self::Failure,
        Self::Capacity,
        Self::Hold,
        Self::Load,
        Self::Surge,
        Self::Warmup,
        Self::Local,
        Self::Guard,
        Self::Percent,
        Self::Off,
        Self::Budget,
        Self::Trial,
        Self::Retry,
        Self::Proportional,
    ];

    /// The name used in metrics, logs and `/debug`, in snake case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoEndpoints => "no_endpoints",
            Self::Panic => "panic",
            Self::ZoneUnknown => "zone_unknown",
            Self::NoLocal => "no_local",
            Self::NoRemote => "no_remote",
            Self::Failure => "failure",
            Self::Capacity => "capacity",
            Self::Hold => "hold",
            Self::Load => "load",
            Self::Surge => "surge",
            Self::Warmup => "warmup",
            Self::Local => "local",
            Self::Guard => "guard",
            Self::Percent => "percent",
            Self::Off => "off",
            Self::Budget => "budget",
            Self::Trial => "trial",
            Self::Retry => "retry",
            Self::Proportional => "proportional",
        }
    }
}
