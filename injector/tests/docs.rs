//! `docs/injection.md` is made from the code, and is held against it here (`kit::page`).

#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::fmt::Write as _;

#[test]
fn the_page_says_what_the_code_says() {
    kit::page::hold("injection.md", &page()).unwrap();
}

const HEAD: &str = "\
# Adding the proxy to pods

<!-- Made from the code by injector/tests/docs.rs; change it there. -->

A pod gets two init containers before its own: `tidegate-redirect` sets the redirection rules and ends, `tidegate-proxy` is a
native sidecar (Kubernetes 1.29 or later): it is up before the application's first container and goes on until after its last, so
Jobs end as they did. The proxy passes Pod Security `restricted`; only `tidegate-redirect` is root, with `NET_ADMIN` and `NET_RAW`.

Labels and annotations are in [configuration.md](configuration.md#labels-and-annotations).

## Two ways to it

* **In a cluster**: `tidegate-injector serve` is an admission webhook; the Helm chart installs it ([install.md](install.md)). It
  is asked about the pods of namespaces labelled `tidegate.io/inject=enabled`.
* **In a manifest**: `tidegate-injector inject -f FILE` adds the proxy to every workload: pods, what makes pods, streams of documents and
  lists, in YAML or JSON. It prints the manifest; what it did goes to standard error. Documents that do not change keep their text.

Doing it twice changes nothing.

## Pods that are left as they are

| pod | why |
|---|---|
| label `tidegate.io/inject: disabled` | it says so |
| `hostNetwork: true` | the rules would change the node's traffic |
| Windows | the proxy runs on Linux |
| has the proxy of Linkerd, Istio, Kuma, Consul or Open Service Mesh | two proxies would take each other's traffic |
| in a namespace with Pod Security `baseline` or `restricted` | it would be refused for `NET_ADMIN`; with `tidegate.io/redirect: none` it gets the proxy without rules |
| listens on 4240, 4243 or 4291 | the proxy does too |
| in `kube-system`, `kube-public`, `kube-node-lease`, or the mesh's own namespace | the cluster, and the mesh, must come up without the mesh |

## How one learns of it

The webhook never refuses a pod. What it leaves alone, and mistakes in annotations, are warnings of the call that makes the pod: seen
when a pod is applied, but not when a Deployment's controller makes it. So pods without the proxy, in namespaces that ask for
it, get an event: `ProxyNotAdded` with the reason, or `ProxyMissing` when a restart would give it to them (older than the label, or made
while the injector was away). `kubectl events -n shop --types=Warning` shows both.

## When the injector does not answer

`failurePolicy` of the webhook decides: `Ignore` (the chart's default) lets pods start without the proxy, `Fail` keeps them from
starting. A review that cannot be decided (an unreadable pod, an API server that does not answer about the namespace) is such a failure too.
Reviews have at most 4 MiB and are answered within 4 s; the API server waits 5 s.

## Probes of the kubelet

`httpGet` and `grpc` probes pass the proxy, which answers nothing for the application and does not count them. A `tcpSocket` probe
only looks whether somebody accepts, and the proxy would: so its port is added to the ports whose calls are not redirected
(`tidegate.io/skip-inbound-ports`). What else calls that port is then not counted by this pod's proxy; its callers' proxies
balance and count it as before.

## The certificate

By default the injector makes its own: an authority of ten years and a certificate of 90 days in one Secret that all replicas
share. Both are renewed when a third of their life is left, served without a restart, and told to the API server (`caBundle`) first.
The old authority stays in the bundle until it expires. Proxies get the authorities when their pod is made: restart the
workloads within three years after an authority was renewed. Instead, `--certificate-file` takes one that cert-manager or somebody
else keeps; it is read again every ten seconds.

";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Metrics of `tidegate-injector serve`\n\n| name | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, kind, labels, meaning) in injector::metrics::METRICS {
        writeln!(page, "| `{name}` | {kind} | {labels} | {meaning} |").unwrap();
    }
    for name in ["serve", "inject"] {
        writeln!(page, "\n## Flags of `tidegate-injector {name}`\n").unwrap();
        flags(&mut page, injector::cli::command().find_subcommand(name).unwrap());
    }
    page
}

fn flags(page: &mut String, command: &clap::Command) {
    page.push_str("| flag | variable | default | what it is |\n|---|---|---|---|\n");
    for argument in command.get_arguments().filter(|argument| argument.get_id() != "help") {
        let flag = argument.get_long().unwrap();
        let variable = argument
            .get_env()
            .map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
        let default = argument
            .get_default_values()
            .first()
            .map_or_else(String::new, |value| format!("`{}`", value.to_string_lossy()));
        let about = argument.get_help().unwrap();
        writeln!(page, "| `--{flag}` | {variable} | {default} | {about} |").unwrap();
    }
}
