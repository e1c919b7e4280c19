//! The answers to the API server: an `AdmissionReview` in, one out.
//!
//! A pod is never refused. What cannot be decided is a failed call, so that the webhook's own `failurePolicy` says what becomes
//! of the pod: it starts without the proxy (`Ignore`), or not at all (`Fail`).

pub mod server;

use crate::decide::{Decision, Skip, Verdict};
use crate::inject::{self, Injection};
use crate::metrics::ReviewMetrics;
use crate::namespaces::{Namespaces, Unknown};
use crate::settings::Settings;
use http::StatusCode;
use kube::core::DynamicObject;
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, Operation, SerializePatchError,
};
use std::sync::Arc;
use tokio::sync::watch;

/// What answers reviews.
#[derive(Debug)]
pub struct Webhook {
    /// What pods get.
    pub settings: Settings,
    /// The discovery server's authorities, which pods get unless the settings name others; empty while there are none.
    pub authorities: watch::Receiver<String>,
    /// What namespaces say.
    pub namespaces: Namespaces,
    /// Namespaces whose pods never get the proxy.
    pub excluded: Vec<String>,
    /// What is counted.
    pub metrics: ReviewMetrics,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// It is no review.
    #[error("not an AdmissionReview: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is of a version that is not spoken here.
    #[error("AdmissionReview of version {0}; this is a webhook for admission.k8s.io/v1")]
    Version(String),
    /// It asks for nothing.
    #[error("an AdmissionReview without request")]
    Empty,
    /// It is about something else.
    #[error("asked about {0}; this is a webhook for the creation of pods")]
    Kind(String),
    /// The namespace cannot be looked up.
    #[error(transparent)]
    Namespace(#[from] Unknown),
    /// The object is no pod.
    #[error("not a pod: {0}")]
    Pod(serde_json::Error),
    /// The change cannot be written.
    #[error(transparent)]
    Patch(#[from] SerializePatchError),
}

impl ReviewError {
    /// How the API server is told.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unreadable(_) | Self::Version(_) | Self::Empty | Self::Kind(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Pod(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Namespace(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Patch(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl Webhook {
    /// Answers a review.
    pub async fn review(&self, body: &[u8]) -> Result<Vec<u8>, ReviewError> {
        let request = read(body)?;
        let name = request.namespace.clone().unwrap_or_default();
        let response = AdmissionResponse::from(&request);
        let Injection { decision, patch } = if self.excluded.contains(&name) {
            left_alone(Skip::Excluded)
        } else {
            let namespace = self.namespaces.find(&name, self.settings.pod_security_default).await?;
            let pod = serde_json::to_value(&request.object)?;
            inject::inject(&pod, &namespace, &self.settings()).map_err(ReviewError::Pod)?
        };
        self.metrics.decided(&decision.verdict);
        tracing::debug!(
            namespace = name,
            pod = request.name,
            verdict = ?decision.verdict,
            dry_run = request.dry_run,
            "decided"
        );
        let mut response = match patch {
            Some(patch) => response.with_patch(patch)?,
            None => response,
        };
        let warnings = warnings(&decision);
        response.warnings = (!warnings.is_empty()).then_some(warnings);
        Ok(serde_json::to_vec(&response.into_review())?)
    }

    /// The settings, with the authorities of the moment.
    fn settings(&self) -> Settings {
        let mut settings = self.settings.clone();
        let known = self.authorities.borrow();
        if settings.proxy_controller_ca.is_none() && !known.is_empty() {
            settings.proxy_controller_ca = Some(known.clone());
        }
        settings
    }
}

fn read(body: &[u8]) -> Result<AdmissionRequest<DynamicObject>, ReviewError> {
    let review: AdmissionReview<DynamicObject> = serde_json::from_slice(body)?;
    if review.types.api_version != kube::core::admission::META_API_VERSION_V1 {
        return Err(ReviewError::Version(review.types.api_version));
    }
    let request: AdmissionRequest<DynamicObject> =
        review.try_into().map_err(|_nothing| ReviewError::Empty)?;
    let resource = &request.resource;
    let is_pod =
        resource.group.is_empty() && resource.resource == "pods" && request.sub_resource.is_none();
    if !is_pod || request.operation != Operation::Create || request.object.is_none() {
        let asked = format!("{:?} of {}", request.operation, resource.resource);
        return Err(ReviewError::Kind(asked));
    }
    Ok(request)
}

fn left_alone(skip: Skip) -> Injection {
    let decision = Decision { verdict: Verdict::Skip(skip), warnings: Vec::new() };
    Injection { decision, patch: None }
}

/// What the author of the pod should know. The API server cuts what is longer than 256 characters, and drops the last of many.
fn warnings(decision: &Decision) -> Vec<String> {
    let left = match &decision.verdict {
        Verdict::Skip(skip) if skip.is_surprise() => {
            Some(format!("tidegate: the pod is left as it is: {skip}"))
        }
        _ => None,
    };
    let mistakes = decision.warnings.iter().map(|warning| format!("tidegate: {warning}"));
    left.into_iter().chain(mistakes).collect()
}

/// A webhook that many connections share.
pub type Shared = Arc<Webhook>;
