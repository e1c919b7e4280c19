//! What others are told: proxies by a stream each, people and other proxies over HTTP.

pub mod certificate;
pub mod http;
pub mod identify;
mod stream;

use crate::hub::Hub;
use api::discovery::discovery_server::{Discovery, DiscoveryServer};
use api::discovery::{FromController, FromProxy, from_proxy};
use certificate::{CertificateError, Files};
use identify::Identify;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use stream::Conversation;
use tokio::net::TcpListener;
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// A proxy that is silent this long is asked whether it lives.
const PING: Duration = Duration::from_secs(5);
/// And given up when it does not answer for this long: a busy machine may keep it waiting for seconds, and a thousand proxies that come
/// again at once would not make it less busy.
const PONG: Duration = Duration::from_secs(15);
/// A proxy introduces itself at once.
const HELLO: Duration = Duration::from_secs(10);
/// A subscription takes some 100 bytes; what comes to more is no proxy of ours. The resumption list is the longest message.
const MESSAGE_BYTES: usize = 1024 * 1024;

/// The discovery server.
#[derive(Debug)]
pub struct DiscoveryService {
    hub: Arc<Hub>,
    identify: Arc<Identify>,
}

/// Why the server ends.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Its first certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// HTTP/2.
    #[error(transparent)]
    Transport(#[from] tonic::transport::Error),
}

/// Serves discovery streams for ever; with a certificate and its key, over TLS.
pub async fn serve(
    hub: Arc<Hub>,
    identify: Identify,
    listener: TcpListener,
    certificate: Option<Files>,
) -> Result<(), ServeError> {
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
        .tcp_nodelay(true);
    let service = DiscoveryService { hub, identify: Arc::new(identify) };
    let service = DiscoveryServer::new(service).max_decoding_message_size(MESSAGE_BYTES);
    let server = server.add_service(service);
    // On the heap: servers are large.
    if let Some(files) = certificate {
        let incoming = certificate::accept(listener, files, certificate::LOOK)?;
        Box::pin(server.serve_with_incoming(incoming)).await?;
    } else {
        let incoming = TcpListenerStream::new(listener);
        Box::pin(server.serve_with_incoming(incoming)).await?;
    }
    Ok(())
}

#[tonic::async_trait]
impl Discovery for DiscoveryService {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<FromController, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<FromProxy>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (metadata, _, mut inbound) = request.into_parts();
        // One place: what the proxy should see next is decided when it can take it.
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let (hub, identify) = (Arc::clone(&self.hub), Arc::clone(&self.identify));
        tokio::spawn(async move {
            let first = tokio::time::timeout(HELLO, inbound.message()).await;
            let Ok(Ok(Some(FromProxy { message: Some(from_proxy::Message::Hello(hello)) }))) =
                first
            else {
                refuse(&sender, Status::invalid_argument("the first message must be hello")).await;
                return;
            };
            match identify.proxy(&metadata, &hello).await {
                Ok(proxy) => Conversation::new(&hub, proxy, &hello).run(inbound, sender).await,
                Err(status) => refuse(&sender, status).await,
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

async fn refuse(
    sender: &tokio::sync::mpsc::Sender<Result<FromController, Status>>,
    status: Status,
) {
    if sender.send(Err(status)).await.is_err() {
        tracing::debug!("a proxy left before it was refused");
    }
}
