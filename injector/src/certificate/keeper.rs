//! Keeps a valid certificate served and its authority known to the API server.
//!
//! In each round: read, renew what is due, tell the API server the authorities, serve. In this order, so that a certificate is
//! served only after its authority was told. Replicas agree by the Secret: whoever writes first wins, the others read again.

use super::serving::{ServeError, Serving};
use super::{Due, Held, Terms};
use crate::clock;
use crate::metrics::CertificateMetrics;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Between two rounds. A Secret that is mounted takes the kubelet a minute; this is not what one waits for.
const ROUND: Duration = Duration::from_secs(10);
/// After a round that failed.
const AGAIN: Duration = Duration::from_secs(2);
/// One round, every call in it.
const ROUND_MAX: Duration = Duration::from_secs(30);
/// How often a lost race for the Secret is run again in one round; replicas are few.
const RACES: u32 = 5;

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is our own, in a Secret that all replicas share.
    Own(Box<Own>),
    /// Somebody else makes it and puts it in files: cert-manager, or an administrator.
    Given {
        /// Certificate chain, PEM.
        chain: PathBuf,
        /// Private key, PEM.
        key: PathBuf,
        /// Authorities, PEM, if they are to be told to the API server and the proxies.
        authorities: Option<PathBuf>,
    },
}

/// A certificate of our own.
#[derive(Clone, Debug)]
pub struct Own {
    /// Access to the namespace's Secrets.
    pub secrets: Api<Secret>,
    /// The Secret.
    pub name: String,
    /// What is made.
    pub terms: Terms,
}

/// The webhook configuration whose `caBundle` is kept.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Access to webhook configurations.
    pub configurations: Api<MutatingWebhookConfiguration>,
    /// Its name.
    pub name: String,
}

/// Keeps the certificate.
#[derive(Debug)]
pub struct Keeper {
    source: Source,
    registration: Option<Registration>,
    serving: Serving,
    /// The authorities, for the proxies; empty while there are none.
    authorities: watch::Sender<String>,
    metrics: CertificateMetrics,
    served: Option<(String, String)>,
}

/// Why a round failed. What was served goes on being served.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The Secret cannot be read or written.
    #[error("Secret {name}: {error}")]
    Secret {
        /// Its name.
        name: String,
        /// What the API server says.
        error: Box<kube::Error>,
    },
    /// Other replicas wrote the Secret whenever this one did.
    #[error("Secret {name}: others wrote it each time")]
    Races {
        /// Its name.
        name: String,
    },
    /// The certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// A file cannot be read.
    #[error("{}: {error}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The webhook configuration cannot be read or written.
    #[error("MutatingWebhookConfiguration {name}: {error}")]
    Registration {
        /// Its name.
        name: String,
        /// What the API server says.
        error: Box<kube::Error>,
    },
    /// The certificate cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The API server does not answer.
    #[error("no answer within {ROUND_MAX:?}")]
    Late,
}

/// What a round found.
#[derive(Debug)]
struct Found {
    authorities: Option<String>,
    chain: String,
    key: String,
}

impl Keeper {
    /// A keeper that has done nothing yet.
    pub fn new(
        source: Source,
        registration: Option<Registration>,
        serving: Serving,
        authorities: watch::Sender<String>,
    ) -> Self {
        let metrics = CertificateMetrics::default();
        Self { source, registration, serving, authorities, metrics, served: None }
    }

    /// Keeps the certificate for ever. `first` is called once, when the first one is served.
    pub async fn keep(mut self, first: impl FnOnce() + Send) {
        let mut first = Some(first);
        let mut failing = false;
        loop {
            let round = tokio::time::timeout(ROUND_MAX, self.round());
            let pause = match round.await.unwrap_or(Err(KeepError::Late)) {
                Ok(()) => {
                    if failing {
                        tracing::info!("the certificate is kept again");
                    }
                    failing = false;
                    if let Some(first) = first.take() {
                        first();
                    }
                    ROUND
                }
                Err(error) => {
                    self.metrics.failed();
                    // Told once, and not every two seconds: the metric has the rest.
                    if failing {
                        tracing::debug!(%error, "the certificate cannot be kept");
                    } else {
                        tracing::warn!(%error, "the certificate cannot be kept; what is served stays");
                    }
                    failing = true;
                    AGAIN
                }
            };
            tokio::time::sleep(pause.min(self.shortest())).await;
        }
    }

    /// One round. `Ok` means that a valid certificate is served and its authority is known.
    pub async fn round(&mut self) -> Result<(), KeepError> {
        let found = match &self.source {
            Source::Own(own) => own.found().await?,
            Source::Given { chain, key, authorities } => Found {
                authorities: authorities.as_deref().map(read).transpose()?,
                chain: read(chain)?,
                key: read(key)?,
            },
        };
        if let Some(authorities) = &found.authorities {
            if let Some(registration) = &self.registration {
                registration.tell(authorities).await?;
            }
            self.authorities.send_if_modified(|known| {
                let new = known != authorities;
                known.clone_from(authorities);
                new
            });
        }
        let pair = (found.chain, found.key);
        if self.served.as_ref() != Some(&pair) {
            let expiry = self.serving.serve(&pair.0, &pair.1)?;
            tracing::info!(expiry, "serving a new certificate");
            self.metrics.served(expiry);
            self.served = Some(pair);
        }
        Ok(())
    }

    /// Rounds keep up with lives as short as tests have.
    fn shortest(&self) -> Duration {
        match &self.source {
            Source::Own(own) => (own.terms.certificate / 12).max(Duration::from_millis(100)),
            Source::Given { .. } => ROUND,
        }
    }
}

impl Registration {
    /// Writes the authorities into every webhook of the configuration that has others.
    async fn tell(&self, authorities: &str) -> Result<(), KeepError> {
        let failed =
            |error| KeepError::Registration { name: self.name.clone(), error: Box::new(error) };
        let there = self.configurations.get(&self.name).await.map_err(failed)?;
        let others: Vec<_> = there
            .webhooks
            .unwrap_or_default()
            .into_iter()
            .filter(|webhook| {
                let bundle = webhook.client_config.ca_bundle.as_ref();
                bundle.is_none_or(|bundle| bundle.0 != authorities.as_bytes())
            })
            .map(|webhook| {
                let bundle = ByteString(authorities.as_bytes().to_vec());
                json!({ "name": webhook.name, "clientConfig": { "caBundle": bundle } })
            })
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        tracing::info!(configuration = self.name, "telling the API server the authorities");
        // A strategic merge finds each webhook by its name and leaves all that is not said.
        let patch = Patch::Strategic(json!({ "webhooks": others }));
        let done = self.configurations.patch(&self.name, &PatchParams::default(), &patch).await;
        done.map(drop).map_err(failed)
    }
}

impl Own {
    /// What the Secret holds, after renewing what is due.
    async fn found(&self) -> Result<Found, KeepError> {
        let Self { secrets, name, terms } = self;
        let failed = |error| KeepError::Secret { name: name.clone(), error: Box::new(error) };
        for _ in 0..RACES {
            let there = secrets.get_opt(name).await.map_err(failed)?;
            let held = there.as_ref().and_then(held);
            let now = clock::now();
            let due = held.as_ref().map_or(Due::Everything, |held| held.due(terms, now));
            let held = match held {
                Some(held) if due == Due::Nothing => return Ok(held.into()),
                Some(held) => held.renewed(due, terms, now)?,
                None => Held::made(terms, now)?,
            };
            tracing::info!(secret = name, ?due, "renewing");
            match self.write(there, &held).await {
                Ok(()) => return Ok(held.into()),
                // Another replica was faster: what it wrote holds.
                Err(kube::Error::Api(status))
                    if status.is_conflict() || status.is_already_exists() => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(KeepError::Races { name: name.clone() })
    }

    /// Writes the Secret if it still is what was read.
    async fn write(&self, there: Option<Secret>, held: &Held) -> kube::Result<()> {
        let entries = held.entries().into_iter();
        let data =
            entries.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
        let parameters = PostParams::default();
        if let Some(mut secret) = there {
            secret.data.get_or_insert_default().extend(data);
            return self.secrets.replace(&self.name, &parameters, &secret).await.map(drop);
        }
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let secret = Secret { metadata, data: Some(data.collect()), ..Secret::default() };
        self.secrets.create(&parameters, &secret).await.map(drop)
    }
}

impl From<Held> for Found {
    fn from(held: Held) -> Self {
        Self { authorities: Some(held.authorities), chain: held.chain, key: held.key }
    }
}

fn held(secret: &Secret) -> Option<Held> {
    let data = secret.data.as_ref()?;
    Held::read(|key| String::from_utf8(data.get(key)?.0.clone()).ok())
}

fn read(file: &Path) -> Result<String, KeepError> {
    fs::read_to_string(file).map_err(|error| KeepError::File { file: file.to_owned(), error })
}
