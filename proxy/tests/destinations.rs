//! Destinations: asked for at their first use, answered, forgotten; and what endpoints keep when a controller changes them.
#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use api::policy::source::PolicySource;
use proxy::clock::Clock;
use proxy::destinations::{
    Answer, Census, DESTINATIONS_MAX, Destinations, FIRST_ANSWER, IDLE_SWEEPS,
    IDLE_SWEEPS_PASSTHROUGH, Wanted,
};
use proxy::discovery::{
    Change, Destination, EndpointProtocol, EndpointUpdate, Passthrough, Place, ServiceUpdate,
    Target,
};
use proxy::registry::Registry;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

fn registry() -> Registry {
    let zone = Some("a".into());
    Registry::on_demand(Clock::start(), Place { zone, ..Place::default() })
}

fn destinations(registry: &Registry) -> &Destinations {
    registry.destinations().unwrap()
}

fn name(name: &str) -> Destination {
    Destination::of_host(name, 80).unwrap()
}

fn service(name: &str, endpoints: &[EndpointUpdate]) -> Change {
    Change::Service(ServiceUpdate {
        name: name.into(),
        hosts: Vec::new(),
        addresses: Vec::new(),
        protocol: EndpointProtocol::Http1,
        policy: Arc::default(),
        policy_source: PolicySource::BuiltIn,
        policy_object: None,
        callers: Vec::new(),
        endpoints: endpoints.to_vec(),
    })
}

fn leads_to(destination: &Destination, service: &str) -> Change {
    Change::Resolved(destination.clone(), Target::Service(service.into()))
}

fn passthrough(destination: &Destination) -> Change {
    Change::Resolved(destination.clone(), Target::Passthrough(Passthrough::Unknown))
}

fn endpoint(port: u16, zone: &str, uid: &str) -> EndpointUpdate {
    EndpointUpdate {
        zone: Some(zone.into()),
        uid: Some(uid.into()),
        ..EndpointUpdate::at(([10, 0, 0, 1], port).into())
    }
}

fn said(answer: &Answer) -> &str {
    match answer {
        Answer::Balanced(service) => service.name(),
        Answer::Passthrough(why) => why.as_str(),
        Answer::Refused => "refused",
    }
}

async fn find(registry: &Registry, destination: &Destination) -> String {
    said(&registry.find(destination).await.0).to_owned()
}

#[test]
fn hosts_are_destinations() {
    let cases = [
        ("cart", "cart:80"),
        ("Cart.Shop", "cart.shop:80"),
        ("cart.shop.svc.cluster.local.", "cart.shop.svc.cluster.local:80"),
        ("10.0.0.7", "10.0.0.7:80"),
        ("[fd00::7]", "[fd00::7]:80"),
        ("fd00::7", "[fd00::7]:80"),
    ];
    for (host, expected) in cases {
        let destination = Destination::of_host(host, 80).unwrap();
        assert_eq!(destination.to_string(), expected);
        let address = expected.parse().ok().map(Destination::Address);
        assert!(address.is_none_or(|address| address == destination), "{host} is an address");
    }
    let long = "a".repeat(254);
    for host in ["", ".", "a b", "a/b", "a@b", "[cart]", "a:b", "a\0", long.as_str()] {
        assert_eq!(Destination::of_host(host, 80), None, "{host:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_request_waits_for_the_answer_and_the_next_does_not() {
    let registry = registry();
    let cart = name("cart");
    destinations(&registry).begin();
    let answer = async {
        let wanted = destinations(&registry).wanted().await.unwrap();
        assert_eq!(wanted, [Wanted::Subscribe(cart.clone())]);
        tokio::time::sleep(FIRST_ANSWER / 2).await;
        registry.change(&service("shop/cart:80", &[]));
        registry.change(&leads_to(&cart, "shop/cart:80"));
    };
    let (both, ()) = tokio::join!(
        async { tokio::join!(find(&registry, &cart), find(&registry, &cart)) },
        answer
    );
    assert_eq!((both.0.as_str(), both.1.as_str()), ("shop/cart:80", "shop/cart:80"));
    let before = Instant::now();
    assert_eq!(find(&registry, &cart).await, "shop/cart:80");
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_silent_controller_costs_one_wait_for_each_destination() {
    let registry = registry();
    let cart = name("cart");
    let before = Instant::now();
    assert_eq!(find(&registry, &cart).await, "unanswered");
    assert!(before.elapsed() >= FIRST_ANSWER && before.elapsed() < 2 * FIRST_ANSWER);
    let before = Instant::now();
    assert_eq!(find(&registry, &cart).await, "unanswered");
    assert_eq!(before.elapsed(), Duration::ZERO, "nobody waits twice");
    registry.change(&service("shop/cart:80", &[]));
    registry.change(&leads_to(&cart, "shop/cart:80"));
    assert_eq!(find(&registry, &cart).await, "shop/cart:80", "late, but not too late");
}

#[tokio::test(start_paused = true)]
async fn without_any_controller_nobody_waits_and_what_is_known_stays() {
    let registry = registry();
    let (cart, till) = (name("cart"), name("till"));
    registry.change(&service("shop/cart:80", &[]));
    destinations(&registry).begin();
    let (found, ()) = tokio::join!(find(&registry, &cart), async {
        destinations(&registry).wanted().await.unwrap();
        registry.change(&leads_to(&cart, "shop/cart:80"));
    });
    assert_eq!(found, "shop/cart:80");
    destinations(&registry).end();

    let before = Instant::now();
    let (found, ()) = tokio::join!(find(&registry, &till), async {
        tokio::task::yield_now().await;
        destinations(&registry).give_up();
    });
    assert_eq!(found, "unanswered");
    assert_eq!(find(&registry, &name("mill")).await, "unanswered");
    assert_eq!(find(&registry, &cart).await, "shop/cart:80", "last known good");
    assert_eq!(before.elapsed(), Duration::ZERO);

    let mut again = destinations(&registry).begin();
    again.sort();
    assert_eq!(again, [cart, name("mill"), till], "all are asked for on the next stream");
}

#[tokio::test(start_paused = true)]
async fn what_is_idle_is_forgotten_and_what_is_used_is_not() {
    let registry = registry();
    let destinations = destinations(&registry);
    destinations.begin();
    let (cart, till, pod) = (name("cart"), name("till"), name("10.0.0.9"));
    registry.change(&service("shop/cart:80", &[]));
    registry.change(&service("shop/till:80", &[]));
    for (destination, change) in [
        (&cart, leads_to(&cart, "shop/cart:80")),
        (&till, leads_to(&till, "shop/till:80")),
        (&pod, passthrough(&pod)),
    ] {
        let asked = async {
            destinations.wanted().await.unwrap();
            registry.change(&change);
        };
        tokio::join!(find(&registry, destination), asked);
    }
    let (_, kept) = registry.find(&cart).await;
    let kept = kept.unwrap();
    let mut forgotten = Vec::new();
    for sweep in 0..=IDLE_SWEEPS {
        kept.touch();
        forgotten.extend(registry.sweep().into_iter().map(|destination| (sweep, destination)));
    }
    assert_eq!(forgotten, [(IDLE_SWEEPS_PASSTHROUGH, pod.clone()), (IDLE_SWEEPS, till.clone())]);
    assert_eq!(
        destinations.wanted().await.unwrap(),
        [Wanted::Unsubscribe(pod), Wanted::Unsubscribe(till)]
    );
    assert_eq!(destinations.census(), Census { balanced: 1, passthrough: 0, waiting: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_invented_hosts_pushes_out_no_service() {
    let registry = registry();
    let destinations = destinations(&registry);
    destinations.give_up();
    let cart = name("cart");
    find(&registry, &cart).await;
    registry.change(&service("shop/cart:80", &[]));
    registry.change(&leads_to(&cart, "shop/cart:80"));
    for number in 0..3 * DESTINATIONS_MAX {
        assert_eq!(find(&registry, &name(&format!("h{number}"))).await, "unanswered");
    }
    assert!(destinations.all().len() <= DESTINATIONS_MAX);
    assert_eq!(find(&registry, &cart).await, "shop/cart:80");
    // Full of services: what comes on top is passed on and not asked for.
    for (destination, _) in destinations.all() {
        registry.change(&leads_to(&destination, "shop/cart:80"));
    }
    for number in 0..2 * DESTINATIONS_MAX {
        let host = name(&format!("s{number}"));
        let found = find(&registry, &host).await;
        registry.change(&leads_to(&host, "shop/cart:80"));
        assert!(found == "unanswered" || found == "too_many", "{found}");
    }
    assert_eq!(find(&registry, &name("one-more")).await, "too_many");
    assert_eq!(destinations.census().balanced, DESTINATIONS_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_far_behind_is_begun_anew() {
    let registry = registry();
    let destinations = destinations(&registry);
    destinations.give_up();
    destinations.begin();
    destinations.give_up(); // nobody waits here
    for number in 0..3 * DESTINATIONS_MAX {
        find(&registry, &name(&format!("h{number}"))).await;
    }
    assert_eq!(destinations.wanted().await, None);
    assert!(destinations.begin().len() <= DESTINATIONS_MAX);
}

#[test]
fn endpoints_keep_what_was_learnt_when_only_their_place_changes() {
    let registry = registry();
    let keys = |endpoints: &[EndpointUpdate]| {
        registry.change(&service("shop/cart:80", endpoints));
        let snapshot = registry.service("shop/cart:80").unwrap().snapshot();
        snapshot.endpoints().map(|(endpoint, _)| endpoint.key()).collect::<Vec<_>>()
    };
    let first = keys(&[endpoint(1, "a", "u1"), endpoint(2, "b", "u2")]);
    let moved = keys(&[endpoint(1, "b", "u1"), endpoint(2, "b", "u2")]);
    assert_eq!(first, moved, "a zone that became known, or changed");
    let identified =
        EndpointUpdate { identity: Some("spiffe://x".into()), ..endpoint(1, "b", "u1") };
    let named = keys(&[identified.clone(), endpoint(2, "b", "u2")]);
    assert_eq!(first, named, "an identity that became known");
    let other = EndpointUpdate { identity: Some("spiffe://y".into()), ..identified };
    let replaced = keys(&[other, endpoint(2, "b", "u9")]);
    assert!(
        replaced.iter().all(|key| !first.contains(key)),
        "the same addresses, but other workloads: {first:?} {replaced:?}"
    );
}

#[test]
fn the_proxys_own_place_is_followed() {
    let registry = registry();
    let update = match service("shop/cart:80", &[endpoint(1, "a", "u1"), endpoint(2, "b", "u2")]) {
        Change::Service(update) => update,
        other => panic!("{other:?}"),
    };
    let tiers = || {
        let snapshot = registry.service("shop/cart:80").unwrap().snapshot();
        snapshot.endpoints().map(|(endpoint, _)| endpoint.spec.tier).collect::<Vec<_>>()
    };
    registry.change(&Change::Service(update.clone()));
    assert_eq!(tiers(), [0, 1]);
    let place = Place { zone: Some("b".into()), ..Place::default() };
    registry.change(&Change::Place(place.clone(), vec![update]));
    assert_eq!(tiers(), [1, 0]);
    assert_eq!(registry.place(), place);
}
