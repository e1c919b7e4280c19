//! What is kept of what a controller says, message by message.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at its first surprise")]

use api::discovery as proto;
use api::discovery::from_controller::Message;
use proxy::discovery::controller::mirror::{Heard, Mirror};
use proxy::discovery::{Change, Destination, Passthrough, Place, ServiceUpdate, Target};
use std::slice::from_ref;

const CART: &str = "shop/cart:80";

fn name(host: &str) -> Destination {
    Destination::of_host(host, 80).unwrap()
}

/// A mirror whose stream has begun with these destinations.
fn mirror(destinations: &[Destination]) -> Mirror {
    let mut mirror = Mirror::new(Place::default());
    assert!(mirror.begin(destinations).is_empty());
    mirror
}

fn hear(mirror: &mut Mirror, message: Message) -> Heard {
    mirror.hear(proto::FromController { message: Some(message) }).unwrap()
}

fn refuse(mirror: &mut Mirror, message: Message) -> String {
    mirror.hear(proto::FromController { message: Some(message) }).unwrap_err().to_string()
}

/// Endpoints written `port zone`.
fn endpoints(written: &[&str]) -> Vec<proto::Endpoint> {
    written
        .iter()
        .map(|written| {
            let (port, zone) = written.split_once(' ').unwrap();
            proto::Endpoint {
                address: format!("10.0.0.1:{port}"),
                zone: zone.to_owned(),
                uid: format!("u{port}"),
                ..proto::Endpoint::default()
            }
        })
        .collect()
}

fn service(id: &str, version: u64, written: &[&str]) -> proto::Service {
    let endpoints = endpoints(written);
    proto::Service { id: id.to_owned(), version, endpoints, ..proto::Service::default() }
}

fn policy(json: &str, source: &str) -> proto::Policy {
    let (json, source) = (json.to_owned(), source.to_owned());
    proto::Policy { json, source, object: "shop/cart".to_owned(), fixed: false }
}

fn resolved(destination: &Destination, target: Option<&str>) -> Message {
    use proto::destination::Destination as Written;
    let written = match destination {
        Destination::Address(address) => Written::Address(address.to_string()),
        Destination::Name(..) => Written::Name(destination.to_string()),
    };
    let target = target.map_or_else(
        || proto::resolved::Target::Passthrough(proto::Passthrough::Unknown.into()),
        |id| proto::resolved::Target::Service(id.to_owned()),
    );
    let destination = Some(proto::Destination { destination: Some(written) });
    Message::Resolved(proto::Resolved { destination, target: Some(target) })
}

/// Tells a service and that a destination leads to it.
fn tell(mirror: &mut Mirror, destination: &Destination, sent: proto::Service) {
    let id = sent.id.clone();
    hear(mirror, Message::Service(sent));
    hear(mirror, resolved(destination, Some(&id)));
}

fn change(base: u64, version: u64) -> proto::ServiceChange {
    proto::ServiceChange { id: CART.to_owned(), base, version, ..proto::ServiceChange::default() }
}

/// The one service that a message changed.
fn changed(heard: &Heard) -> &ServiceUpdate {
    match heard.changes.as_slice() {
        [Change::Service(update)] => update,
        other => panic!("one service, not {other:?}"),
    }
}

/// Endpoints as `port zone`.
fn seen(update: &ServiceUpdate) -> Vec<String> {
    let line = |endpoint: &proxy::discovery::EndpointUpdate| {
        format!("{} {}", endpoint.address.port(), endpoint.zone.as_deref().unwrap_or("-"))
    };
    update.endpoints.iter().map(line).collect()
}

#[test]
fn a_snapshot_and_changes_make_the_whole() {
    let cart = name("cart");
    let mut mirror = mirror(from_ref(&cart));
    let heard = hear(&mut mirror, Message::Service(service(CART, 1, &["1 a", "2 b", "3 c"])));
    assert_eq!(seen(changed(&heard)), ["1 a", "2 b", "3 c"]);
    let heard = hear(&mut mirror, resolved(&cart, Some(CART)));
    let Some(Change::Resolved(_, Target::Service(id))) = heard.changes.first() else {
        panic!("a target, not {:?}", heard.changes)
    };
    assert_eq!(&**id, CART);

    let sent = proto::ServiceChange {
        upserted: endpoints(&["2 a", "4 a"]),
        removed: vec!["10.0.0.1:3".to_owned()],
        ..change(1, 2)
    };
    let heard = hear(&mut mirror, Message::Change(sent));
    assert_eq!(seen(changed(&heard)), ["1 a", "2 a", "4 a"], "moved, gone, new");
    assert_eq!(mirror.known(), [proto::Known { service: CART.to_owned(), version: 2 }]);

    let head = proto::Service {
        policy: Some(policy(r#"{"mode":"Off"}"#, "service_annotation")),
        ..service(CART, 3, &[])
    };
    let sent = proto::ServiceChange { service: Some(head), ..change(2, 3) };
    let heard = hear(&mut mirror, Message::Change(sent));
    assert_eq!(seen(changed(&heard)).len(), 3, "endpoints stay when the policy changes");
    assert_eq!(changed(&heard).policy_source.as_str(), "service_annotation");
    assert_eq!(changed(&heard).policy_object.as_deref(), Some("shop/cart"));
}

#[test]
fn a_gap_is_asked_for_again_once_and_the_whole_replaces_all() {
    let (cart, address) = (name("cart"), name("10.96.0.7"));
    let mut mirror = mirror(&[cart.clone(), address.clone()]);
    tell(&mut mirror, &cart, service(CART, 1, &["1 a", "2 b"]));
    hear(&mut mirror, resolved(&address, Some(CART)));

    let mut again = hear(&mut mirror, Message::Change(change(7, 8))).again;
    again.sort();
    assert_eq!(again, [address, cart], "all that lead there");
    let late = hear(&mut mirror, Message::Change(change(8, 9)));
    assert!(late.again.is_empty() && late.changes.is_empty(), "it was asked for already");
    let heard = hear(&mut mirror, Message::Service(service(CART, 9, &["5 c"])));
    assert_eq!(seen(changed(&heard)), ["5 c"]);
    assert!(hear(&mut mirror, Message::Change(change(9, 10))).again.is_empty());
}

#[test]
fn what_cannot_be_read_replaces_nothing() {
    let cart = name("cart");
    let mut mirror = mirror(from_ref(&cart));
    tell(&mut mirror, &cart, service(CART, 1, &["1 a"]));
    let mut broken = service(CART, 2, &["1 a", "2 b"]);
    broken.endpoints[1].address = "10.0.0.1".to_owned();
    assert!(refuse(&mut mirror, Message::Service(broken)).contains("no address"));
    let mut broken = change(1, 2);
    (broken.upserted, broken.removed) = (endpoints(&["3 a"]), vec!["nonsense".to_owned()]);
    assert!(refuse(&mut mirror, Message::Change(broken)).contains("nonsense"));
    assert!(refuse(&mut mirror, Message::Resolved(proto::Resolved::default())).contains("neither"));
    mirror.hear(proto::FromController { message: None }).unwrap_err();

    assert_eq!(mirror.known()[0].version, 1, "the last known good");
    let heard = hear(&mut mirror, Message::Change(change(2, 3)));
    assert_eq!(heard.again, [cart], "the controller believes that it was taken: ask again");
}

#[test]
fn a_policy_of_a_newer_version_leaves_the_one_before_in_force() {
    let cart = name("cart");
    let mut mirror = mirror(from_ref(&cart));
    let good = proto::Service {
        policy: Some(policy(r#"{"mode":"Pinned"}"#, "service_policy")),
        ..service(CART, 1, &["1 a"])
    };
    tell(&mut mirror, &cart, good);
    for (json, source) in [
        (r#"{"mode":"Psychic"}"#, "service_policy"),
        (r#"{"percent":1000}"#, "service_policy"),
        ("not json", "service_policy"),
        (r#"{"mode":"Off"}"#, "a_future_source"),
    ] {
        let newer =
            proto::Service { policy: Some(policy(json, source)), ..service(CART, 2, &["2 b"]) };
        let heard = hear(&mut mirror, Message::Service(newer));
        assert!(heard.refused.as_ref().is_some_and(|why| why.contains(CART)), "{heard:?}");
        let update = changed(&heard);
        assert_eq!(seen(update), ["2 b"], "its endpoints are taken all the same");
        assert_eq!(update.policy.spec().mode, Some(api::policy::Mode::Pinned));
        assert_eq!(update.policy_source.as_str(), "service_policy");
    }
}

#[test]
fn the_pods_own_policy_goes_before_the_services_unless_that_is_fixed() {
    let cart = name("cart");
    let mut mirror = mirror(from_ref(&cart));
    tell(&mut mirror, &cart, service(CART, 1, &["1 a"]));
    let place = proto::Place {
        zone: "b".to_owned(),
        policy: Some(policy(r#"{"mode":"Off"}"#, "client_pod_annotation")),
        ..proto::Place::default()
    };
    let heard = hear(&mut mirror, Message::Place(place.clone()));
    let Some(Change::Place(there, services)) = heard.changes.first() else {
        panic!("a place, not {:?}", heard.changes)
    };
    assert_eq!(there.zone.as_deref(), Some("b"));
    assert_eq!(services[0].policy_source.as_str(), "client_pod_annotation");
    assert!(hear(&mut mirror, Message::Place(place)).changes.is_empty(), "the same again");

    let mut fixed = service(CART, 2, &["1 a"]);
    fixed.policy =
        Some(proto::Policy { fixed: true, ..policy(r#"{"tiers":["node"]}"#, "service_policy") });
    let heard = hear(&mut mirror, Message::Service(fixed));
    assert_eq!(changed(&heard).policy_source.as_str(), "service_policy");

    let heard = hear(&mut mirror, Message::Place(proto::Place::default()));
    let Some(Change::Place(there, _)) = heard.changes.first() else { panic!("a place") };
    assert_eq!(*there, Place::default(), "labels that are gone");
}

#[test]
fn what_the_process_was_told_of_its_place_goes_before_the_controller() {
    let mut mirror = Mirror::new(Place { zone: Some("here".into()), ..Place::default() });
    let place =
        proto::Place { zone: "there".to_owned(), node: "n1".to_owned(), ..proto::Place::default() };
    hear(&mut mirror, Message::Place(place));
    assert_eq!(mirror.place().zone.as_deref(), Some("here"));
    assert_eq!(mirror.place().node.as_deref(), Some("n1"));
}

#[test]
fn services_are_kept_while_a_destination_leads_to_them() {
    let (cart, address, till) = (name("cart"), name("10.96.0.7"), name("till"));
    let mut mirror = mirror(&[cart.clone(), address.clone(), till.clone()]);
    let gone = |changes: &[Change]| {
        let gone = changes.iter().filter_map(|change| match change {
            Change::Gone(id) => Some(id.as_ref().to_owned()),
            _ => None,
        });
        gone.collect::<Vec<_>>()
    };
    // All services come first: the destination of one must not push out the other.
    hear(&mut mirror, Message::Service(service(CART, 1, &["1 a"])));
    hear(&mut mirror, Message::Service(service("shop/till:80", 1, &["1 a"])));
    for (destination, id) in [(&cart, CART), (&address, CART), (&till, "shop/till:80")] {
        assert!(gone(&hear(&mut mirror, resolved(destination, Some(id))).changes).is_empty());
    }
    assert!(gone(&mirror.forget(&cart)).is_empty(), "its address still leads there");
    assert_eq!(gone(&mirror.forget(&address)), [CART]);
    assert_eq!(gone(&hear(&mut mirror, resolved(&till, None)).changes), ["shop/till:80"]);
    assert!(mirror.known().is_empty());
    assert!(hear(&mut mirror, resolved(&cart, None)).changes.is_empty(), "given up meanwhile");
}

#[test]
fn a_new_stream_says_what_is_held_and_keeps_it() {
    let (cart, till) = (name("cart"), name("till"));
    let mut mirror = mirror(&[cart.clone(), till.clone()]);
    tell(&mut mirror, &cart, service(CART, 4, &["1 a"]));
    tell(&mut mirror, &till, service("shop/till:80", 5, &["1 a"]));
    let mut known = mirror.known();
    known.sort_by_key(|known| known.version);
    assert_eq!(known.iter().map(|known| known.version).collect::<Vec<_>>(), [4, 5]);
    // What nobody asks for any more is not kept.
    let changes = mirror.begin(from_ref(&cart));
    assert!(matches!(changes.as_slice(), [Change::Gone(id)] if &**id == "shop/till:80"));
    // Its version still stands, so that only the destination is told.
    let heard = hear(&mut mirror, resolved(&cart, Some(CART)));
    assert!(matches!(heard.changes.as_slice(), [Change::Resolved(_, Target::Service(_))]));
    // A service of which nothing is held is not balanced: its message could not be read.
    let heard = hear(&mut mirror, resolved(&cart, Some("shop/other:80")));
    assert!(matches!(
        heard.changes.as_slice(),
        [Change::Resolved(_, Target::Passthrough(Passthrough::Unanswered)), Change::Gone(_)]
    ));
}

#[test]
fn callers_are_counted_by_zone() {
    let cart = name("cart");
    let mut mirror = mirror(from_ref(&cart));
    tell(&mut mirror, &cart, service(CART, 1, &["1 a"]));
    let zones = [("b".to_owned(), 2), ("a".to_owned(), 5)].into_iter().collect();
    let callers = proto::Callers { service: CART.to_owned(), zones };
    let heard = hear(&mut mirror, Message::Callers(callers));
    assert_eq!(changed(&heard).callers, [("a".into(), 5), ("b".into(), 2)]);
    let heard = hear(&mut mirror, Message::Change(change(1, 2)));
    assert_eq!(changed(&heard).callers.len(), 2, "they stay");
}

#[test]
fn more_services_than_were_asked_for_are_not_kept() {
    let mut mirror = mirror(&[]);
    let (mut kept, mut refused) = (0, 0);
    for number in 0..20_000 {
        let sent = service(&format!("shop/s{number}:80"), 1, &[]);
        let message = proto::FromController { message: Some(Message::Service(sent)) };
        if mirror.hear(message).is_ok() { kept += 1 } else { refused += 1 }
    }
    assert!(kept < 10_000 && refused > 10_000, "{kept} kept, {refused} refused");
}
