//! The injector with a real API server, installed as the chart installs it: the rights, the webhook's selectors and its failure
//! policy are the chart's own. Only the address differs, since there are no nodes on which pods could run.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise"
)]

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use tests::chart::{self, NAMESPACE};
use tests::deadline::{SOON, until};
use tests::folder::Folder;
use tests::kubernetes::{Cluster, Programs};
use tests::metrics::Scrape;
use tests::process::Process;
use tests::programs::{self, chart_tool};
use tests::{http, need, ports};

/// A cluster with the chart in it, and how users talk to it.
struct World {
    cluster: Cluster,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    folder: Folder,
    webhook: SocketAddr,
}

/// A replica of the injector.
struct Injector {
    _process: Process,
    admin: SocketAddr,
}

/// Namespaces whose pods must never depend on the injector, with the labels that tempt it.
const OTHERS: [(&str, bool); 4] =
    [("kube-system", true), (NAMESPACE, true), ("unlabelled", false), ("kube-public", true)];

impl World {
    fn new(programs: &Programs, kubectl: PathBuf) -> Self {
        let cluster = Cluster::start(programs);
        let folder = Folder::new();
        let kubeconfig = folder.write("kubeconfig", &cluster.kubeconfig(None));
        let world = Self { cluster, kubectl, kubeconfig, folder, webhook: ports::free() };
        let (enabled, none) = (json!({ "tidegate.io/inject": "enabled" }), json!({}));
        for (name, tempts) in OTHERS {
            world.namespace(name, if tempts { &enabled } else { &none });
        }
        for (name, level) in [("shop", ""), ("base", "baseline"), ("strict", "restricted")] {
            let mut labels = enabled.clone();
            if !level.is_empty() {
                labels["pod-security.kubernetes.io/enforce"] = json!(level);
            }
            world.namespace(name, &labels);
        }
        world
    }

    fn namespace(&self, name: &str, labels: &Value) {
        self.cluster.namespace(name);
        self.cluster.client().apply(json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": labels } }));
    }

    /// Applies what the chart has for the injector but for its pods, with the webhook at its own address.
    fn install(&self, failure_policy: &str) {
        let set = ["--set", &format!("webhook.failurePolicy={failure_policy}")];
        let text = chart::rendered(None, &set);
        let kinds = [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Secret",
        ];
        for mut object in chart::objects(&text) {
            let kind = object["kind"].as_str().unwrap();
            if kind == "MutatingWebhookConfiguration" {
                let url = format!("https://{}/inject", self.webhook);
                object["webhooks"][0]["clientConfig"] = json!({ "url": url });
            } else if !kinds.contains(&kind) || object["metadata"]["name"] == "tidegate-controller"
            {
                continue;
            }
            self.cluster.client().apply(object);
        }
    }

    /// Starts a replica with the rights of the chart's account. The first listens where the webhook leads.
    fn injector(&self, number: u32, arguments: &[&str]) -> Injector {
        let token = self.cluster.account_token(NAMESPACE, "tidegate-injector");
        let kubeconfig = format!("injector-{number}");
        let kubeconfig = self.folder.write(&kubeconfig, &self.cluster.kubeconfig(Some(&token)));
        let (listen, admin) =
            (if number == 0 { self.webhook } else { ports::free() }, ports::free());
        let mut command = Command::new(programs::injector());
        command
            .args(["serve", "--namespace", NAMESPACE, "--certificate-names=127.0.0.1"])
            .args(["--listen", &listen.to_string(), "--admin", &admin.to_string()])
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig);
        let process = Process::start(&format!("injector-{number}"), &command, self.folder.path());
        until("the injector is ready", SOON, || match http::get(admin, "/ready") {
            Ok((200, _)) => Ok(()),
            _ => Err(process.log()),
        });
        Injector { _process: process, admin }
    }

    fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        // Its cache of what the server knows would outlive the server.
        command.env("HOME", self.folder.path()).output().unwrap()
    }

    /// Creates a pod as users do; the pod, and what kubectl says on standard error.
    fn create(&self, pod: &Value) -> Result<(Value, String), String> {
        let file = self.folder.write("pod.json", &pod.to_string());
        let output = self.kubectl(&["create", "-o", "json", "-f", file.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(said);
        }
        Ok((serde_json::from_slice(&output.stdout).unwrap(), said))
    }

    /// In namespaces that are not the mesh's, pods come as they were asked for.
    fn check_others(&self, name: &str) {
        for (namespace, _) in OTHERS {
            let (made, said) = self.create(&pod(namespace, name, &json!({}))).unwrap();
            assert_eq!(added(&made), [""; 0], "{namespace}");
            assert_eq!(said, "", "{namespace}");
        }
    }
}

impl Injector {
    /// How many certificates it has served.
    fn served(&self) -> f64 {
        let (_, text) = http::get(self.admin, "/metrics").unwrap();
        let metrics = Scrape::parse(&text);
        metrics
            .select("tidegate_injector_certificates_served_total", &[])
            .map(|line| line.value)
            .sum()
    }
}

/// A pod that the strictest namespace takes.
fn pod(namespace: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "annotations": annotations },
        "spec": {
            "securityContext": { "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{ "name": "web", "image": "web:1",
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } } }],
        },
    })
}

/// The names of a pod's init containers.
fn added(pod: &Value) -> Vec<&str> {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    containers.map(|container| container["name"].as_str().unwrap()).collect()
}

fn secret(world: &World, key: &str) -> String {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/tidegate-certificate");
    world.cluster.client().get(&path).unwrap()["data"][key].to_string()
}

fn events(world: &World, pod: &str) -> Vec<String> {
    let events = world.cluster.client().get("/api/v1/namespaces/shop/events").unwrap();
    let events = events["items"].as_array().unwrap().iter();
    let about = events.filter(|event| event["involvedObject"]["name"] == pod);
    about.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn pods_get_the_proxy_and_none_is_refused_because_of_us() {
    let programs = need!(Programs::find());
    let kubectl = need!(chart_tool("kubectl"));
    need!(chart_tool("helm"));
    let world = World::new(&programs, kubectl);
    world.install("Fail");
    let _injector = world.injector(0, &[]);

    let misspelt = json!({ "tidegate.io/log-levle": "debug" });
    let (made, said) = world.create(&pod("shop", "web", &misspelt)).unwrap();
    assert_eq!(added(&made), ["tidegate-redirect", "tidegate-proxy"]);
    assert!(said.contains("Warning: tidegate: no such annotation: tidegate.io/log-levle; did you mean tidegate.io/log-level?"), "{said}");

    for (namespace, level) in [("base", "baseline"), ("strict", "restricted")] {
        let (made, said) = world.create(&pod(namespace, "web", &json!({}))).unwrap();
        assert_eq!(added(&made), [""; 0], "{namespace}");
        assert!(said.contains(&format!("Pod Security {level} refuses NET_ADMIN")), "{said}");
        let without_rules = json!({ "tidegate.io/redirect": "none" });
        let (made, said) = world.create(&pod(namespace, "proxied", &without_rules)).unwrap();
        assert_eq!((added(&made), said.as_str()), (vec!["tidegate-proxy"], ""), "{namespace}");
        let variables = made["spec"]["containers"][0]["env"].to_string();
        assert!(variables.contains("HTTP_PROXY"), "{variables}");
    }
    world.check_others("beside");
}

#[test]
fn without_the_injector_other_namespaces_are_unaffected_and_bare_pods_are_told_later() {
    let programs = need!(Programs::find());
    let kubectl = need!(chart_tool("kubectl"));
    need!(chart_tool("helm"));
    let world = World::new(&programs, kubectl);
    // It runs, and then it is gone: the authorities are known, and nobody answers.
    world.install("Ignore");
    drop(world.injector(0, &[]));
    world.check_others("ignored");
    let (made, _) = world.create(&pod("shop", "bare", &json!({}))).unwrap();
    assert_eq!(added(&made), [""; 0], "failurePolicy Ignore lets it start");

    world.install("Fail");
    until("the API server has heard of the other policy", SOON, || {
        let refused = world.create(&pod("shop", "refused", &json!({})));
        let Err(said) = &refused else {
            world.kubectl(&["-n", "shop", "delete", "pod", "refused", "--now", "--wait=false"]);
            return Err(format!("{refused:?}"));
        };
        if said.contains("pods.tidegate.io") { Ok(()) } else { Err(said.clone()) }
    });
    world.check_others("failing");

    let _injector = world.injector(0, &[]);
    until("the owner of the bare pod is told", SOON, || {
        let told = events(&world, "bare");
        if told == ["ProxyMissing"] { Ok(()) } else { Err(told) }
    });
}

#[test]
fn no_pod_fails_while_certificates_are_renewed() {
    let programs = need!(Programs::find());
    let kubectl = need!(chart_tool("kubectl"));
    need!(chart_tool("helm"));
    let world = World::new(&programs, kubectl);
    world.install("Fail");
    let injector = world.injector(0, &[]);
    let client = world.cluster.client();
    let mut asked = 0_u32;
    let mut ask = || {
        asked += 1;
        let path = "/api/v1/namespaces/shop/pods?dryRun=All";
        let made = client.create(path, &pod("shop", &format!("web-{asked}"), &json!({})));
        assert_eq!(added(&made.unwrap()), ["tidegate-redirect", "tidegate-proxy"], "pod {asked}");
    };
    ask();
    // Replicas that want a longer life: what is held is due to them at once. A new authority is told first and signs next.
    let wishes = [
        ("--authority-life=40years", "ca.key", false),
        ("--certificate-life=400d", "tls.crt", true),
        ("--authority-life=160years", "ca.key", false),
        ("--certificate-life=1600d", "tls.crt", true),
    ];
    for (number, (wish, key, served_anew)) in (1..).zip(wishes) {
        let (before, served) = (secret(&world, key), injector.served());
        let _other = world.injector(number, &[wish]);
        until("the wish is fulfilled, and served by the first replica too", SOON, || {
            ask();
            let served_too = !served_anew || injector.served() > served;
            if served_too && secret(&world, key) != before { Ok(()) } else { Err(wish) }
        });
    }
    assert!(injector.served() >= 3.0, "{}", injector.served());
    println!("{asked} pods were asked for, none was refused");
}

#[test]
fn all_that_is_rendered_is_taken_by_the_api_server() {
    let programs = need!(Programs::find());
    let kubectl = need!(chart_tool("kubectl"));
    need!(chart_tool("helm"));
    let world = World::new(&programs, kubectl);
    world.cluster.namespace("tidegate-demo");
    let ha = chart::project("charts/tidegate/values-ha.yaml");
    let policy = ["--set", "meshPolicy.mode=Adaptive,meshPolicy.percent=0"];
    let texts = [
        ("default", chart::rendered(None, &[])),
        ("high availability", chart::rendered(Some(&ha), &policy)),
        ("demo", chart::demo()),
    ];
    for (name, text) in texts {
        let count = chart::objects(&text).len();
        let file = world.folder.write("rendered.yaml", &text);
        let file = file.to_str().unwrap();
        let output = world.kubectl(&[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            file,
        ]);
        let (done, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {said}");
        assert_eq!(
            done.lines().filter(|line| line.contains("(server dry run)")).count(),
            count,
            "{name}: {done}"
        );
        assert!(!said.contains("Warning"), "{name}: {said}");
    }
}
