//! `docs/configuration.md`.

use crate::{check, table};
use api::policy::Policy;
use api::policy::annotations;
use api::policy::fields::FIELDS;
use kit::admin::Readiness;
use kit::metrics::{Build, Metrics};
use proxy::admin::Shown;
use proxy::cli;
use proxy::clock::Clock;
use proxy::discovery::topology;
use proxy::registry::Registry;
use serde_json::Value;
use std::sync::Arc;

/// Every annotation that sets a policy, with an example that must be understood, and what it says.
const ANNOTATIONS: &[(&str, &str, &str)] = &[
    ("tidegate.io/locality-mode", "Pinned", "`mode` of the policy"),
    ("tidegate.io/load-band", "1.2,1.5", "`load` of the policy, normalized: low, high"),
    (
        "tidegate.io/load-band",
        "outstanding:0.8,2.0",
        "`load` of the policy, outstanding requests per endpoint: low, high",
    ),
    ("balancer.buoyant.io/load-band", "0.8,2.0", "the same, as HAZL writes it"),
    (
        "zalando.org/traffic-zone-aware",
        "false",
        "`mode: Off`, as Skipper writes it; `true` says nothing",
    ),
    (
        "service.kubernetes.io/topology-mode",
        "Auto",
        "`mode: Proportional`, as older Kubernetes writes it; `Disabled` says nothing",
    ),
];

const EXAMPLE: &str = r#"[proxy]
zone = "a"            # this proxy's zone; without it, all zones are treated alike
region = "r1"         # optional: remote endpoints of the own region are preferred to others
node = "n1"           # optional: for the tier `node`

[[listener]]
address = "127.0.0.1:4240"         # forward listener: the service is found by Host or :authority

[[listener]]
address = "127.0.0.1:8081"
service = "web"                    # everything that arrives here goes to this service

[[listener]]
address = "127.0.0.1:4241"
redirected = "outbound"            # the application's calls, brought here by `tidegate-proxy redirect`

[[listener]]
address = "0.0.0.0:4243"
redirected = "inbound"             # calls to the application, brought here by the same

[[service]]
name = "web"
hosts = ["web.shop", "web.shop.svc.cluster.local"]   # further names for the forward listener; a port is ignored
addresses = ["10.96.0.10:80"]      # what callers dial to reach it; redirected connections are found by them
protocol = "http1"                 # what the endpoints speak: http1, http2, detect or opaque, see below
callers = { a = 3, b = 3, c = 3 }  # calling proxies per zone, for mode Proportional

[service.policy]                   # see below; all of it optional
mode = "Adaptive"
tiers = ["zone", "any"]

[[service.endpoint]]
address = "127.0.0.1:9001"
zone = "a"                         # without it, the endpoint belongs to the tier `any`
region = "r1"
node = "n1"

[[service.endpoint]]
address = "127.0.0.1:9002"
zone = "b"
"#;

/// What becomes of a connection.
const PROTOCOLS: &str = "\
### What endpoints speak, and what becomes of other bytes

| `protocol` | requests are sent in | other connections |
| --- | --- | --- |
| `http1`, the default | HTTP/1.1 | balanced as they are |
| `http2` | HTTP/2 | balanced as they are |
| `detect`, the default where a service has `addresses` | the caller's version | balanced as they are |
| `opaque` | | all are balanced as they are, without a look at their bytes |

A connection that is not HTTP (TLS, a database, anything) is balanced as a whole by the service's zone rules; load has no say, the
least busy of two candidates gets it. If no connection comes about, another endpoint is tried. That it came about is a success;
that its endpoint resets it before it sent a byte, or stops answering, turns this into a failure. Half-close and resets pass in
both directions; where one end is done and the other silent for a minute, it is closed. A drain waits for it.

With `detect`, a caller that is silent for 30 ms makes the proxy connect to an endpoint: what the endpoint says first ends the
detection. Where both stay silent it takes one second, and the connection is not HTTP. Ports of `--opaque-ports` are not looked
into. `http1` and `http2` wait for the caller.

`Upgrade` (WebSocket) passes where both sides speak HTTP/1.1; what follows is counted as a connection. `CONNECT` is refused with
405 and `tidegate-reason: connect_refused`: redirected connections need none.

### Redirected connections

`outbound`: a connection goes to the service that has its original destination among `addresses`; any other goes straight, byte
for byte. Who dials the listener itself, from the same machine, is served as by a forward listener; others are refused. Where a
connection that carries requests loses its service, its next request goes to the original destination too. A forward listener has
none, and refuses what it does not know (503, `unknown_service`).

`gateway` (`--ingress` where a controller says what there is): for a proxy that dials pods by itself. Where the dialled address is no
service's, each request goes to the service that its `Host` names, and where that is none, to the pod that was dialled.

`inbound`: a connection goes on to the port and address that its caller dialled, and is counted from the server's side
(`direction=\"inbound\"`; probes of the kubelet are not). Connections that nobody redirected, that are for the proxy's own ports, for
loopback or for an address of another machine are refused.

IPv4 and IPv6 need a listener each: `127.0.0.1` and `[::1]` for `outbound`, `0.0.0.0` and `[::]` for `inbound`. Without IPv6 on the
machine, its listeners are left out.
";

#[test]
fn the_page_of_configuration_is_what_the_code_does() {
    let mut command = cli::command();
    command.build();
    let why = command.find_subcommand("why").expect("the subcommand");
    let redirect = command.find_subcommand("redirect").expect("the subcommand");
    let page = format!(
        "# Configuration\n\n\
         <!-- Made from the code by proxy/tests/docs: edit there. -->\n\n\
         Nothing here has to be set for Tidegate to work: the defaults need no tuning.\n\n\
         ## `tidegate-proxy`: flags and variables\n\n\
         Every flag is an environment variable too; a flag goes before its variable. Durations are written `250ms`, `1s`, `2m 30s`.\n\n\
         {}\n\
         Exit status: 0 after a drain, 1 when something failed, 2 when a flag, a variable or the topology is wrong.\n\n\
         ## `tidegate-proxy why SERVICE`\n\n\
         Asks the running proxy where it sends the requests for a service, and explains the answer.\n\n\
         {}\n\
         ## `tidegate-proxy redirect`\n\n\
         Sets the kernel's rules (iptables, table nat) that bring all TCP of a network namespace to the outbound and inbound ports,\n\
         but for the proxy's own, loopback, the admin port and the skip lists. IPv4 and IPv6, or none and the reason; doing it twice\n\
         changes nothing. Needs root with NET_ADMIN and NET_RAW. Exit status: 0 when the rules are in force (after `--undo`: gone),\n\
         1 when not.\n\n\
         {}\n\
         ## Admin server\n\n\
         {}\n\
         Pages are opened by IP address or as `localhost`, not by another name, so that no web page can reach them (DNS rebinding).\n\
         Commands (POST) are taken from the same machine only.\n\n\
         ## Topology file\n\n\
         Local mode: TOML, read at start and again whenever it changes, edited in place or replaced. A change takes effect within a\n\
         second, without restart (but for `[[listener]]`). A file with mistakes is refused whole: every mistake is told with its line and\n\
         what to do, the last good file stays in force, and `tidegate_discovery_errors_total` counts it.\n\n\
         ```toml\n{EXAMPLE}```\n\n\
         {PROTOCOLS}\n\
         ## Locality policy\n\n\
         `[service.policy]` in the topology file and `spec` of a `LocalityPolicy` resource have the same fields. Mistakes are told all\n\
         at once. The policy in force, where it came from, and what it leads to are shown by `tidegate-proxy why` and `/debug/services`.\n\n\
         {}\n\
         ## Labels and annotations\n\n\
         What users write on Kubernetes objects. A value that cannot be read, and a key under `tidegate.io/` that does not exist, are told\n\
         by a warning or an event and otherwise ignored.\n\n\
         {}\n\
         ## Short forms on Kubernetes\n\n\
         As annotations of a Service, a Namespace or a calling pod. What they do not say stays built in; a value that means nothing\n\
         counts as absent and is reported.\n\n\
         {}\n\
         A Service's `spec.trafficDistribution` is understood too: `PreferSameZone` and `PreferClose` are the default policy,\n\
         `PreferSameNode` has the tiers `[node, zone, any]`.\n\n\
         The most specific policy wins whole, nothing is merged: annotation of the calling pod, `LocalityPolicy` for the Service,\n\
         annotation of the Service, `LocalityPolicy` of the namespace, annotation of the namespace, `trafficDistribution`, mesh default\n\
         (a `LocalityPolicy` without targets in the controller's namespace), built in.\n",
        flags(&command),
        flags(why),
        flags(redirect),
        pages(),
        fields(),
        api::annotations::markdown(),
        table(
            ["annotation", "example", "sets"],
            ANNOTATIONS.iter().map(|(key, example, sets)| [
                format!("`{key}`"),
                format!("`{example}`"),
                (*sets).to_owned()
            ])
        ),
    );
    check("configuration.md", &page);
}

#[test]
fn the_example_of_a_topology_is_valid() {
    let world = topology::parse(EXAMPLE).expect("valid");
    assert_eq!((world.listeners.len(), world.services.len()), (4, 1));
}

#[test]
fn the_examples_of_annotations_are_understood() {
    for (key, example, _) in ANNOTATIONS {
        let found = annotations::policy([(*key, *example)]);
        assert!(found.policy.is_some() && found.mistakes.is_empty(), "{key}: {example}");
    }
}

fn pages() -> String {
    let (metrics, _recorder) = Metrics::local(Build { program: "proxy", version: "1" });
    let registry = Arc::new(Registry::new(Clock::start()));
    let shown = Shown { registry, status: None };
    let admin = proxy::admin::server(shown, &Readiness::waiting(""), metrics);
    table(
        ["request", "answer"],
        admin.pages().map(|(method, path, about)| [format!("`{method} {path}`"), about.to_owned()]),
    )
}

fn flags(command: &clap::Command) -> String {
    let arguments = command
        .get_arguments()
        .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"));
    let code = |text: String| if text.is_empty() { text } else { format!("`{text}`") };
    table(
        ["flag", "variable", "default", "meaning"],
        arguments.map(|argument| {
            let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
            let value = value
                .and_then(|names| names.first())
                .map_or_else(String::new, |name| format!(" {name}"));
            let flag = argument
                .get_long()
                .map_or_else(|| value.trim().to_owned(), |long| format!("--{long}{value}"));
            let variable = argument.get_env().map(|name| name.to_string_lossy().into_owned());
            let default = argument
                .get_default_values()
                .first()
                .filter(|_| argument.get_action().takes_values());
            let default = default.map(|value| value.to_string_lossy().into_owned());
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            [
                code(flag),
                code(variable.unwrap_or_default()),
                code(default.unwrap_or_default()),
                help,
            ]
        }),
    )
}

fn fields() -> String {
    let written = serde_json::to_value(Policy::default()).expect("serialisable");
    let default = |path: &str| {
        let found = path.split('.').try_fold(&written, |value, key| value.get(key));
        match found {
            None => "none".to_owned(),
            Some(Value::String(text)) => format!("`{text}`"),
            Some(Value::Array(items)) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                format!("`[{}]`", items.join(", "))
            }
            Some(other) => format!("`{other}`"),
        }
    };
    table(
        ["field", "values", "default", "meaning"],
        FIELDS.iter().map(|field| {
            [
                format!("`{}`", field.path),
                field.values.to_owned(),
                default(field.path),
                field.meaning.to_owned(),
            ]
        }),
    )
}
