//! `docs/controller.md` is made from the code, and is held against it here (`kit::page`).

#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::fmt::Write as _;

#[test]
fn the_page_says_what_the_code_says() {
    kit::page::hold("controller.md", &page()).unwrap();
}

const HEAD: &str = "\
# The controller

<!-- Made from the code by controller/tests/docs.rs; change it there. -->

`tidegate-controller` watches a cluster and tells proxies the endpoints, zones and policies of the services that they call. Replicas share
nothing: each tells the same, a proxy goes on at any of them, and while all are away proxies go on with what they know. The chart's Service leads
a proxy to a replica of its own zone (`trafficDistribution`, from Kubernetes 1.31 on); it stays there until that one fails, and where it does
not answer, the proxy tries the addresses of all others in turn (`tidegate-controller-replicas`).

While the API server is away, refuses or forgets, what is known stays in force, `/ready` stays, and `tidegate_discovery_stale_seconds` rises; what was
missed is caught up with within 10 s of its return.

## What becomes of a Service

| Service | its calls |
|---|---|
| with a cluster address, or headless and called by name | balanced, for each TCP port |
| `ExternalName`, or unknown | passed on to where they were going; a policy for it gets the condition `Overridden` |
| `sessionAffinity: ClientIP` | passed on, since Kubernetes keeps it; an event on the Service says so, and a policy for it gets `Overridden` |
| `internalTrafficPolicy: Local` | balanced within the node, whatever a policy says; a policy for it gets the condition `Overridden` |
| without a selector, with EndpointSlices made by hand | balanced |
| imported (`ServiceImport` of the multi-cluster services API) | balanced over the clusters that export it |

Endpoints are those of all its EndpointSlices, each address once: the ready ones, or where none is, those that terminate and still serve.
Without `zone` in the slice it is that of the node (`topology.kubernetes.io/zone`), also when the label comes later. Topology hints are not
followed: they know nothing of load. A pod with addresses of both families is one endpoint, in the Service's first family.

## What authors of objects are told

A LocalityPolicy has conditions for each target in its status: `Accepted` (or why not: `Conflicted`, `TargetNotFound`, `Invalid`, `Overridden`)
and `ZoneUnknown`. Settings that are not followed are events on their object: `kubectl events -n shop --types=Warning`.

## Other clusters

Pod addresses must be reachable from here. In the other cluster, bind the list `remote` of
[controller-rules.yaml](../charts/tidegate/files/controller-rules.yaml) to an account, and put a kubeconfig with its token into a Secret in the controller's namespace here:

```console
$ kubectl -n tidegate create secret generic east --from-file=kubeconfig=east.yaml
$ kubectl -n tidegate label secret east tidegate.io/remote-cluster=east
```

What is exported there (`ServiceExport`) adds its endpoints, with their own zones, to the Service of the same namespace and name here. Zones are compared by
`topology.k8s.aws/zone-id` where nodes have it. While the other API server is away, its last known endpoints stay in use, and requests themselves show
which of them answer. When the Secret goes, the cluster is forgotten.

## The view over HTTP

`GET /v1/endpoints` lists all services and endpoints as JSON; `GET /v1/endpoints/ZONE` as callers in a zone should use them: `priority` is the
tier, and the guards of the policy apply. A zone without endpoints gets everything. Answers have an `ETag`
(`If-None-Match` is answered by 304), `Last-Modified` and `X-Count`, the number of services.

";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Metrics\n\n| name | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, labels, meaning) in controller::metrics::GAUGES {
        writeln!(page, "| `{name}` | gauge | {labels} | {meaning} |").unwrap();
    }
    page.push_str("\n## Flags\n\n| flag | variable | default | what it is |\n|---|---|---|---|\n");
    for argument in controller::cli::command().get_arguments() {
        let Some(flag) = argument.get_long() else { continue };
        let Some(about) = argument.get_help() else { continue };
        let variable = argument
            .get_env()
            .map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
        let default = argument
            .get_default_values()
            .first()
            .map_or_else(String::new, |value| format!("`{}`", value.to_string_lossy()));
        writeln!(page, "| `--{flag}` | {variable} | {default} | {about} |").unwrap();
    }
    page
}
