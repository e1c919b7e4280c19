//! What the injector counts. The only file that names metrics.

use crate::decide::{Skip, Verdict};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

const REVIEWS: &str = "tidegate_injector_reviews_total";
const DURATION: &str = "tidegate_injector_review_duration_seconds";
const CERTIFICATES: &str = "tidegate_injector_certificates_served_total";
const EXPIRY: &str = "tidegate_injector_certificate_expiry_seconds";
const CERTIFICATE_ERRORS: &str = "tidegate_injector_certificate_errors_total";
const BARE: &str = "tidegate_injector_bare_pods";

/// Name, kind, labels and meaning of each: what is documented is what is described.
pub const METRICS: [(&str, &str, &str, &str); 6] = [
    (
        REVIEWS,
        "counter",
        "result (injected, skipped, failed), reason",
        "Pods that were asked about, and what became of them; a failed review is left to the webhook's failurePolicy",
    ),
    (DURATION, "histogram", "", "Time from a review's headers to its answer"),
    (CERTIFICATES, "counter", "", "Certificates that were served, the first included"),
    (EXPIRY, "gauge", "", "When the certificate that is served ends, in seconds since 1970"),
    (
        CERTIFICATE_ERRORS,
        "counter",
        "",
        "Failed attempts to keep the certificate or its registration; what is served stays",
    ),
    (
        BARE,
        "gauge",
        "namespace",
        "Pods without the proxy, in namespaces that ask for it, which a restart would give it",
    ),
];

/// Describes all of them to the recorder.
pub(crate) fn describe() {
    for (name, kind, _, meaning) in METRICS {
        match kind {
            "counter" => metrics::describe_counter!(name, meaning),
            "gauge" => metrics::describe_gauge!(name, meaning),
            _ => metrics::describe_histogram!(name, meaning),
        }
    }
}

/// Of reviews.
#[derive(Clone)]
pub struct ReviewMetrics {
    injected: Counter,
    failed: Counter,
    skipped: BTreeMap<&'static str, Counter>,
    duration: Histogram,
}

impl fmt::Debug for ReviewMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewMetrics").finish_non_exhaustive()
    }
}

impl Default for ReviewMetrics {
    fn default() -> Self {
        let result = |result, reason| counter!(REVIEWS, "result" => result, "reason" => reason);
        Self {
            injected: result("injected", ""),
            failed: result("failed", ""),
            skipped: Skip::NAMES.into_iter().map(|name| (name, result("skipped", name))).collect(),
            duration: histogram!(DURATION),
        }
    }
}

impl ReviewMetrics {
    /// A pod was decided about.
    pub(crate) fn decided(&self, verdict: &Verdict) {
        match verdict {
            Verdict::Inject(_) => self.injected.increment(1),
            Verdict::Skip(skip) => {
                if let Some(counter) = self.skipped.get(skip.name()) {
                    counter.increment(1);
                }
            }
        }
    }

    /// A review could not be answered.
    pub(crate) fn failed(&self) {
        self.failed.increment(1);
    }

    /// A review was answered, well or not.
    pub(crate) fn took(&self, time: Duration) {
        self.duration.record(time.as_secs_f64());
    }
}

/// Of the certificate.
#[derive(Clone)]
pub struct CertificateMetrics {
    served: Counter,
    expiry: Gauge,
    errors: Counter,
}

impl fmt::Debug for CertificateMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateMetrics").finish_non_exhaustive()
    }
}

impl Default for CertificateMetrics {
    fn default() -> Self {
        Self {
            served: counter!(CERTIFICATES),
            expiry: gauge!(EXPIRY),
            errors: counter!(CERTIFICATE_ERRORS),
        }
    }
}

impl CertificateMetrics {
    /// A certificate is served that ends then.
    pub(crate) fn served(&self, expiry: i64) {
        self.served.increment(1);
        self.expiry.set(expiry as f64);
    }

    /// An attempt failed.
    pub(crate) fn failed(&self) {
        self.errors.increment(1);
    }
}

/// Pods of a namespace that a restart would give the proxy. Namespaces that ask for the proxy are few, and made by people.
pub(crate) fn bare(namespace: &str) -> Gauge {
    gauge!(BARE, "namespace" => namespace.to_owned())
}
