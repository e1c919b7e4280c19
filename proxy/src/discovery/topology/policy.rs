//! The policy of a service. Its fields are those of `api::policy`, which knows nothing of TOML: here each is read on its own,
//! so that every wrong one is found, and found mistakes get their line.

use super::report::{Findings, nearest};
use super::table::{Table, kind};
use api::policy::Policy;
use api::policy::fields::FIELDS;
use api::policy::spec::PolicySpec;
use serde::Deserialize as _;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// The policy that the table holds. With mistakes, whatever can be read of it.
pub(super) fn read(table: &Table<'_, '_>, found: &mut Findings<'_>) -> Arc<Policy> {
    let mut leaves = Vec::new();
    collect(table.inner(), &[], &mut leaves);
    let mut good = DeTable::new();
    for leaf in &leaves {
        match leaf.alone() {
            Ok(()) => insert(&mut good, &leaf.keys, leaf.value.clone()),
            Err(message) => leaf.explain(&message, table, found),
        }
    }
    let spec = PolicySpec::deserialize(ValueDeserializer::from(Spanned::new(
        table.span(),
        DeValue::Table(good),
    )));
    let spec = spec.unwrap_or_else(|error| {
        found.add(table.span(), &table.at(""), error.message(), "mend the policy");
        PolicySpec::default()
    });
    let policy = Policy::parse(&spec).unwrap_or_else(|mistakes| {
        for mistake in mistakes {
            let span = span_of(&mistake.path, &leaves).unwrap_or_else(|| table.span());
            found.add(span, &table.at(&mistake.path), &mistake.problem, &mistake.remedy);
        }
        Policy::default()
    });
    Arc::new(policy)
}

type Key<'t> = Spanned<Cow<'t, str>>;

/// One value with the keys that lead to it.
struct Leaf<'d, 't> {
    keys: Vec<&'d Key<'t>>,
    value: &'d Spanned<DeValue<'t>>,
}

fn collect<'d, 't>(table: &'d DeTable<'t>, above: &[&'d Key<'t>], into: &mut Vec<Leaf<'d, 't>>) {
    for (key, value) in table {
        let mut keys = above.to_vec();
        keys.push(key);
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() => collect(inner, &keys, into),
            _ => into.push(Leaf { keys, value }),
        }
    }
}

fn insert<'t>(table: &mut DeTable<'t>, keys: &[&Key<'t>], value: Spanned<DeValue<'t>>) {
    match keys {
        [] => {}
        [key] => {
            table.insert((*key).clone(), value);
        }
        [key, rest @ ..] => {
            let inner = table
                .entry((*key).clone())
                .or_insert_with(|| Spanned::new(key.span(), DeValue::Table(DeTable::new())));
            if let DeValue::Table(inner) = inner.get_mut() {
                insert(inner, rest, value);
            }
        }
    }
}

impl Leaf<'_, '_> {
    fn path(&self) -> String {
        self.keys.iter().map(|key| key.get_ref().as_ref()).collect::<Vec<_>>().join(".")
    }

    /// Whether a policy of this value alone can be read.
    fn alone(&self) -> Result<(), String> {
        let mut table = DeTable::new();
        insert(&mut table, &self.keys, self.value.clone());
        let table = Spanned::new(self.value.span(), DeValue::Table(table));
        PolicySpec::deserialize(ValueDeserializer::from(table))
            .map(drop)
            .map_err(|error| error.message().to_owned())
    }

    /// Notes why not, in words for people.
    fn explain(&self, message: &str, table: &Table<'_, '_>, found: &mut Findings<'_>) {
        let path = self.path();
        if let Some(field) = FIELDS.iter().find(|field| field.path == path) {
            let written = found.written(self.value.span());
            let problem = if message.starts_with("unknown variant") {
                format!("{written} is not known")
            } else {
                format!("{written} does not fit")
            };
            let words = field.values.split('`').skip(1).step_by(2);
            let near = self.value.get_ref().as_str().and_then(|text| nearest(text, words));
            let remedy = near.map_or_else(
                || format!("write {}", field.values.replace('`', "")),
                |near| format!("did you mean {near}?"),
            );
            return found.add(self.value.span(), &table.at(&path), &problem, &remedy);
        }
        let prefix = format!("{path}.");
        let inside: Vec<&str> =
            FIELDS.iter().filter_map(|field| field.path.strip_prefix(&prefix)).collect();
        if !inside.is_empty() {
            let problem = format!("is {}, not a table", kind(self.value.get_ref()));
            let remedy = format!("write a table with some of {}", inside.join(", "));
            return found.add(self.value.span(), &table.at(&path), &problem, &remedy);
        }
        self.unknown_key(table, found);
    }

    /// The first key on the way that no field has.
    fn unknown_key(&self, table: &Table<'_, '_>, found: &mut Findings<'_>) {
        let mut above = String::new();
        for key in &self.keys {
            let path = format!("{above}{}", key.get_ref());
            let prefix = format!("{path}.");
            if FIELDS.iter().any(|field| field.path == path || field.path.starts_with(&prefix)) {
                above = prefix;
                continue;
            }
            let mut known: Vec<&str> = FIELDS
                .iter()
                .filter_map(|field| field.path.strip_prefix(above.as_str())?.split('.').next())
                .collect();
            known.dedup();
            let remedy = nearest(key.get_ref(), known.iter().copied()).map_or_else(
                || {
                    if known.is_empty() {
                        "remove it: a single value stands here".to_owned()
                    } else {
                        format!("there are {}", known.join(", "))
                    }
                },
                |near| format!("did you mean {near}?"),
            );
            return found.add(key.span(), &table.at(&path), "no such key", &remedy);
        }
    }
}

/// Where a field stands, or what of it there is.
fn span_of(path: &str, leaves: &[Leaf<'_, '_>]) -> Option<Range<usize>> {
    let exact = leaves.iter().find(|leaf| leaf.path() == path);
    let within = || {
        let (block, _) = path.rsplit_once('.')?;
        leaves.iter().find(|leaf| leaf.path().starts_with(block))
    };
    exact.or_else(within).map(|leaf| leaf.value.span())
}
