//! The topology file of local mode: TOML in, [`World`] out.
//!
//! A file is taken whole or not at all, and all its mistakes are told at once, each with its line and what to do.

mod policy;
pub mod report;
mod table;

use super::{
    EndpointProtocol, EndpointUpdate, ListenerKind, ListenerSpec, Place, ServiceUpdate, World,
};
use api::policy::source::PolicySource;
use report::{Findings, Report, nearest};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use table::Table;
use toml::Spanned;
use toml::de::DeTable;

/// Longest name of a zone, region, node, service or host: what fits into a metric's label without harm.
const NAME_BYTES_MAX: usize = 128;
/// More callers than this in one zone is a typing error.
const CALLERS_MAX: u32 = 1_000_000;

/// Reads a topology.
pub fn parse(text: &str) -> Result<World, Report> {
    let mut found = Findings::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        found.syntax(error.span(), error.message());
    }
    if !errors.is_empty() {
        // What can be seen of a file that is not TOML would only lead astray.
        return Err(found.into_report());
    }
    let world = world(&document, &mut found);
    if found.is_empty() { Ok(world) } else { Err(found.into_report()) }
}

fn world(document: &Spanned<DeTable<'_>>, found: &mut Findings<'_>) -> World {
    let root = Table::root(document, &["proxy", "listener", "service"], found);
    let place = root
        .table("proxy", &["zone", "region", "node"], found)
        .map_or_else(Place::default, |proxy| place(&proxy, found));
    let mut services = Services::default();
    for table in root.tables(
        "service",
        &["name", "hosts", "addresses", "protocol", "callers", "policy", "endpoint"],
        found,
    ) {
        services.add(&table, found);
    }
    let mut listeners = Vec::new();
    let mut addresses = Once::new("listener");
    for table in root.tables("listener", &["address", "service", "redirected"], found) {
        listeners.extend(listener(&table, &services, &mut addresses, found));
    }
    if listeners.is_empty() && found.is_empty() {
        found.add(
            0..0,
            "listener",
            "is missing, so that the proxy would take no calls",
            "add [[listener]] with address = \"127.0.0.1:4240\"",
        );
    }
    World { place, listeners, services: services.updates }
}

fn place(table: &Table<'_, '_>, found: &mut Findings<'_>) -> Place {
    let mut read = |key| table.string(key, found).and_then(|text| name(table, key, &text, found));
    Place { zone: read("zone"), region: read("region"), node: read("node") }
}

fn listener(
    table: &Table<'_, '_>,
    services: &Services,
    addresses: &mut Once<SocketAddr>,
    found: &mut Findings<'_>,
) -> Option<ListenerSpec> {
    let address = address(table, found);
    let service = table.string("service", found);
    if let Some(service) = &service
        && !services.names.0.contains_key(service.get_ref().as_str())
    {
        let known = services.names.0.keys().map(|name| &**name);
        let remedy = nearest(service.get_ref(), known.clone()).map_or_else(
            || format!("name one of the services: {}", list(known.collect())),
            |near| format!("did you mean {near:?}?"),
        );
        found.add(
            service.span(),
            &table.at("service"),
            &format!("no service {:?}", service.get_ref()),
            &remedy,
        );
    }
    let address = address?;
    if address.get_ref().port() != 0 {
        addresses.claim(*address.get_ref(), address.span(), &table.at("address"), found);
    }
    let kind = match (redirected(table, service.is_some(), found), service) {
        (Some(kind), _) => kind,
        (None, Some(service)) => ListenerKind::Service(service.into_inner().into()),
        (None, None) => ListenerKind::Forward,
    };
    Some(ListenerSpec { address: *address.get_ref(), kind })
}

fn redirected(
    table: &Table<'_, '_>,
    has_service: bool,
    found: &mut Findings<'_>,
) -> Option<ListenerKind> {
    let text = table.string("redirected", found)?;
    let (problem, remedy) = match text.get_ref().as_str() {
        "outbound" if !has_service => return Some(ListenerKind::Outbound),
        "gateway" if !has_service => return Some(ListenerKind::Gateway),
        "inbound" if !has_service => return Some(ListenerKind::Inbound),
        "outbound" | "gateway" | "inbound" => (
            "stands beside a service".to_owned(),
            "remove one of the two: redirected connections are found by their address",
        ),
        other => {
            (format!("no direction {other:?}"), "write \"outbound\", \"gateway\" or \"inbound\"")
        }
    };
    found.add(text.span(), &table.at("redirected"), &problem, remedy);
    None
}

/// The services read so far, and what must be unique among them.
#[derive(Default)]
struct Services {
    updates: Vec<ServiceUpdate>,
    names: Once<Arc<str>>,
    hosts: Once<Arc<str>>,
    addresses: Once<SocketAddr>,
}

impl Services {
    fn add(&mut self, table: &Table<'_, '_>, found: &mut Findings<'_>) {
        let name_text = table.required("name", "name = \"web\"", found);
        let service = name_text.as_ref().and_then(|text| name(table, "name", text, found));
        if let (Some(service), Some(text)) = (&service, &name_text) {
            self.names.claim(Arc::clone(service), text.span(), &table.at("name"), found);
            self.hosts.claim(
                service.to_ascii_lowercase().into(),
                text.span(),
                &table.at("name"),
                found,
            );
        }
        let (policy, policy_source) = match table.table_of_any_keys("policy", found) {
            Some(policy) => (policy::read(&policy, found), PolicySource::Topology),
            None => (Arc::default(), PolicySource::BuiltIn),
        };
        let addresses = self.addresses(table, found);
        let update = ServiceUpdate {
            hosts: self.hosts(table, service.as_ref(), found),
            protocol: protocol(table, &addresses, found),
            addresses,
            policy,
            policy_source,
            policy_object: None,
            callers: callers(table, found),
            endpoints: endpoints(table, found),
            name: service.unwrap_or_default(),
        };
        self.updates.push(update);
    }

    fn hosts(
        &mut self,
        table: &Table<'_, '_>,
        service: Option<&Arc<str>>,
        found: &mut Findings<'_>,
    ) -> Vec<Arc<str>> {
        let mut hosts = Vec::new();
        for text in table.strings("hosts", found) {
            let written = text.get_ref().as_str();
            let bare = match written.rsplit_once(':') {
                Some((host, port)) if port.parse::<u16>().is_ok() => host,
                _ => written,
            };
            let bare = Spanned::new(text.span(), bare.to_ascii_lowercase());
            let Some(host) = name(table, "hosts", &bare, found) else { continue };
            if service.is_some_and(|service| service.eq_ignore_ascii_case(&host)) {
                continue; // a service has its own name anyway
            }
            self.hosts.claim(Arc::clone(&host), text.span(), &table.at("hosts"), found);
            hosts.push(host);
        }
        hosts
    }
}

impl Services {
    fn addresses(&mut self, table: &Table<'_, '_>, found: &mut Findings<'_>) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for text in table.strings("addresses", found) {
            let Some(address) = parse_address(table, "addresses", &text, found) else { continue };
            let (span, address) = (address.span(), address.into_inner());
            self.addresses.claim(address, span, &table.at("addresses"), found);
            addresses.push(address);
        }
        addresses
    }
}

/// What is not said is found out where connections come redirected; who names the proxy speaks HTTP.
fn protocol(
    table: &Table<'_, '_>,
    addresses: &[SocketAddr],
    found: &mut Findings<'_>,
) -> EndpointProtocol {
    let Some(text) = table.string("protocol", found) else {
        return if addresses.is_empty() {
            EndpointProtocol::default()
        } else {
            EndpointProtocol::Detect
        };
    };
    match text.get_ref().as_str() {
        "http1" => EndpointProtocol::Http1,
        "http2" => EndpointProtocol::Http2,
        "detect" => EndpointProtocol::Detect,
        "opaque" => EndpointProtocol::Opaque,
        other => {
            found.add(
                text.span(),
                &table.at("protocol"),
                &format!("no protocol {other:?}"),
                "write \"http1\", \"http2\", \"detect\" or \"opaque\"",
            );
            EndpointProtocol::default()
        }
    }
}

fn callers(table: &Table<'_, '_>, found: &mut Findings<'_>) -> Vec<(Arc<str>, u32)> {
    let Some(callers) = table.table_of_any_keys("callers", found) else { return Vec::new() };
    let mut counts = Vec::new();
    for zone in callers.keys() {
        let count = callers.whole(zone.get_ref(), 0..=CALLERS_MAX, found);
        let name = name(&callers, zone.get_ref(), &zone, found);
        counts.extend(name.zip(count));
    }
    counts
}

fn endpoints(table: &Table<'_, '_>, found: &mut Findings<'_>) -> Vec<EndpointUpdate> {
    let mut endpoints = Vec::new();
    let mut addresses = Once::new("endpoint of this service");
    for table in table.tables("endpoint", &["address", "zone", "region", "node"], found) {
        let Place { zone, region, node } = place(&table, found);
        let Some(address) = address(&table, found) else { continue };
        if address.get_ref().port() == 0 {
            found.add(
                address.span(),
                &table.at("address"),
                "port 0 cannot be reached",
                "write the port that the endpoint listens on",
            );
        }
        addresses.claim(*address.get_ref(), address.span(), &table.at("address"), found);
        endpoints.push(EndpointUpdate {
            zone,
            region,
            node,
            ..EndpointUpdate::at(*address.get_ref())
        });
    }
    endpoints
}

fn address(table: &Table<'_, '_>, found: &mut Findings<'_>) -> Option<Spanned<SocketAddr>> {
    let text = table.required("address", "address = \"127.0.0.1:8080\"", found)?;
    parse_address(table, "address", &text, found)
}

fn parse_address(
    table: &Table<'_, '_>,
    key: &str,
    text: &Spanned<String>,
    found: &mut Findings<'_>,
) -> Option<Spanned<SocketAddr>> {
    match text.get_ref().parse() {
        Ok(address) => Some(Spanned::new(text.span(), address)),
        Err(_not_an_address) => {
            let problem = format!("{:?} is no address", text.get_ref());
            found.add(
                text.span(),
                &table.at(key),
                &problem,
                "write IP:port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"",
            );
            None
        }
    }
}

/// A name that may stand in a label and a log line.
fn name(
    table: &Table<'_, '_>,
    key: &str,
    text: &Spanned<String>,
    found: &mut Findings<'_>,
) -> Option<Arc<str>> {
    let value = text.get_ref();
    let problem = if value.is_empty() {
        "is empty".to_owned()
    } else if value.len() > NAME_BYTES_MAX {
        format!("is {} bytes long", value.len())
    } else if value.contains(|c: char| c.is_control() || c.is_whitespace()) {
        format!("{value:?} holds blanks or control characters")
    } else {
        return Some(value.as_str().into());
    };
    found.add(
        text.span(),
        &table.at(key),
        &problem,
        &format!("write 1 to {NAME_BYTES_MAX} bytes without blanks, or leave it out"),
    );
    None
}

/// Values that may occur once, each with where it did.
struct Once<T>(HashMap<T, Range<usize>>, &'static str);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new("service")
    }
}

impl<T> Once<T> {
    fn new(owner: &'static str) -> Self {
        Self(HashMap::new(), owner)
    }
}

impl<T: Eq + std::hash::Hash + std::fmt::Display> Once<T> {
    fn claim(&mut self, value: T, span: Range<usize>, path: &str, found: &mut Findings<'_>) {
        if let Some(first) = self.0.get(&value).filter(|first| **first != span) {
            let problem =
                format!("{value} is taken by the {} in line {}", self.1, found.line(first.start));
            found.add(span, path, &problem, "change or remove one of the two");
            return;
        }
        self.0.insert(value, span);
    }
}

fn list(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    if names.is_empty() { "there are none yet".to_owned() } else { names.join(", ") }
}
