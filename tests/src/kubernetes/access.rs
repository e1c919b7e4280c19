//! The controller's account, which may do what the chart lets it and nothing else.

use super::Cluster;
use serde_json::{Value, json};

/// The chart's lists of rules.
const RULES: &str = "/../charts/tidegate/files/controller-rules.yaml";
/// Where the controller runs.
const NAMESPACE: &str = "tidegate";

/// A list of rules by its name in the chart.
pub fn rules(of: &str) -> Vec<Value> {
    let file = format!("{}{RULES}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).unwrap();
    let lists: Value = serde_saphyr::from_str(&text).unwrap();
    lists[of].as_array().unwrap().clone()
}

impl Cluster {
    /// A token of the controller's account in its own cluster.
    pub fn controller_token(&self) -> String {
        self.account("controller");
        self.grant("controller", "ClusterRole", &rules("cluster"));
        self.grant("controller", "Role", &rules("namespace"));
        self.account_token(NAMESPACE, "controller")
    }

    /// A token of the account with which the controller of another cluster reads this one.
    pub fn remote_token(&self) -> String {
        self.account("neighbor");
        self.grant("neighbor", "ClusterRole", &rules("remote"));
        self.account_token(NAMESPACE, "neighbor")
    }

    fn account(&self, name: &str) {
        self.namespace(NAMESPACE);
        self.client().apply(json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": NAMESPACE, "name": name}}));
    }

    fn grant(&self, account: &str, kind: &str, rules: &[Value]) {
        let mut metadata = json!({"name": account});
        if kind == "Role" {
            metadata["namespace"] = json!(NAMESPACE);
        }
        let version = "rbac.authorization.k8s.io/v1";
        self.client().apply(
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
        );
        self.client().apply(
            json!({"apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account}]}),
        );
    }
}
