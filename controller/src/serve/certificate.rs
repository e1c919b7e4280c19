//! The certificate of the discovery server. Its files are read again when they change, so that whoever keeps them (the injector,
//! cert-manager) may renew it while proxies listen: open connections notice nothing.

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;

/// Between two looks at the files. A volume of a Secret takes up to a minute to follow it.
pub const LOOK: Duration = Duration::from_secs(10);
/// A handshake that takes longer is no proxy's.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at a time: each keeps a core busy for a millisecond, and after a restart all proxies come at once.
const HANDSHAKES: usize = 128;

/// A certificate chain and its private key, PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The chain, the server's own certificate first.
    pub chain: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file.
    #[error("cannot read {0}: {1}")]
    File(PathBuf, io::Error),
    /// The chain or the key is no PEM.
    #[error("{0}: not in PEM format")]
    Pem(PathBuf),
    /// They are not a pair, or of a kind that cannot be used.
    #[error("certificate and private key: {0}")]
    Pair(#[from] rustls::Error),
}

/// What is served now.
#[derive(Debug)]
struct Serving(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Files {
    fn load(&self) -> Result<CertifiedKey, CertificateError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| CertificateError::File(path.clone(), error))
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(&self.chain)?)
            .collect::<Result<_, _>>()
            .map_err(|_no_pem| CertificateError::Pem(self.chain.clone()))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_no_pem| CertificateError::Pem(self.key.clone()))?;
        Ok(CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?)
    }
}

/// Accepts TLS connections for HTTP/2 for ever, and looks at the files every `look`; the first certificate must be good.
pub fn accept(
    listener: TcpListener,
    files: Files,
    look: Duration,
) -> Result<ReceiverStream<io::Result<TlsStream<TcpStream>>>, CertificateError> {
    let serving = Arc::new(Serving(ArcSwap::from_pointee(files.load()?)));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::<Serving>::clone(&serving));
    config.alpn_protocols = vec![b"h2".to_vec()];
    tokio::spawn(follow(files, serving, look));
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(shake_hands(listener, TlsAcceptor::from(Arc::new(config)), sender));
    Ok(ReceiverStream::new(receiver))
}

/// Looks at the files for ever. What cannot be served leaves the last good one in place.
async fn follow(files: Files, serving: Arc<Serving>, look: Duration) {
    let mut told = String::new();
    loop {
        tokio::time::sleep(look).await;
        match files.load() {
            Ok(pair) if pair.cert == serving.0.load().cert => told.clear(),
            Ok(pair) => {
                tracing::info!(chain = %files.chain.display(), "another certificate is served");
                serving.0.store(Arc::new(pair));
                told.clear();
            }
            Err(error) => {
                let text = error.to_string();
                if text != told {
                    tracing::warn!(%error, "the certificate stays what it was");
                    told = text;
                }
            }
        }
    }
}

async fn shake_hands(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    sender: mpsc::Sender<io::Result<TlsStream<TcpStream>>>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    // Never closed, so that an error cannot be.
    while let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Mostly for want of file descriptors: others must be closed first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection cannot be made prompt");
        }
        let (acceptor, sender) = (acceptor.clone(), sender.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    drop(permit);
                    if sender.send(Ok(stream)).await.is_err() {
                        tracing::debug!("a connection came after the end");
                    }
                }
                Ok(Err(error)) => tracing::debug!(%error, "no handshake"),
                Err(_elapsed) => tracing::debug!("no handshake in time"),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{CertificateError, Files, accept};
    use rcgen::CertifiedKey;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsConnector;
    use tokio_stream::StreamExt as _;

    const SOON: Duration = Duration::from_secs(20);

    /// Writes a new certificate and its key; what it is.
    fn renew(folder: &Path) -> CertificateDer<'static> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["controller".to_owned()]).unwrap();
        std::fs::write(folder.join("tls.crt"), cert.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), signing_key.serialize_pem()).unwrap();
        cert.der().clone()
    }

    /// Whether a handshake succeeds with a client that trusts this certificate alone.
    async fn is_served(address: SocketAddr, trusted: &CertificateDer<'static>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("controller").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
    }

    async fn until_served(address: SocketAddr, trusted: &CertificateDer<'static>) {
        let served = async {
            while !is_served(address, trusted).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, served).await.expect("it is served in time");
    }

    #[tokio::test]
    async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
        let folder = std::env::temp_dir().join(format!("tidegate-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let first = renew(&folder);
        let files = Files { chain: folder.join("tls.crt"), key: folder.join("tls.key") };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut accepted = accept(listener, files.clone(), Duration::from_millis(10)).unwrap();
        tokio::spawn(async move { while accepted.next().await.is_some() {} });
        until_served(address, &first).await;
        let second = renew(&folder);
        until_served(address, &second).await;
        assert!(!is_served(address, &first).await);

        std::fs::write(&files.key, "no key").unwrap();
        assert!(matches!(files.load(), Err(CertificateError::Pem(path)) if path == files.key));
        let third = {
            until_served(address, &second).await;
            renew(&folder)
        };
        until_served(address, &third).await;
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
