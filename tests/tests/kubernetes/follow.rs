//! Endpoints and places, as they change.

use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;
use tests::controller::Controller;
use tests::deadline::SOON;
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs, access};
use tests::listener::{Listener, Listeners, Who};
use tests::{http, need};

const CART: &str = "shop/cart:80";

pub(crate) fn who(pod: &str, node: &str) -> Who {
    Who { namespace: "shop".to_owned(), pod: pod.to_owned(), node: node.to_owned(), token: None }
}

pub(crate) fn until_addresses(listener: &Listener, limit: Duration, wanted: &BTreeSet<String>) {
    listener.until("the union of the slices", limit, |heard| {
        let service = heard.services.get(CART).ok_or("no service")?;
        let known: BTreeSet<String> = service.endpoints.keys().cloned().collect();
        if known == *wanted {
            return Ok(());
        }
        let (missing, extra) =
            (wanted.difference(&known).count(), known.difference(wanted).count());
        Err(format!("{missing} missing, {extra} too many"))
    });
}

/// Which endpoint is in which slice, and which addresses were always there.
pub(crate) struct Packing {
    random: fastrand::Rng,
    slice_of: BTreeMap<u32, usize>,
    next: u32,
}

pub(crate) const SLICES: usize = 5;
const ENDPOINTS: u32 = 500;
/// As many stay for ever.
const LASTING: u32 = 100;

impl Packing {
    pub(crate) fn new(seed: u64) -> Self {
        let slice_of = (0..ENDPOINTS).map(|number| (number, number as usize % SLICES)).collect();
        Self { random: fastrand::Rng::with_seed(seed), slice_of, next: ENDPOINTS }
    }

    fn address(number: u32) -> [u8; 4] {
        let [_, high, middle, low] = number.to_be_bytes();
        [10, 16 + high, middle, low]
    }

    /// Some endpoints move, some go, as many come. The order in which to write the slices: an endpoint moves to a slice that is
    /// written before the one that it leaves, so that it is in one of them at any time.
    pub(crate) fn shuffle(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..SLICES).collect();
        self.random.shuffle(&mut order);
        for slice in self.slice_of.values_mut() {
            let place = order.iter().position(|other| other == slice).unwrap();
            if place > 0 && self.random.u8(..10) < 3 {
                *slice = order[self.random.usize(..place)];
            }
        }
        for _ in 0..self.random.usize(..10) {
            let count = self.random.usize(..(ENDPOINTS - LASTING) as usize);
            let gone = self.slice_of.range(LASTING..).nth(count).unwrap();
            let gone = *gone.0;
            self.slice_of.remove(&gone);
            self.slice_of.insert(self.next, self.random.usize(..SLICES));
            self.next += 1;
        }
        order
    }

    pub(crate) fn write(&self, cluster: &Cluster, slice: usize) {
        let here = self.slice_of.iter().filter(|(_, other)| **other == slice);
        let endpoints: Vec<Endpoint> = here
            .map(|(number, _)| Endpoint::new(Self::address(*number), ["a", "b", "c"][slice % 3]))
            .collect();
        cluster.client().apply(shop::slice(&format!("cart-{slice}"), "cart", 8080, &endpoints));
    }

    /// All that is in a slice.
    pub(crate) fn union(&self) -> BTreeSet<String> {
        self.slice_of.keys().map(|number| Self::shown(*number)).collect()
    }

    /// What was there all the time.
    pub(crate) fn lasting() -> BTreeSet<String> {
        (0..LASTING).map(Self::shown).collect()
    }

    fn shown(number: u32) -> String {
        format!("{}:8080", std::net::Ipv4Addr::from(Self::address(number)))
    }
}

#[test]
fn slices_packed_anew_lose_and_double_nothing() {
    let cluster = Cluster::start(&need!(Programs::find()));
    cluster.shop();
    let controller = Controller::start(&cluster.kubeconfig(Some(&cluster.controller_token())));
    let seed = fastrand::u64(..);
    println!("SEED={seed}");
    let mut packing = Packing::new(seed);
    (0..SLICES).for_each(|slice| packing.write(&cluster, slice));
    let listeners = Listeners::new();
    let address = cluster.client().address_of("cart");
    let listener = listeners.listen(controller.discovery, &who("till", "node-a"), &[&address]);
    until_addresses(&listener, SOON, &packing.union());
    for _ in 0..200 {
        for slice in packing.shuffle() {
            packing.write(&cluster, slice);
        }
        until_addresses(&listener, SOON, &packing.union());
    }
    listener.assert_consistent();
    listener.look(|heard| {
        for address in Packing::lasting() {
            assert_eq!(heard.moments[&address].1, None, "{address} was absent for a while");
        }
        println!("{} updates, {} addresses", heard.updates, heard.moments.len());
    });
}

#[test]
fn places_and_kinds_of_services_follow_the_cluster() {
    let cluster = Cluster::start(&need!(Programs::find()));
    cluster.shop();
    let client = cluster.client();
    cluster.node("node-x", "", "");
    let endpoints = [Endpoint::new([10, 1, 0, 1], "").on("node-x")];
    client.apply(shop::slice("cart-1", "cart", 8080, &endpoints));
    let spec = |name: &str, spec: serde_json::Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name}, "spec": spec});
    client.apply(spec("far", json!({"type": "ExternalName", "externalName": "example.org"})));
    client.apply(spec("bare", json!({"clusterIP": "None", "ports": [{"port": 80}]})));
    client.apply(spec("sticky", json!({"sessionAffinity": "ClientIP", "ports": [{"port": 80}]})));
    let controller = Controller::start(&cluster.kubeconfig(Some(&cluster.controller_token())));
    let listeners = Listeners::new();
    let (cart, sticky) = (client.address_of("cart"), client.address_of("sticky"));
    let asked =
        [&*cart, &*sticky, "far:80", "bare.shop.svc.cluster.local:80", "10.9.9.9:80", "new:80"];
    let listener = listeners.listen(controller.discovery, &who("till", "node-x"), &asked);
    let service = |name: &str| Ok(format!("shop/{name}:80"));
    let expected = [
        (&*cart, service("cart")),
        (&*sticky, Err(3)),
        ("far:80", Err(2)),
        ("bare.shop.svc.cluster.local:80", service("bare")),
        ("10.9.9.9:80", Err(1)),
        ("new:80", Err(1)),
    ];
    listener.until("every destination is answered", SOON, |heard| {
        for (destination, target) in &expected {
            if heard.resolved.get(*destination) != Some(target) {
                return Err(format!("{:?}", heard.resolved));
            }
        }
        Ok(())
    });

    let zone = |wanted: &str| {
        listener.until("proxy and endpoint are in the zone", SOON, |heard| {
            let own = heard.place.clone().unwrap_or_default().zone;
            let there = &heard.services[CART].endpoints["10.1.0.1:8080"].zone;
            let seen = format!("{own} {there}");
            if seen == format!("{wanted} {wanted}") { Ok(()) } else { Err(seen) }
        });
    };
    zone("");
    // Labels that come late, and change.
    cluster.node("node-x", "b", "r");
    zone("b");
    cluster.node("node-x", "c", "r");
    zone("c");

    client.apply(shop::service("new", &json!({})));
    listener.until("a Service that comes late", SOON, |heard| match &heard.resolved["new:80"] {
        Ok(_) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    client.delete(&shop::service("new", &json!({})));
    listener.until("a Service that goes", SOON, |heard| match &heard.resolved["new:80"] {
        Err(1) => Ok(()),
        other => Err(format!("{other:?}")),
    });

    // The Service whose affinity is Kubernetes' own affair says so.
    tests::deadline::until("an event on the Service", SOON, || {
        let events = client.get("/apis/events.k8s.io/v1/namespaces/shop/events").unwrap();
        let found = events["items"].as_array().unwrap().iter().any(|event| {
            event["regarding"]["name"] == "sticky" && event["regarding"]["kind"] == "Service"
        });
        if found { Ok(()) } else { Err(events.to_string()) }
    });
    listener.assert_consistent();
}

#[test]
fn a_proxy_is_who_its_token_says() {
    let cluster = Cluster::start(&need!(Programs::find()));
    cluster.shop();
    cluster.client().apply(shop::caller("till", "node-b", &json!({})));
    let kubeconfig = cluster.kubeconfig(Some(&cluster.controller_token()));
    let controller = Controller::start_with(&kubeconfig, &[]);
    let listeners = Listeners::new();
    let address = cluster.client().address_of("cart");
    let token = |audience: &str| Some(cluster.pod_token("shop", "till", audience));

    let honest = Who { token: token("tidegate-controller"), ..Who::default() };
    let listener = listeners.listen(controller.discovery, &honest, &[&address, "cart:80"]);
    let place =
        listener.until("a place", SOON, |heard| heard.place.clone().ok_or_else(|| "none".into()));
    assert_eq!((&*place.zone, &*place.region, &*place.node), ("b", "r", "node-b"));
    listener.until("short names are those of the pod's namespace", SOON, |heard| {
        match heard.resolved.get("cart:80") {
            Some(Ok(id)) if id == CART => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });

    let refused = |who: &Who| {
        let listener = listeners.listen(controller.discovery, who, &[&address]);
        tests::deadline::until("the stream ends", SOON, || {
            listener.look(|heard| heard.ended.clone().ok_or_else(|| format!("{:?}", heard.place)))
        })
    };
    let strangers = [
        Who { token: token("https://kubernetes.default.svc"), ..Who::default() },
        Who { token: Some("nonsense".to_owned()), ..Who::default() },
        who("till", "node-b"),
    ];
    for stranger in &strangers {
        let end = refused(stranger);
        assert!(end.starts_with("Unauthenticated"), "{end}");
    }
}

#[test]
fn proxies_that_all_come_at_once_are_let_in() {
    let cluster = Cluster::start(&need!(Programs::find()));
    let controller = Controller::start(&cluster.kubeconfig(Some(&cluster.controller_token())));
    // It is busy elsewhere while the proxies of a replica that ended come.
    controller.process.signal("STOP");
    // What HTTP/2 begins with, and empty settings.
    let begin =
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    let connect = |_| {
        let mut stream = http::connect(controller.discovery).unwrap();
        stream.write_all(&begin).unwrap();
        stream
    };
    let come: Vec<TcpStream> = (0..500).map(connect).collect();
    controller.process.signal("CONT");
    for (number, mut stream) in (1..).zip(come) {
        let heard = stream.read_exact(&mut [0; 9]);
        assert!(heard.is_ok(), "proxy {number} of 500: {heard:?}");
    }
}

#[test]
fn the_rules_ask_for_no_more_than_is_read() {
    for list in ["cluster", "namespace", "remote"] {
        for rule in access::rules(list) {
            let text = rule.to_string();
            assert!(!text.contains('*'), "{text}");
            let words = |key: &str| -> Vec<String> {
                let words = rule[key].as_array().unwrap().iter();
                words.map(|word| word.as_str().unwrap().to_owned()).collect()
            };
            let writes = match &*words("resources").concat() {
                "localitypolicies/status" => vec!["patch"],
                "events" | "tokenreviews" => vec!["create"],
                _ => vec!["list", "watch"],
            };
            assert_eq!(words("verbs"), writes, "{text}");
        }
    }
}
