//! `tidegate-injector inject`: adds the proxy to the workloads of a manifest.
//!
//! Documents that do not change keep their text, comments and all; a changed one is written anew.

use crate::decide::Verdict;
use crate::inject::{self, Injection};
use crate::pod::Namespace;
use crate::settings::Settings;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A manifest with the proxy in it.
#[derive(Debug, Default)]
pub struct Injected {
    /// The manifest.
    pub manifest: String,
    /// What was done, a line for each workload and each warning.
    pub notes: Vec<String>,
}

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A document is no YAML.
    #[error("line {line}: {error}")]
    Yaml {
        /// Where the document begins.
        line: usize,
        /// What the parser says.
        error: String,
    },
    /// An object cannot hold the proxy.
    #[error("{object}: {error}")]
    Object {
        /// Which one.
        object: String,
        /// What is wrong with it.
        error: String,
    },
}

/// Adds the proxy to every workload of a manifest: YAML or JSON, one document or many, lists or single objects.
pub fn inject_manifest(manifest: &str, settings: &Settings) -> Result<Injected, Unreadable> {
    let mut documents = Vec::new();
    for document in split(manifest) {
        let value: Value = serde_saphyr::from_str_with_options(document.text, reading())
            .map_err(|error| Unreadable::Yaml { line: document.line, error: error.to_string() })?;
        documents.push((document, value));
    }
    let mut namespaces = BTreeMap::new();
    for (_, value) in &documents {
        each(value, &mut |object| collect_namespace(object, settings, &mut namespaces));
    }
    let mut injected = Injected::default();
    for (document, mut value) in documents {
        let before = value.clone();
        let mut work = Work { settings, namespaces: &namespaces, notes: &mut injected.notes };
        work.object(&mut value)?;
        injected.manifest.push_str(document.head);
        if value == before {
            injected.manifest.push_str(document.text);
            continue;
        }
        let text = serde_saphyr::to_string(&value)
            .map_err(|error| Unreadable::Yaml { line: document.line, error: error.to_string() })?;
        injected.manifest.push_str(&text);
    }
    Ok(injected)
}

/// `n` is a name here and not `false`; a mode such as `0644` is octal, as it is to kubectl.
fn reading() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true, legacy_octal_numbers: true }
}

struct Document<'a> {
    /// The `---` line before it, if any.
    head: &'a str,
    text: &'a str,
    line: usize,
}

/// Splits a stream at its `---` lines. A document may follow on such a line (`--- {}`), rarely enough to be read as its text.
fn split(stream: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut head, mut start, mut offset, mut first_line) = ("", 0, 0, 1);
    for (number, line) in stream.split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" {
            let text = stream.get(start..offset).unwrap_or_default();
            if !head.is_empty() || !text.trim().is_empty() {
                documents.push(Document { head, text, line: first_line });
            }
            (head, start, first_line) = (line, offset + line.len(), number + 2);
        }
        offset += line.len();
    }
    let text = stream.get(start..).unwrap_or_default();
    documents.push(Document { head, text, line: first_line });
    documents
}

/// Every object of a document: itself, or the items of a list.
fn each(value: &Value, visit: &mut impl FnMut(&Value)) {
    match items(value) {
        Some(items) => items.iter().for_each(|item| each(item, visit)),
        None => visit(value),
    }
}

fn items(value: &Value) -> Option<&Vec<Value>> {
    let list = value.get("kind")?.as_str()?.ends_with("List");
    value.get("items")?.as_array().filter(|_| list)
}

fn collect_namespace(object: &Value, settings: &Settings, into: &mut BTreeMap<String, Namespace>) {
    if object.get("kind").and_then(Value::as_str) != Some("Namespace") {
        return;
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let labels = object.pointer("/metadata/labels").cloned().unwrap_or_default();
    let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap_or_default();
    into.insert(name.to_owned(), Namespace::new(name, &labels, settings.pod_security_default));
}

struct Work<'a> {
    settings: &'a Settings,
    namespaces: &'a BTreeMap<String, Namespace>,
    notes: &'a mut Vec<String>,
}

impl Work<'_> {
    fn object(&mut self, value: &mut Value) -> Result<(), Unreadable> {
        if items(value).is_some() {
            let items = value.get_mut("items").and_then(Value::as_array_mut);
            return items.into_iter().flatten().try_for_each(|item| self.object(item));
        }
        let text =
            |pointer| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, namespace) =
            (text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
        let Some(template) = template_of(&kind, value) else { return Ok(()) };
        let slash = if namespace.is_empty() { "" } else { "/" };
        let object = format!("{kind} {namespace}{slash}{name}");
        if namespace == "kube-system" {
            self.notes.push(format!("{object}: left as it is: kube-system never gets the proxy"));
            return Ok(());
        }
        let otherwise =
            Namespace::new(&namespace, &BTreeMap::new(), self.settings.pod_security_default);
        let namespace = self.namespaces.get(&namespace).unwrap_or(&otherwise);
        let notes = pod(template, namespace, self.settings)
            .map_err(|error| Unreadable::Object { object: object.clone(), error })?;
        self.notes.extend(notes.into_iter().map(|note| format!("{object}: {note}")));
        Ok(())
    }
}

/// The pod of a workload.
fn template_of<'a>(kind: &str, value: &'a mut Value) -> Option<&'a mut Value> {
    match kind {
        "Pod" => Some(value),
        "PodTemplate" => value.pointer_mut("/template"),
        "DaemonSet"
        | "Deployment"
        | "Job"
        | "ReplicaSet"
        | "ReplicationController"
        | "StatefulSet" => value.pointer_mut("/spec/template"),
        "CronJob" => value.pointer_mut("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// Changes a pod, and says what was done.
fn pod(
    template: &mut Value,
    namespace: &Namespace,
    settings: &Settings,
) -> Result<Vec<String>, String> {
    let Injection { decision, patch } =
        inject::inject(template, namespace, settings).map_err(|error| error.to_string())?;
    let done = match &decision.verdict {
        Verdict::Skip(skip) => format!("left as it is: {skip}"),
        Verdict::Inject(_) => "proxy added".to_owned(),
    };
    if let Some(patch) = patch {
        // The template of a workload may do without metadata, which a pod may not.
        if let Some(template) = template.as_object_mut() {
            let metadata = template.entry("metadata").or_insert(Value::Null);
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
        }
        json_patch::patch(template, &patch).map_err(|error| error.to_string())?;
    }
    let warnings = decision.warnings.iter().map(|warning| format!("warning: {warning}"));
    Ok([done].into_iter().chain(warnings).collect())
}
