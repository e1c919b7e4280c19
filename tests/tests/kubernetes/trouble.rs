//! The API server is away, forgets, refuses, dawdles or says nothing: what is known stays in force, and nothing has to be started
//! again.

use crate::follow::{until_addresses, who};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::controller::Controller;
use tests::deadline::{Moment, SOON, until};
use tests::kubernetes::gateway::{Gateway, Mode};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Client, Cluster, Programs};
use tests::listener::{Listener, Listeners};
use tests::need;

/// What was missed is caught up with by then.
const RETURN: Duration = Duration::from_secs(10);

/// How long a trouble lasts at least, as the metric says. `OUTAGE=300` is five minutes.
#[expect(clippy::disallowed_methods, reason = "a long run is asked for by the environment")]
fn outage() -> f64 {
    std::env::var("OUTAGE").map_or(5.0, |seconds| seconds.parse().unwrap())
}

/// The cart has the endpoints `from..to` from now on.
fn write(client: &Client, from: u8, to: u8) -> BTreeSet<String> {
    let endpoints: Vec<Endpoint> =
        (from..to).map(|number| Endpoint::new([10, 1, 0, number], "a")).collect();
    client.apply(shop::slice("cart-1", "cart", 8080, &endpoints));
    (from..to).map(|number| format!("10.1.0.{number}:8080")).collect()
}

/// While something is wrong: the controller stays ready and says how old its knowledge is, proxies keep what they know, and new
/// ones are served from it.
fn is_calm(
    controller: &Controller,
    listeners: &Listeners,
    listener: &Listener,
    known: &BTreeSet<String>,
) {
    until("the staleness is told", Duration::from_secs_f64(outage() * 2.0 + 60.0), || {
        let stale = controller.stale_seconds("home");
        if stale >= outage() { Ok(()) } else { Err(stale) }
    });
    assert!(controller.is_ready());
    until_addresses(listener, SOON, known);
    let late = listeners.listen(controller.discovery, &who("late", "node-a"), &["cart:80"]);
    until_addresses(&late, SOON, known);
}

#[test]
fn an_api_server_that_is_away_and_forgets_changes_nothing_and_is_caught_up_with() {
    let mut cluster = Cluster::start(&need!(Programs::find()));
    cluster.shop();
    let other = cluster.add_server();
    let writer = cluster.client_of(other);
    let mut known = write(&writer, 1, 50);
    let controller = Controller::start(&cluster.kubeconfig(Some(&cluster.controller_token())));
    let listeners = Listeners::new();
    let listener = listeners.listen(controller.discovery, &who("till", "node-a"), &["cart:80"]);
    until_addresses(&listener, SOON, &known);
    for round in 1..=2 {
        cluster.kill_server(0);
        let wanted = write(&writer, 10 * round, 60 * round);
        is_calm(&controller, &listeners, &listener, &known);
        // The change that the watch would have to begin from is gone: 410.
        cluster.compact();
        cluster.start_server(0);
        let back = Moment::now();
        until_addresses(&listener, RETURN, &wanted);
        println!("caught up {:?} after the API server was ready", Moment::now().since(back));
        known = wanted;
    }
    until("the staleness ends", RETURN, || {
        let stale = controller.stale_seconds("home");
        if stale < 0.001 { Ok(()) } else { Err(stale) }
    });
    listener.assert_consistent();
}

#[test]
fn an_api_server_in_trouble_changes_nothing_and_is_caught_up_with() {
    let cluster = Cluster::start(&need!(Programs::find()));
    cluster.shop();
    let token = cluster.controller_token();
    let gateway = Gateway::open(Client::new(&cluster.kubeconfig(Some(&token))));
    let mut known = write(cluster.client(), 1, 50);
    let controller = Controller::start(&gateway.kubeconfig());
    let listeners = Listeners::new();
    let listener = listeners.listen(controller.discovery, &who("till", "node-a"), &["cart:80"]);
    until_addresses(&listener, SOON, &known);
    let troubles = [Mode::Refuse(429), Mode::Silent, Mode::Refuse(500), Mode::Refuse(401)];
    for (round, trouble) in (1..).zip(troubles) {
        gateway.behave(trouble);
        let wanted = write(cluster.client(), 10 * round, 50 + 10 * round);
        is_calm(&controller, &listeners, &listener, &known);
        // Nor is a new list there at once.
        gateway.behave(Mode::SlowLists(Duration::from_secs(2)));
        cluster.compact();
        let back = Moment::now();
        until_addresses(&listener, RETURN, &wanted);
        println!("caught up {:?} after {trouble:?}", Moment::now().since(back));
        gateway.behave(Mode::Open);
        until_addresses(&listener, SOON, &wanted);
        known = wanted;
    }
    listener.assert_consistent();
}
