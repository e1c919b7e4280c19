//! Several clusters that offer Services to each other.

use super::client::base64;
use super::shop::NAMESPACE;
use super::{Client, Cluster};
use serde_json::{Value, json};

/// A resource of the multi-cluster services API, as its definition allows anything.
fn definition(kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.multicluster.x-k8s.io"),
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/tree/master/keps/sig-multicluster/1645-multi-cluster-services-api"},
        },
        "spec": {
            "group": "multicluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

impl Cluster {
    /// Has the kinds of the multi-cluster services API from now on.
    pub fn define_multicluster(&self) {
        self.client().apply(definition("ServiceExport", "serviceexports"));
        self.client().apply(definition("ServiceImport", "serviceimports"));
        crate::deadline::until("the kinds are served", crate::deadline::SOON, || {
            let root = "/apis/multicluster.x-k8s.io/v1alpha1";
            self.client().get(&format!("{root}/serviceexports"))?;
            self.client().get(&format!("{root}/serviceimports"))
        });
    }

    /// Leads the controller of this cluster to another one, which a kubeconfig describes.
    pub fn join(&self, name: &str, kubeconfig: &str) {
        self.client().apply(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "tidegate", "name": name, "labels": {"tidegate.io/remote-cluster": name}},
            "data": {"kubeconfig": base64(kubeconfig.as_bytes())}}));
    }

    /// Forgets another cluster.
    pub fn leave(&self, name: &str) {
        self.client().delete(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "tidegate", "name": name}}));
    }
}

impl Client {
    /// Offers a Service of the shop to the other clusters.
    pub fn export(&self, service: &str) {
        self.apply(json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
            "metadata": {"namespace": NAMESPACE, "name": service}}));
    }
}
