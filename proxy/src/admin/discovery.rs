//! The part of `/debug/services` that says where everything comes from.

use super::Shown;
use crate::destinations::{Answer, Destinations};
use crate::discovery::controller::status::{Status, Stream};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Where services come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiscoveryView {
    /// `topology` or `controller`.
    pub source: String,
    /// How it stands with the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerView>,
}

/// How it stands with the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControllerView {
    /// `connecting`, `connected` or `disconnected`.
    pub stream: String,
    /// How long it has been so.
    pub seconds: f64,
    /// The replica that the stream is open to.
    pub replica: Option<SocketAddr>,
    /// How old what is known may be; `None` when there never was a stream.
    pub stale_seconds: Option<f64>,
    /// Why the last attempt or stream ended.
    pub last_failure: Option<String>,
    /// How often everything was asked for again.
    pub resyncs: u64,
    /// What the application calls.
    pub destinations: Vec<DestinationView>,
}

/// A destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DestinationView {
    /// As it was called, with its port.
    pub destination: String,
    /// The service, if it is balanced.
    pub service: Option<String>,
    /// Why it is not balanced: `unknown`, `external_name`, `session_affinity`, `unanswered`, `too_many`, or `waiting` for the
    /// first answer.
    pub passthrough: Option<String>,
}

impl DiscoveryView {
    pub(super) fn of(shown: &Shown) -> Self {
        let Some(status) = &shown.status else {
            return Self { source: "topology".to_owned(), controller: None };
        };
        let controller = ControllerView::of(status, shown);
        Self { source: "controller".to_owned(), controller: Some(controller) }
    }
}

impl ControllerView {
    fn of(status: &Status, shown: &Shown) -> Self {
        let seen = status.seen();
        let (stream, replica) = match seen.stream {
            Stream::Connecting => ("connecting", None),
            Stream::Connected(replica) => ("connected", Some(replica)),
            Stream::Disconnected => ("disconnected", None),
        };
        let destinations = shown.registry.destinations().map(Destinations::all);
        let destinations = destinations.into_iter().flatten();
        Self {
            stream: stream.to_owned(),
            seconds: seen.lasts.as_secs_f64(),
            replica,
            stale_seconds: seen.stale.map(|stale| stale.as_secs_f64()),
            last_failure: seen.failure,
            resyncs: seen.resyncs,
            destinations: destinations
                .map(|(destination, answer)| {
                    let (service, passthrough) = match answer {
                        Some(Answer::Balanced(service)) => (Some(service.name().to_string()), None),
                        Some(Answer::Passthrough(why)) => (None, Some(why.as_str().to_owned())),
                        Some(Answer::Refused) => (None, Some("refused".to_owned())),
                        None => (None, Some("waiting".to_owned())),
                    };
                    let destination = destination.to_string();
                    DestinationView { destination, service, passthrough }
                })
                .collect(),
        }
    }
}
