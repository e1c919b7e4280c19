//! A real cluster's heart on loopback: etcd and kube-apiserver, without nodes and without controllers.
//!
//! Nobody fills EndpointSlices or schedules pods there: tests write Services, EndpointSlices, Nodes and Pods by hand.

pub mod access;
mod client;
pub mod fleet;
pub mod gateway;
pub mod shop;

use crate::deadline::until;
use crate::folder::Folder;
use crate::process::Process;
use crate::{certificate, ports, programs};
pub use client::{Client, Refusal};
use programs::Missing;
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Some seconds on an idle machine.
const START: Duration = Duration::from_mins(3);
/// The administrator's token.
const ADMIN: &str = "administrator";

/// The programs of a cluster.
#[derive(Clone, Debug)]
pub struct Programs {
    etcd: PathBuf,
    api_server: PathBuf,
}

impl Programs {
    /// Finds them.
    pub fn find() -> Result<Self, Missing> {
        Ok(Self { etcd: programs::tool("etcd")?, api_server: programs::api_server()? })
    }
}

/// A running cluster: one etcd, and one API server on it or more.
#[derive(Debug)]
pub struct Cluster {
    // Ends in this order.
    servers: Vec<ApiServer>,
    _etcd: Process,
    etcd_url: String,
    programs: Programs,
    certificate: String,
    client: Client,
    folder: Folder,
}

/// One API server. All of a cluster tell the same.
#[derive(Debug)]
struct ApiServer {
    address: SocketAddr,
    process: Option<Process>,
}

impl Cluster {
    /// Starts a cluster with the definition of the custom resource, and waits until it is ready.
    pub fn start(programs: &Programs) -> Self {
        let folder = Folder::new();
        let certificate = write_secrets(&folder);
        let (client_url, peer_url) =
            (format!("http://{}", ports::free()), format!("http://{}", ports::free()));
        let mut command = Command::new(&programs.etcd);
        command
            .arg("--data-dir")
            .arg(folder.path().join("etcd"))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")]);
        let etcd = Process::start("etcd", &command, folder.path());
        let address = ports::free();
        let mut cluster = Self {
            servers: vec![ApiServer { address, process: None }],
            _etcd: etcd,
            etcd_url: client_url,
            programs: programs.clone(),
            client: Client::new(&kubeconfig(address, &certificate, ADMIN)),
            certificate,
            folder,
        };
        cluster.start_server(0);
        cluster.define_policies();
        cluster
    }

    /// Talks to the first API server as an administrator.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// A kubeconfig for the first API server, as an administrator or by another token.
    pub fn kubeconfig(&self, token: Option<&str>) -> String {
        self.kubeconfig_of(0, token)
    }

    /// The same, for another API server.
    pub fn kubeconfig_of(&self, server: usize, token: Option<&str>) -> String {
        kubeconfig(self.servers[server].address, &self.certificate, token.unwrap_or(ADMIN))
    }

    /// Starts one more API server on the same etcd; its number.
    pub fn add_server(&mut self) -> usize {
        let number = self.servers.len();
        self.servers.push(ApiServer { address: ports::free(), process: None });
        self.start_server(number);
        number
    }

    /// A client of one API server.
    pub fn client_of(&self, server: usize) -> Client {
        Client::new(&self.kubeconfig_of(server, None))
    }

    /// Lets etcd forget the past: whoever watched from there must list again.
    pub fn compact(&self) {
        let address = self.etcd_url.strip_prefix("http://").unwrap().parse().unwrap();
        let range = etcd(address, "range", &json!({"key": client::base64(b"none")}));
        let revision = &range["header"]["revision"];
        etcd(address, "compaction", &json!({"revision": revision, "physical": true}));
    }

    /// Ends an API server as a crash does.
    pub fn kill_server(&mut self, server: usize) {
        drop(self.servers[server].process.take());
    }

    /// Starts an API server at the address that it had.
    pub fn start_server(&mut self, server: usize) {
        let address = self.servers[server].address;
        let command = self.server_command(address);
        let name = format!("kube-apiserver-{server}");
        let mut process = Process::start(&name, &command, self.folder.path());
        let client = self.client_of(server);
        until("the API server is ready", START, || {
            if let Some(status) = process.check_running() {
                panic!("the API server ended ({status}): {}", process.log());
            }
            client.text("/readyz")
        });
        self.servers[server].process = Some(process);
    }

    fn server_command(&self, address: SocketAddr) -> Command {
        let file = |name: &str| self.folder.path().join(name);
        let mut command = Command::new(&self.programs.api_server);
        command
            .args(["--etcd-servers", &self.etcd_url])
            .args(["--bind-address", &address.ip().to_string()])
            .args(["--secure-port", &address.port().to_string()])
            // What pods see of it does not matter here: there are none.
            .args(["--advertise-address", "192.0.2.1", "--endpoint-reconciler-type", "none"])
            .arg("--tls-cert-file")
            .arg(file("server.crt"))
            .arg("--tls-private-key-file")
            .arg(file("server.key"))
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .arg("--service-account-key-file")
            .arg(file("accounts.pub"))
            .arg("--service-account-signing-key-file")
            .arg(file("accounts.key"))
            .args(["--service-cluster-ip-range", "10.96.0.0/16"])
            .args(["--authorization-mode", "Node,RBAC"])
            .args(["--enable-admission-plugins", "NodeRestriction"])
            .args(["--allow-privileged", "--shutdown-delay-duration", "0s"])
            .arg("--token-auth-file")
            .arg(file("tokens.csv"));
        command
    }

    /// Applies what the chart installs before anything else, and waits until it is served.
    fn define_policies(&self) {
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tidegate/crds/localitypolicies.yaml");
        let definition = std::fs::read_to_string(file).unwrap();
        self.client.apply_yaml(&definition);
        until("the API server serves LocalityPolicies", START, || {
            self.client.get("/apis/tidegate.io/v1alpha1/localitypolicies").map(|_| ())
        });
    }

    /// Makes a namespace, and the service account that pods there run as.
    pub fn namespace(&self, name: &str) {
        self.client
            .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        self.client.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": name, "name": "default"}}));
    }

    /// Makes a node in a zone and region; an empty one is left out.
    pub fn node(&self, name: &str, zone: &str, region: &str) {
        let mut labels = serde_json::Map::new();
        let known = [("zone", zone), ("region", region)];
        for (key, value) in known.into_iter().filter(|(_, value)| !value.is_empty()) {
            labels.insert(format!("topology.kubernetes.io/{key}"), json!(value));
        }
        self.client.apply(json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels}}));
    }

    /// A token of a pod's service account, as the kubelet would mount it there.
    pub fn pod_token(&self, namespace: &str, pod: &str, audience: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let uid = self.client.get(&path).unwrap()["metadata"]["uid"].clone();
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "audiences": [audience], "expirationSeconds": 3600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}}});
        self.token(namespace, "default", &request)
    }

    /// A token of a service account for the API server itself.
    pub fn account_token(&self, namespace: &str, account: &str) -> String {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}});
        self.token(namespace, account, &request)
    }

    fn token(&self, namespace: &str, account: &str, request: &Value) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.client.create(&path, request).unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }
}

/// One request to etcd's gateway for JSON.
fn etcd(address: SocketAddr, what: &str, body: &Value) -> Value {
    let body = body.to_string();
    let request = format!(
        "POST /v3/kv/{what} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = crate::http::send(address, request.as_bytes()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// Writes keys and tokens; the server's certificate.
fn write_secrets(folder: &Folder) -> String {
    let certificate = certificate::write(folder, "server");
    let accounts = KeyPair::generate().unwrap();
    folder.write("accounts.key", &accounts.serialize_pem());
    folder.write("accounts.pub", &accounts.public_key_pem());
    folder.write("tokens.csv", &format!("{ADMIN},admin,admin,\"system:masters\"\n"));
    certificate
}

/// A kubeconfig for a server that asks nobody who he is, and does not encrypt.
pub fn plain_kubeconfig(address: SocketAddr) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
    .to_string()
}

fn kubeconfig(address: SocketAddr, certificate: &str, token: &str) -> String {
    let certificate = client::base64(certificate.as_bytes());
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster":
            {"server": format!("https://{address}"), "certificate-authority-data": certificate}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
    .to_string()
}
