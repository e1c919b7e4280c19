//! A cluster, controllers and a real proxy in it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tests::backend::Backend;
use tests::controller::Controller;
use tests::deadline::{Moment, SOON, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::proxy::Proxy;
use tests::{http, ports};

/// What is promised within a second gets some more on a busy machine.
pub(crate) const EFFECT: Duration = Duration::from_secs(5);

pub(crate) const CART: &str = "shop/cart:80";
pub(crate) const HOST: &str = "cart.shop";

/// A cluster whose cart has a backend in each zone, with controllers and a proxy on a node.
pub(crate) struct Mesh {
    pub(crate) cluster: Cluster,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) backends: Vec<Backend>,
    pub(crate) proxy: Proxy,
    pub(crate) outbound: SocketAddr,
}

impl Mesh {
    pub(crate) fn start(programs: &Programs, ip: IpAddr, controllers: usize) -> Self {
        let cluster = Cluster::start(programs);
        cluster.shop();
        let backends: Vec<Backend> =
            ["a", "b", "c"].map(|zone| Backend::start_at(ip, zone, "5ms")).into();
        let kubeconfig = cluster.kubeconfig(Some(&cluster.controller_token()));
        let controllers: Vec<Controller> =
            (0..controllers).map(|_| Controller::start(&kubeconfig)).collect();
        let outbound = ports::free();
        let addresses: Vec<SocketAddr> =
            controllers.iter().map(|controller| controller.discovery).collect();
        let arguments = ["--pod", "shop/till", "--node", "node-a"];
        let proxy = Proxy::follow(&addresses, outbound, &arguments);
        let mesh = Self { cluster, controllers, backends, proxy, outbound };
        mesh.scale(3);
        mesh
    }

    /// The first backends are the cart's endpoints; the others are none.
    pub(crate) fn scale(&self, count: usize) {
        for (index, backend) in self.backends.iter().enumerate() {
            let SocketAddr::V4(address) = backend.address else { panic!("{}", backend.address) };
            let zone = ["a", "b", "c"][index % 3];
            let here = [Endpoint::new(*address.ip(), zone).on(&format!("node-{zone}"))];
            let endpoints = if index < count { here.as_slice() } else { &[] };
            let name = format!("cart-{index}");
            self.cluster.client().apply(shop::slice(&name, "cart", address.port(), endpoints));
        }
    }

    /// Waits until the proxy has as many endpoints, and returns how long that took.
    pub(crate) fn until_endpoints(&self, count: usize) -> Duration {
        let written = Moment::now();
        until(&format!("{count} endpoints"), SOON, || {
            let known = self.proxy.states(CART).len();
            if known == count { Ok(()) } else { Err(known) }
        });
        Moment::now().since(written)
    }

    pub(crate) fn get(&self) -> Result<(u16, String, String), String> {
        http::get_of_host(self.outbound, HOST)
    }

    pub(crate) fn until_served(&self) {
        self.until_served_within(SOON);
    }

    pub(crate) fn until_served_within(&self, limit: Duration) {
        until("the cart is served", limit, || match self.get() {
            Ok((200, ..)) => Ok(()),
            other => Err(other),
        });
    }

    /// What a metric of the proxy says.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.proxy.metrics().sum(name, &[])
    }
}
