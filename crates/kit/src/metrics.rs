//! The metrics recorder of the process, and what it renders for Prometheus.
//!
//! Handles are made once and kept; series never expire by time, since a kept handle would then count into nothing.

pub mod process;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use std::fmt;
use std::time::Duration;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper edges of all histograms, in seconds: every one of ours is a latency. From below a round trip on one machine to the
/// longest timeout that callers use.
pub const BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Histograms keep every sample until this is done or until a scrape: without it, their memory grows with traffic.
const UPKEEP: Duration = Duration::from_secs(5);

/// What a program is, for `tidegate_build_info`.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Its name, such as `proxy`.
    pub program: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// Why metrics cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Another recorder is there already.
    #[error("a metrics recorder is installed already")]
    Twice,
}

/// What is recorded, to be rendered. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Installs the recorder of the process. Handles made before count into nothing. [`upkeep`](Self::upkeep) must run.
    pub fn install(build: Build) -> Result<Self, MetricsError> {
        let (metrics, recorder) = Self::local(build);
        metrics::set_global_recorder(recorder).map_err(|_refused| MetricsError::Twice)?;
        Ok(metrics)
    }

    /// A recorder that is not installed: for `metrics::with_local_recorder`.
    pub fn local(build: Build) -> (Self, PrometheusRecorder) {
        let builder = PrometheusBuilder::new().with_recommended_naming(true);
        // The only way to fail is an empty list of buckets.
        let recorder = builder.set_buckets(&BUCKETS).unwrap_or_default().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            metrics::describe_gauge!("tidegate_build_info", "The running program; always 1");
            metrics::gauge!("tidegate_build_info", "program" => build.program, "version" => build.version).set(1.0);
        });
        (Self { handle: recorder.handle() }, recorder)
    }

    /// Everything recorded so far and the state of the process, in Prometheus' text format ([`CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        let mut text = self.handle.render();
        process::Process::read().render(&mut text);
        text
    }

    /// Keeps the memory of histograms bounded, for ever.
    pub async fn upkeep(self) {
        let mut interval = tokio::time::interval(UPKEEP);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.handle.run_upkeep();
        }
    }
}
