//! One event, written once whatever the number of replicas.

use crate::clock;
use crate::index::finding::{Finding, Kind, Regarding};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Who reports.
const CONTROLLER: &str = "tidegate.io/controller";
/// The API server's limit of an event's text.
const NOTE_MAX: usize = 1024;
/// Names may have 253 characters; the digest takes 17.
const NAME_MAX: usize = 230;

/// Writes the event of a finding; one that is there already is well.
pub(super) async fn write(client: &Client, finding: &Finding) -> kube::Result<()> {
    let event = event(finding);
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    match events.create(&PostParams::default(), &event).await {
        // There already, or its namespace is ending or gone: nobody is left to be told.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {
            if status.code == 403 {
                tracing::debug!(%status, "an event was refused");
            }
            Ok(())
        }
        result => result.map(|_| ()),
    }
}

fn event(finding: &Finding) -> Event {
    let mut hasher = DefaultHasher::new();
    finding.hash(&mut hasher);
    let Regarding { kind, key, uid } = &finding.regarding;
    let name: String = key.name.chars().take(NAME_MAX).collect();
    // As everywhere in Kubernetes, events on what has no namespace are kept in `default`.
    let namespace = if key.namespace.is_empty() { "default" } else { &*key.namespace };
    let mut note = finding.note.clone();
    while note.len() > NOTE_MAX {
        note.pop();
    }
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:016x}", hasher.finish())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some("Follow".to_owned()),
        event_time: Some(MicroTime(clock::now())),
        note: Some(note),
        reason: Some(finding.reason.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(api_version(*kind)),
            kind: Some(kind_name(*kind).to_owned()),
            name: Some(key.name.to_string()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.to_string()),
            uid: (!uid.is_empty()).then(|| uid.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some("tidegate-controller".to_owned()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

fn api_version(kind: Kind) -> String {
    match kind {
        Kind::LocalityPolicy => format!("{}/{}", api::names::GROUP, api::names::VERSION),
        Kind::Namespace | Kind::Pod | Kind::Service => "v1".to_owned(),
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::LocalityPolicy => "LocalityPolicy",
        Kind::Namespace => "Namespace",
        Kind::Pod => "Pod",
        Kind::Service => "Service",
    }
}

#[cfg(test)]
mod tests {
    use super::event;
    use crate::index::finding::{Finding, Kind, Regarding};
    use crate::index::key::Key;

    #[test]
    fn the_same_finding_is_the_same_event_and_fits() {
        let key = Key::new("shop", &"c".repeat(253));
        let regarding = Regarding { kind: Kind::Service, key, uid: "u".to_owned() };
        let finding = Finding { regarding, reason: "InvalidAnnotation", note: "é".repeat(2000) };
        let first = event(&finding);
        assert_eq!(first.metadata.name, event(&finding).metadata.name);
        assert!(first.metadata.name.unwrap().len() <= 253);
        assert!(first.note.unwrap().len() <= 1024);
        let other = Finding { note: "another".to_owned(), ..finding.clone() };
        assert_ne!(event(&other).metadata.name, event(&finding).metadata.name);
    }

    #[test]
    fn events_on_namespaces_are_kept_in_default() {
        let regarding =
            Regarding { kind: Kind::Namespace, key: Key::new("", "shop"), uid: String::new() };
        let event = event(&Finding { regarding, reason: "InvalidAnnotation", note: String::new() });
        assert_eq!(event.metadata.namespace.unwrap(), "default");
        assert_eq!(event.regarding.unwrap().namespace, None);
    }
}
