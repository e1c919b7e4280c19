//! One connection to one replica of the controller: TCP, TLS where the address says so, HTTP/2, and the proxy's token.

use super::replicas::Replica;
use api::discovery::FromController;
use api::discovery::FromProxy;
use api::discovery::discovery_client::DiscoveryClient;
use http::Uri;
use http::uri::Scheme;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::Service;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status, Streaming};

/// A replica that does not accept in this time is passed over: of three, the third is reached in well below five seconds.
const CONNECT: Duration = Duration::from_secs(1);

/// And one that does not begin to talk in this time; the controller reviews the token in between.
const GREET: Duration = Duration::from_secs(6);

/// A stream on which nothing comes is asked for life after this time, and given up when no answer comes in the same time: a
/// replica that hangs, or a network that swallows everything, is left within ten seconds.
const PING: Duration = Duration::from_secs(4);

/// Largest message: a service of some 80,000 endpoints.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// What the proxy says and that was not sent yet, beside what waits in the client's own list.
const SENDING: usize = 16;

/// Where the controller is and how it is known.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Its address, or those of its replicas.
    pub addresses: Vec<Address>,
    /// Who vouches for it.
    pub authority: Option<Authority>,
    /// File with the proxy's token.
    pub token: Option<PathBuf>,
}

/// The address of the controller: `https://host:port`, or `http://` where the network is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

/// What is wrong with a controller's address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no address of a controller: write https://host:port")]
pub struct NoAddress;

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let uri: Uri = text.trim_end_matches('/').parse().map_err(|_invalid| NoAddress)?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(NoAddress),
        };
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(NoAddress);
        }
        let host = uri.host().ok_or(NoAddress)?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(api::names::port::DISCOVERY);
        Ok(Self { uri, host, port, tls })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl Address {
    async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port));
        match tokio::time::timeout(GREET, found).await {
            Ok(found) => Ok(found?.collect()),
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Certificates of an authority: themselves, or the file that holds them, which is read for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// PEM text.
    Pem(String),
    /// A file of it.
    File(PathBuf),
}

impl Authority {
    /// PEM text or the path of a file.
    pub fn read(text: &str) -> Self {
        if text.contains("-----BEGIN") {
            Self::Pem(text.to_owned())
        } else {
            Self::File(text.into())
        }
    }

    fn roots(&self) -> Result<RootCertStore, NoStream> {
        let read;
        let pem = match self {
            Self::Pem(pem) => pem.as_bytes(),
            Self::File(path) => {
                read = fs::read(path)
                    .map_err(|error| NoStream::Authority(format!("{}: {error}", path.display())))?;
                &read
            }
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| NoStream::Authority(error.to_string()))?;
            roots.add(certificate).map_err(|error| NoStream::Authority(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(NoStream::Authority("no certificate in it".to_owned()));
        }
        Ok(roots)
    }
}

/// Why no stream came about.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoStream {
    #[error("no connection to {0} within {CONNECT:?}")]
    ConnectTimeout(SocketAddr),
    #[error("cannot resolve {0}: {1}")]
    Resolve(String, io::Error),
    #[error("no connection to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    #[error("a connection that was lost at once: {0}")]
    Peer(#[source] io::Error),
    #[error("no usable certificate authority (TIDEGATE_CONTROLLER_CA): {0}")]
    Authority(String),
    #[error("no TLS with {0}: {1}")]
    Tls(SocketAddr, io::Error),
    #[error("TLS is not possible: {0}")]
    Unable(#[from] rustls::Error),
    #[error("the controller's host is no name for TLS: {0}")]
    Name(#[from] InvalidDnsNameError),
    #[error("cannot read the token (TIDEGATE_CONTROLLER_TOKEN): {0}")]
    Token(String),
    #[error("no HTTP/2 with {0}: {1}")]
    Http2(SocketAddr, hyper::Error),
    #[error("{0} does not begin to talk within {GREET:?}")]
    GreetTimeout(SocketAddr),
    #[error("{0} refuses ({1:?}): {2}")]
    Refused(SocketAddr, tonic::Code, String),
}

/// An open stream.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) sender: mpsc::Sender<FromProxy>,
    pub(super) inbound: Streaming<FromController>,
}

impl Controller {
    /// All replicas as they are found now, and why some are not.
    pub(super) async fn resolve(&self) -> (Vec<Replica>, Option<NoStream>) {
        let (mut found, mut failure) = (Vec::new(), None);
        for (url, address) in self.addresses.iter().enumerate() {
            match address.resolve().await {
                Ok(addresses) => {
                    found.extend(addresses.into_iter().map(|address| Replica { address, url }));
                }
                Err(error) => failure = Some(NoStream::Resolve(address.host.clone(), error)),
            }
        }
        (found, failure)
    }

    /// Opens a stream to one replica and says hello.
    pub(super) async fn open(&self, to: Replica, hello: FromProxy) -> Result<Open, NoStream> {
        let replica = to.address;
        let address = self.addresses.get(to.url).ok_or(NoStream::ConnectTimeout(replica))?;
        let stream = match tokio::time::timeout(CONNECT, TcpStream::connect(replica)).await {
            Ok(connected) => connected.map_err(|error| NoStream::Connect(replica, error))?,
            Err(_elapsed) => return Err(NoStream::ConnectTimeout(replica)),
        };
        stream.set_nodelay(true).map_err(|error| NoStream::Connect(replica, error))?;
        match tokio::time::timeout(GREET, Box::pin(self.greet(address, stream, hello))).await {
            Ok(open) => open,
            Err(_elapsed) => Err(NoStream::GreetTimeout(replica)),
        }
    }

    async fn greet(
        &self,
        address: &Address,
        stream: TcpStream,
        hello: FromProxy,
    ) -> Result<Open, NoStream> {
        let replica = stream.peer_addr().map_err(NoStream::Peer)?;
        let http2 = if address.tls {
            let connector = TlsConnector::from(Arc::new(self.tls()?));
            let name = ServerName::try_from(address.host.clone())?;
            let stream = connector.connect(name, stream).await;
            Box::pin(handshake(replica, stream.map_err(|error| NoStream::Tls(replica, error))?))
                .await?
        } else {
            handshake(replica, stream).await?
        };
        let (sender, receiver) = mpsc::channel(SENDING);
        // There is room: nothing was sent yet.
        drop(sender.try_send(hello));
        let mut request = Request::new(ReceiverStream::new(receiver));
        if let Some(token) = self.token(address.tls || replica.ip().is_loopback())? {
            request.metadata_mut().insert("authorization", token);
        }
        let mut client = DiscoveryClient::with_origin(Http2(http2), address.uri.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        let answer = client.stream(request).await.map_err(|status| refused(replica, &status))?;
        Ok(Open { sender, inbound: answer.into_inner() })
    }

    fn tls(&self) -> Result<ClientConfig, NoStream> {
        let none = || NoStream::Authority("none is set".to_owned());
        let roots = self.authority.as_ref().ok_or_else(none)?.roots()?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let mut config = builder
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// The token as it is now: Kubernetes replaces it long before it expires. It is sent only where nobody else can read it.
    fn token(&self, private: bool) -> Result<Option<Bearer>, NoStream> {
        let Some(path) = self.token.as_ref().filter(|_| private) else { return Ok(None) };
        bearer(path)
            .map(Some)
            .map_err(|problem| NoStream::Token(format!("{}: {problem}", path.display())))
    }
}

type Bearer = MetadataValue<tonic::metadata::Ascii>;

fn bearer(path: &Path) -> Result<Bearer, String> {
    let token = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut value: Bearer = format!("Bearer {}", token.trim())
        .parse()
        .map_err(|_invalid| "what is in it is no token".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

fn refused(replica: SocketAddr, status: &Status) -> NoStream {
    NoStream::Refused(replica, status.code(), status.message().to_owned())
}

type Sender = http2::SendRequest<tonic::body::Body>;

async fn handshake(
    replica: SocketAddr,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Sender, NoStream> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .keep_alive_while_idle(true);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| NoStream::Http2(replica, error))?;
    tokio::spawn(async move {
        // It ends with the stream, whose error says the same.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to the controller ended");
        }
    });
    Ok(sender)
}

/// A connection as the generated client takes it.
struct Http2(Sender);

impl Service<http::Request<tonic::body::Body>> for Http2 {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls() {
        let good = [
            (
                "https://tidegate-controller.tidegate.svc:4280",
                "https://tidegate-controller.tidegate.svc:4280",
            ),
            ("https://controller/", "https://controller:4280"),
            ("http://127.0.0.1:9", "http://127.0.0.1:9"),
            ("http://[::1]:9", "http://::1:9"),
        ];
        for (text, expected) in good {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), expected);
        }
        for text in
            ["", "controller:4280", "grpc://controller", "https://", "https://a/b", "https://a?b"]
        {
            assert_eq!(text.parse::<Address>(), Err(NoAddress), "{text}");
        }
    }

    #[test]
    fn an_authority_is_text_or_a_file() {
        let pem = "-----BEGIN CERTIFICATE-----\n";
        assert_eq!(Authority::read(pem), Authority::Pem(pem.to_owned()));
        assert_eq!(Authority::read("/ca.pem"), Authority::File("/ca.pem".into()));
        assert!(Authority::read(pem).roots().is_err(), "a broken one");
        assert!(Authority::Pem(String::new()).roots().is_err(), "an empty one");
    }

    #[test]
    fn tokens_are_not_sent_where_others_may_read_them() {
        let path = std::env::temp_dir().join(format!("tidegate-token-{}", std::process::id()));
        fs::write(&path, "secret\n").unwrap();
        let controller =
            Controller { addresses: Vec::new(), authority: None, token: Some(path.clone()) };
        let sent = |private| {
            let token = controller.token(private).unwrap();
            token.map(|token| token.to_str().unwrap().to_owned())
        };
        assert_eq!(sent(true).as_deref(), Some("Bearer secret"));
        assert_eq!(sent(false), None);
        fs::remove_file(&path).unwrap();
        assert!(controller.token(true).is_err(), "a missing one");
    }
}
