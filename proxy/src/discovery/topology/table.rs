//! Typed access to a TOML table that notes every mistake and goes on.

use super::report::{Findings, nearest};
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What a key should have held.
#[derive(Clone, Copy)]
enum Wanted {
    String,
    Strings,
    Table,
    Tables,
}

/// A table, and where it stands.
pub(super) struct Table<'d, 't> {
    path: String,
    span: Range<usize>,
    entries: &'d DeTable<'t>,
}

impl<'d, 't> Table<'d, 't> {
    pub(super) fn root(
        document: &'d Spanned<DeTable<'t>>,
        known: &[&str],
        found: &mut Findings<'_>,
    ) -> Self {
        let table =
            Self { path: String::new(), span: document.span(), entries: document.get_ref() };
        table.refuse_unknown(known, found);
        table
    }

    /// The path of a key of this table.
    pub(super) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub(super) fn inner(&self) -> &'d DeTable<'t> {
        self.entries
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Spanned<String>> {
        self.entries.keys().map(|key| Spanned::new(key.span(), key.get_ref().clone().into_owned()))
    }

    pub(super) fn string(&self, key: &str, found: &mut Findings<'_>) -> Option<Spanned<String>> {
        let value = self.entries.get(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(key, value, Wanted::String, found);
            return None;
        };
        Some(Spanned::new(value.span(), text.to_owned()))
    }

    /// As [`string`](Self::string), but must be there. `example` is how it is written.
    pub(super) fn required(
        &self,
        key: &str,
        example: &str,
        found: &mut Findings<'_>,
    ) -> Option<Spanned<String>> {
        if !self.entries.contains_key(key) {
            found.add(self.span(), &self.at(key), "is missing", &format!("add {example}"));
        }
        self.string(key, found)
    }

    pub(super) fn strings(&self, key: &str, found: &mut Findings<'_>) -> Vec<Spanned<String>> {
        let Some(value) = self.entries.get(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(key, value, Wanted::Strings, found);
            return Vec::new();
        };
        let mut strings = Vec::new();
        for value in array {
            match value.get_ref().as_str() {
                Some(text) => strings.push(Spanned::new(value.span(), text.to_owned())),
                None => self.wrong_type(key, value, Wanted::Strings, found),
            }
        }
        strings
    }

    pub(super) fn whole(
        &self,
        key: &str,
        range: RangeInclusive<u32>,
        found: &mut Findings<'_>,
    ) -> Option<u32> {
        let value = self.entries.get(key)?;
        let written = value.get_ref().as_integer();
        let number =
            written.and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok());
        if number.is_none_or(|number| !range.contains(&number)) {
            let (start, end) = range.into_inner();
            let problem = written.map_or_else(
                || format!("is {}", kind(value.get_ref())),
                |number| format!("{} is out of range", number.as_str()),
            );
            found.add(
                value.span(),
                &self.at(key),
                &problem,
                &format!("write a whole number from {start} to {end}"),
            );
            return None;
        }
        number
    }

    /// A table inside this one, with the keys that it may have.
    pub(super) fn table(
        &self,
        key: &str,
        known: &[&str],
        found: &mut Findings<'_>,
    ) -> Option<Self> {
        let table = self.table_of_any_keys(key, found)?;
        table.refuse_unknown(known, found);
        Some(table)
    }

    pub(super) fn table_of_any_keys(&self, key: &str, found: &mut Findings<'_>) -> Option<Self> {
        let value = self.entries.get(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, value, Wanted::Table, found);
            return None;
        };
        Some(Self { path: self.at(key), span: value.span(), entries: table })
    }

    /// The tables of a list, with the keys that each may have.
    pub(super) fn tables(&self, key: &str, known: &[&str], found: &mut Findings<'_>) -> Vec<Self> {
        let Some(value) = self.entries.get(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(key, value, Wanted::Tables, found);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, value) in array.iter().enumerate() {
            let Some(table) = value.get_ref().as_table() else {
                self.wrong_type(key, value, Wanted::Tables, found);
                continue;
            };
            let table = Self {
                path: format!("{}[{index}]", self.at(key)),
                span: value.span(),
                entries: table,
            };
            table.refuse_unknown(known, found);
            tables.push(table);
        }
        tables
    }

    fn refuse_unknown(&self, known: &[&str], found: &mut Findings<'_>) {
        for key in self.entries.keys().filter(|key| !known.contains(&&**key.get_ref())) {
            let name: &Cow<'_, str> = key.get_ref();
            let remedy = nearest(name, known.iter().copied()).map_or_else(
                || format!("there are {}", known.join(", ")),
                |near| format!("did you mean {near}?"),
            );
            found.add(key.span(), &self.at(name), "no such key", &remedy);
        }
    }

    fn wrong_type(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        wanted: Wanted,
        found: &mut Findings<'_>,
    ) {
        let (wanted, example) = match wanted {
            Wanted::String => ("a string", format!("{key} = \"...\"")),
            Wanted::Strings => ("a list of strings", format!("{key} = [\"...\"]")),
            Wanted::Table => ("one table", format!("[{}]", self.header(key))),
            Wanted::Tables => ("a list of tables", format!("[[{}]]", self.header(key))),
        };
        let problem = format!("is {}, not {wanted}", kind(value.get_ref()));
        found.add(value.span(), &self.at(key), &problem, &format!("write {example}"));
    }

    /// The path of a key as it stands in a table header: without positions.
    fn header(&self, key: &str) -> String {
        let path = self.at(key);
        path.split('.')
            .map(|part| part.split('[').next().unwrap_or(part))
            .collect::<Vec<_>>()
            .join(".")
    }
}

/// The type of a value, with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
