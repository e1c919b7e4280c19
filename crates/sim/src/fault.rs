//! What goes wrong in a scenario, as data, and the names of the faults.

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ailment {
    /// Nothing.
    None,
    /// A request fails with this probability, after occupying a slot for `after` seconds.
    Fail {
        /// 0 to 1.
        probability: f64,
        /// Seconds.
        after: f64,
    },
    /// Requests are accepted and never answered.
    Hang,
    /// Service takes so many times as long.
    Slow(f64),
}

/// Some servers of one zone, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The zone; all if none.
    pub zone: Option<u8>,
    /// Index of the first server within the zone.
    pub first: u32,
    /// How many servers.
    pub count: u32,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Servers ail.
    Ail(Target, Ailment),
    /// Servers refuse connections; discovery follows.
    Down(Target),
    /// The callers of one zone, or of all, send so many times as much.
    Rate {
        /// The zone; all if none.
        zone: Option<u8>,
        /// Factor on the rate.
        factor: f64,
    },
    /// All callers send so many times as much for the first second of every ten.
    Burst(f64),
}

/// An effect and when it holds, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episode {
    /// Start.
    pub from: f64,
    /// End.
    pub until: f64,
    /// What.
    pub effect: Effect,
}

/// The first of two times in a burst cycle: length and period in seconds.
pub const BURST: (f64, f64) = (1.0, 10.0);

impl Target {
    /// All servers of a zone.
    pub const fn zone(zone: u8) -> Self {
        Self { zone: Some(zone), first: 0, count: u32::MAX }
    }

    /// All servers.
    pub const EVERYWHERE: Self = Self { zone: None, first: 0, count: u32::MAX };

    /// The first servers of zone 0.
    pub const fn first(count: u32) -> Self {
        Self { zone: Some(0), first: 0, count }
    }

    /// Whether the server `index` of `zone` is meant.
    pub fn holds(&self, zone: u8, index: u32) -> bool {
        self.zone.is_none_or(|z| z == zone)
            && index >= self.first
            && index - self.first < self.count
    }
}

impl Effect {
    /// The factor on the rate of a caller in `zone`, `now` seconds into the run.
    pub fn rate_factor(&self, zone: u8, now: f64) -> f64 {
        match *self {
            Self::Rate { zone: z, factor } if z.is_none_or(|z| z == zone) => factor,
            Self::Burst(factor) if now % BURST.1 < BURST.0 => factor,
            _ => 1.0,
        }
    }

    /// The highest factor that it ever has.
    pub fn rate_factor_peak(&self) -> f64 {
        match *self {
            Self::Rate { factor, .. } | Self::Burst(factor) => factor.max(1.0),
            _ => 1.0,
        }
    }
}

/// The effects of a named fault that lasts from `from` to `until`, in a run that ends at `end`. `None`: no such fault.
pub fn effects(name: &str, (from, until): (f64, f64), end: f64) -> Option<Vec<Episode>> {
    let during = |effect| vec![Episode { from, until, effect }];
    let always = |effect| vec![Episode { from: 0.0, until: end, effect }];
    Some(match name {
        "steady" | "uneven" | "stream50" | "lpoll50" => vec![],
        "heavyz" => during(Effect::Rate { zone: Some(0), factor: 2.4 }),
        "gover" => during(Effect::Rate { zone: None, factor: 2.4 }),
        "stepdown" => during(Effect::Rate { zone: None, factor: 0.2 }),
        "burst" => always(Effect::Burst(1.9)),
        "app5" => always(Effect::Ail(Target::EVERYWHERE, part(5.0))),
        "gslow18" => during(Effect::Ail(Target::EVERYWHERE, Ailment::Slow(1.8))),
        "scalein.0of4" => during(Effect::Down(Target::first(4))),
        "scalein.1of4" => during(Effect::Down(Target::first(3))),
        "trickle" => trickle(),
        "two.ff" => [0, 1]
            .map(|zone| Episode { from, until, effect: Effect::Ail(Target::zone(zone), FAIL_FAST) })
            .to_vec(),
        _ => {
            let (target, kind) = match name.split_once('.') {
                Some(("one", kind)) => (Target::first(1), kind),
                Some(("half", kind)) => (Target::first(2), kind),
                Some(("rem", kind)) => (Target::zone(1), kind),
                Some(_) => return None,
                None => match name.strip_prefix('g') {
                    Some(kind) => (Target::EVERYWHERE, kind),
                    None => (Target::zone(0), name),
                },
            };
            during(Effect::Ail(target, ailment(kind)?))
        }
    })
}

const FAIL_FAST: Ailment = Ailment::Fail { probability: 1.0, after: 0.001 };

fn part(percent: f64) -> Ailment {
    Ailment::Fail { probability: percent / 100.0, after: 0.001 }
}

fn ailment(name: &str) -> Option<Ailment> {
    match name {
        "ff" => return Some(FAIL_FAST),
        "sf" => return Some(Ailment::Fail { probability: 1.0, after: 0.5 }),
        "hang" => return Some(Ailment::Hang),
        _ => {}
    }
    if let Some(factor) = name.strip_prefix("slow") {
        return factor.parse().ok().map(Ailment::Slow);
    }
    name.strip_prefix("part")?.parse().ok().map(part)
}

/// Zone 0 goes down as a whole and comes back server by server.
fn trickle() -> Vec<Episode> {
    let back = [70.0, 85.0, 100.0, 115.0];
    let target = |first| Target { zone: Some(0), first, count: 1 };
    (0..)
        .zip(back)
        .map(|(i, until)| Episode { from: 40.0, until, effect: Effect::Down(target(i)) })
        .collect()
}
