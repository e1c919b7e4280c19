//! The fields of a policy as a table for people: documentation is made from it, and a test holds it against the code.

/// One field of the written form.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Where it stands, in the written form.
    pub path: &'static str,
    /// What may be written.
    pub values: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

/// Every field, in the order in which a policy is written.
pub const FIELDS: &[Field] = &[
    field(
        "mode",
        "`Adaptive`, `Proportional`, `Pinned`, `Off`",
        "How localities are chosen. `Adaptive`: local while that is free, opening on load or failures. `Proportional`: Envoy's zone-aware rule, by the counts of callers and serving endpoints per zone. `Pinned`: the nearest tier that serves and passes the guards, whole. `Off`: all endpoints alike.",
    ),
    field(
        "tiers",
        "list of `node`, `zone`, `region`, `any`, nearest first",
        "Which rings around the caller are used, in which order. What lies outside the last one is never used; `[zone]` is strict pinning.",
    ),
    field(
        "minEndpoints.local",
        "0 to 10000",
        "Guard: a tier with fewer serving endpoints hands over to `fallback`.",
    ),
    field(
        "minEndpoints.total",
        "0 to 10000",
        "Guard: with fewer serving endpoints in all, localities are not told apart (`fallback`).",
    ),
    field(
        "minHealthyPercent",
        "0 to 100",
        "Guard: a tier in which a smaller part serves hands over to `fallback`.",
    ),
    field(
        "fallback",
        "`NextTier`, `Spread`, `Proportional`",
        "What happens when a guard fails: the next tier takes over, all endpoints alike, or Envoy's zone-aware rule.",
    ),
    field(
        "maxRemotePercent",
        "0 to 100",
        "Spill budget: at most this share of requests leaves the nearest tier, whatever happens there.",
    ),
    field(
        "percent",
        "0 to 100",
        "Share of requests that the policy governs; the rest is spread over all endpoints. 0 is a dry run: what would have happened is only counted.",
    ),
    field(
        "load.signal",
        "`Normalized`, `Outstanding`",
        "What the band means. `Normalized`: outstanding requests over what would be outstanding if nothing queued, 1 is unloaded. `Outstanding`: mean outstanding requests per active endpoint, as in HAZL.",
    ),
    field("load.low", "above 1 (`Outstanding`: above 0)", "Below it, remote endpoints leave."),
    field(
        "load.high",
        "above `low` (`Outstanding`: above twice `low`)",
        "Above it, remote endpoints join.",
    ),
    field(
        "failureBudgetPercent",
        "0 to 100",
        "Extra failure probability that staying local may cost. 100 leaves failures to the breaker alone.",
    ),
    field(
        "overprovisioningPercent",
        "100 to 100000",
        "How far the serving part of a zone is stretched before its share shrinks: at 140, until less than 71 % of it serve.",
    ),
    field(
        "algorithm",
        "`PeakEwma`, `LeastRequest`, `RoundRobin`, `Random`",
        "Choice of one endpoint inside the chosen set.",
    ),
    field("breaker.consecutive", "1 to 1000", "Failures in a row that eject an endpoint."),
    field(
        "breaker.successRatePercent",
        "0 to 100",
        "Success rate below which an endpoint is ejected; 0 switches this rule off.",
    ),
    field(
        "breaker.minRequests",
        "1 to 10000",
        "Answers in the window before the success rate counts.",
    ),
    field(
        "breaker.backoff.min",
        "10ms to 1h",
        "Pause before the first probe of an ejected endpoint. It doubles with each failed probe.",
    ),
    field("breaker.backoff.max", "`min` to 1h", "Longest pause between probes."),
    field(
        "retry.budgetPercent",
        "0 to 100",
        "Retries that the budget earns per 100 first attempts; 0 leaves the ten that every service starts with.",
    ),
    field(
        "retry.attempts",
        "1 to 2",
        "Attempts in all. 1 switches retries off. A connection that is refused at once is no attempt, since nothing was sent: the next endpoint is asked, six at most, and the budget has no say.",
    ),
    field(
        "retry.on",
        "list of `connect`, `refused-stream`, `5xx`",
        "What is retried: no connection came about; the endpoint says that it did not process the request; a 5xx answer, or none before the connection ended.",
    ),
    field(
        "retry.methods",
        "`idempotent`, `any`",
        "Which methods may be sent twice. What provably was not processed is retried whatever its method.",
    ),
    field(
        "timeout.connect",
        "1ms to 1m",
        "To establish a connection to an endpoint; longer counts as its failure.",
    ),
    field(
        "timeout.request",
        "1ms to 1day",
        "For a whole request, all attempts included, up to the response headers.",
    ),
    field("timeout.perTry", "1ms to `request`", "For one attempt, up to its response headers."),
];

const fn field(path: &'static str, values: &'static str, meaning: &'static str) -> Field {
    Field { path, values, meaning }
}
