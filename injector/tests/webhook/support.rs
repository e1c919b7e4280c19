//! A webhook in this process, and waiting.

use crate::cluster::Cluster;
use clap::Parser;
use injector::certificate::Terms;
use injector::certificate::keeper::{Keeper, Own, Registration, Source};
use injector::certificate::serving::Serving;
use injector::metrics::ReviewMetrics;
use injector::namespaces::Namespaces;
use injector::settings::Settings;
use injector::webhook::Webhook;
use injector::webhook::server::Server;
use kube::Api;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Long enough for anything on a busy machine.
pub(crate) const SOON: Duration = Duration::from_mins(1);

#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    settings: Settings,
}

/// A client of the cluster.
pub(crate) fn client(cluster: &Cluster) -> kube::Client {
    kube::Client::try_from(kube::Config::new(cluster.url.parse().unwrap())).unwrap()
}

/// A replica: what it serves, and what keeps its certificate.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    pub(crate) keeper: Keeper,
    pub(crate) serving: Serving,
}

pub(crate) fn terms(certificate: Duration, authority: Duration) -> Terms {
    Terms { names: vec![crate::caller::NAME.to_owned()], certificate, authority }
}

/// Starts a replica that has no certificate yet.
pub(crate) async fn replica(cluster: &Cluster, source: Source) -> Replica {
    let serving = Serving::default();
    let (keeper, authorities) = keeper(cluster, source, &serving);
    let (namespaces, watch) = Namespaces::watch(client(cluster));
    tokio::spawn(watch);
    namespaces.synced().await;
    let webhook = Webhook {
        settings: Defaults::parse_from(["x"]).settings,
        authorities,
        namespaces,
        excluded: vec!["kube-system".to_owned(), "tidegate".to_owned()],
        metrics: ReviewMetrics::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(Arc::new(webhook), serving.config().unwrap());
    tokio::spawn(server.serve(listener, std::future::pending()));
    Replica { address, keeper, serving }
}

/// What keeps the certificate that `serving` has.
pub(crate) fn keeper(
    cluster: &Cluster,
    source: Source,
    serving: &Serving,
) -> (Keeper, watch::Receiver<String>) {
    let (tell, authorities) = watch::channel(String::new());
    let registration =
        Registration { configurations: Api::all(client(cluster)), name: "tidegate".to_owned() };
    (Keeper::new(source, Some(registration), serving.clone(), tell), authorities)
}

/// A certificate of its own, in the Secret that all replicas share.
pub(crate) fn own(cluster: &Cluster, terms: Terms) -> Source {
    let secrets = Api::namespaced(client(cluster), "tidegate");
    Source::Own(Box::new(Own { secrets, name: "tidegate-certificate".to_owned(), terms }))
}

/// Looks until there is something; fails when that takes too long.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(SOON, looking).await;
    found.unwrap_or_else(|late| panic!("{what}: not within {SOON:?} ({late})"))
}
