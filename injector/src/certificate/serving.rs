//! The certificate that new connections get. It is exchanged between two of them: open ones notice nothing.

use super::{Facts, Unreadable};
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificate.
    #[error("the certificate: {0}")]
    Certificate(#[from] Unreadable),
    /// The key.
    #[error("the private key: not in PEM format")]
    Key,
    /// They are not a pair, or of a kind that cannot be used.
    #[error("certificate and private key: {0}")]
    Pair(#[from] rustls::Error),
}

/// What is served. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Serving(Arc<ArcSwapOption<CertifiedKey>>);

impl Serving {
    /// Serves this from now on; the certificate's end comes back. On an error, what was served before stays.
    pub fn serve(&self, chain: &str, key: &str) -> Result<i64, ServeError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_no_pem| Unreadable::Pem)?;
        let first = chain.first().ok_or(Unreadable::Pem)?;
        let facts = Facts::of(first)?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_no_pem| ServeError::Key)?;
        let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?;
        self.0.store(Some(Arc::new(pair)));
        Ok(facts.expiry)
    }

    /// For the server: HTTP/2, as API servers prefer, and HTTP/1.1.
    pub fn config(&self) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}
