//! Random histories of a cluster, its controllers and the streams between: whatever is lost, cut or garbled on the way, what the
//! proxy knows in the end is what there is. `SEED=n` replays one.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at its first surprise"
)]

use api::discovery as proto;
use api::discovery::from_controller::Message;
use proxy::discovery::controller::mirror::Mirror;
use proxy::discovery::{Change, Destination, Place, Target};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

const HISTORIES: u64 = 60;
const STEPS: u16 = 120;
const SERVICES: [&str; 4] = ["s0", "s1", "s2", "s3"];

type Endpoints = BTreeSet<u16>;

/// What there is: services with the ports of their endpoints.
type World = BTreeMap<&'static str, Endpoints>;

/// What one replica of the controller has told on one stream.
#[derive(Default)]
struct Conversation {
    subscribed: BTreeSet<&'static str>,
    told: HashMap<&'static str, Option<Endpoints>>,
    held: HashMap<&'static str, Endpoints>,
    known: HashMap<String, u64>,
}

fn version(endpoints: &Endpoints) -> u64 {
    let mut hasher = DefaultHasher::new();
    endpoints.hash(&mut hasher);
    hasher.finish().max(1)
}

fn id(service: &str) -> String {
    format!("shop/{service}:80")
}

fn address(port: u16) -> String {
    format!("10.0.0.1:{port}")
}

fn written(endpoints: impl IntoIterator<Item = u16>) -> Vec<proto::Endpoint> {
    let endpoint = |port| proto::Endpoint { address: address(port), ..proto::Endpoint::default() };
    endpoints.into_iter().map(endpoint).collect()
}

impl Conversation {
    /// Everything that is due: services first, then what leads to them.
    fn due(&mut self, world: &World) -> Vec<Message> {
        let mut messages = Vec::new();
        for name in SERVICES.into_iter().filter(|name| self.subscribed.contains(name)) {
            let Some(now) = world.get(name) else { continue };
            let base = self.held.insert(name, now.clone());
            match base {
                None if self.known.remove(&id(name)) == Some(version(now)) => {}
                None => messages.push(Message::Service(proto::Service {
                    id: id(name),
                    version: version(now),
                    endpoints: written(now.iter().copied()),
                    ..proto::Service::default()
                })),
                Some(base) if base == *now => {}
                Some(base) => messages.push(Message::Change(proto::ServiceChange {
                    id: id(name),
                    base: version(&base),
                    version: version(now),
                    upserted: written(now.difference(&base).copied()),
                    removed: base.difference(now).copied().map(address).collect(),
                    service: None,
                })),
            }
        }
        for name in self.subscribed.clone() {
            let target = world.get(name).cloned();
            let before = self.told.insert(name, target.clone());
            if before.is_none_or(|before| before.is_some() != target.is_some()) {
                messages.push(resolved(name, target.is_some()));
            }
        }
        self.held.retain(|name, _| self.subscribed.contains(name) && world.contains_key(name));
        messages
    }

    fn unsubscribe(&mut self, name: &'static str) {
        self.subscribed.remove(name);
        self.told.remove(name);
        self.held.remove(name);
    }
}

fn resolved(name: &str, exists: bool) -> Message {
    use proto::destination::Destination as Written;
    let destination = Some(Written::Name(format!("{name}:80")));
    let destination = Some(proto::Destination { destination });
    let target = if exists {
        proto::resolved::Target::Service(id(name))
    } else {
        proto::resolved::Target::Passthrough(proto::Passthrough::Unknown.into())
    };
    Message::Resolved(proto::Resolved { destination, target: Some(target) })
}

/// A proxy: its mirror, and what its data plane was told.
struct Proxy {
    mirror: Mirror,
    wanted: BTreeSet<&'static str>,
    services: BTreeMap<String, Endpoints>,
    targets: HashMap<String, Target>,
}

impl Proxy {
    fn new() -> Self {
        Self {
            mirror: Mirror::new(Place::default()),
            wanted: BTreeSet::new(),
            services: BTreeMap::new(),
            targets: HashMap::new(),
        }
    }

    fn connect(&mut self) -> Conversation {
        let known = self.mirror.known().into_iter().map(|known| (known.service, known.version));
        let known = known.collect();
        let wanted: Vec<Destination> = self.wanted.iter().map(|name| destination(name)).collect();
        let changes = self.mirror.begin(&wanted);
        self.apply(changes);
        Conversation { subscribed: self.wanted.clone(), known, ..Conversation::default() }
    }

    fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Service(update) => {
                    let ports = update.endpoints.iter().map(|endpoint| endpoint.address.port());
                    self.services.insert(update.name.to_string(), ports.collect());
                }
                Change::Gone(name) => {
                    assert!(self.services.remove(&*name).is_some(), "{name} goes once");
                }
                Change::Resolved(destination, target) => {
                    if let Target::Service(id) = &target {
                        assert!(
                            self.services.contains_key(&**id),
                            "{id} is told before it is used"
                        );
                    }
                    self.targets.insert(destination.to_string(), target);
                }
                Change::Place(..) => {}
            }
        }
    }

    /// Takes what arrives; asks again where it must.
    fn hear(&mut self, messages: Vec<Message>, conversation: &mut Conversation) {
        for message in messages {
            // What cannot be read is not taken, and that is all.
            let Ok(heard) = self.mirror.hear(proto::FromController { message: Some(message) })
            else {
                continue;
            };
            self.apply(heard.changes);
            for again in heard.again {
                let name = SERVICES.into_iter().find(|name| destination(name) == again).unwrap();
                conversation.unsubscribe(name);
                conversation.subscribed.insert(name);
            }
        }
    }

    fn agrees(&self, world: &World) -> Result<(), String> {
        for name in &self.wanted {
            let target = self.targets.get(&format!("{name}:80"));
            let known = match target {
                Some(Target::Service(id)) => self.services.get(&**id),
                _ => None,
            };
            if known != world.get(name) {
                return Err(format!("{name}: {known:?}, not {:?}", world.get(name)));
            }
        }
        let extra =
            self.services.keys().find(|known| !self.wanted.iter().any(|name| id(name) == **known));
        extra.map_or(Ok(()), |extra| Err(format!("{extra} is kept for nobody")))
    }
}

fn destination(name: &str) -> Destination {
    Destination::of_host(name, 80).unwrap()
}

/// One message is lost, or cannot be read.
fn harm(messages: &mut Vec<Message>, random: &mut fastrand::Rng) {
    if messages.is_empty() {
        return;
    }
    let index = random.usize(..messages.len());
    match &mut messages[index] {
        Message::Change(_) if random.bool() => drop(messages.remove(index)),
        Message::Change(change) => change.removed.push("nonsense".to_owned()),
        Message::Service(service) => {
            service.endpoints.push(proto::Endpoint::default());
        }
        _ => {}
    }
}

/// Something happens to a service, or to the interest in it.
fn happen(
    name: &'static str,
    world: &mut World,
    proxy: &mut Proxy,
    conversation: &mut Conversation,
    random: &mut fastrand::Rng,
) {
    match random.u8(..10) {
        0 => drop(world.remove(name)),
        1..=2 if proxy.wanted.remove(name) => {
            let changes = proxy.mirror.forget(&destination(name));
            proxy.apply(changes);
            proxy.targets.remove(&format!("{name}:80"));
            conversation.unsubscribe(name);
        }
        1..=5 if proxy.wanted.insert(name) => {
            proxy.mirror.subscribe(&destination(name));
            conversation.subscribed.insert(name);
        }
        _ => {
            let endpoints = world.entry(name).or_default();
            for _ in 0..random.u8(1..6) {
                let port = random.u16(1..12);
                if !endpoints.remove(&port) {
                    endpoints.insert(port);
                }
            }
        }
    }
}

fn history(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut world, mut proxy) = (World::new(), Proxy::new());
    let mut conversation = proxy.connect();
    for step in 0..STEPS {
        for name in SERVICES {
            if random.bool() {
                happen(name, &mut world, &mut proxy, &mut conversation, &mut random);
            }
        }
        let mut messages = conversation.due(&world);
        match random.u8(..6) {
            // The stream ends in the middle of what is due.
            0 => {
                messages.truncate(random.usize(..=messages.len()));
                proxy.hear(messages, &mut conversation);
                conversation = proxy.connect();
            }
            1..=2 => {
                harm(&mut messages, &mut random);
                proxy.hear(messages, &mut conversation);
                // A change that follows shows what was missed; without one, nobody could know.
                for endpoints in world.values_mut() {
                    endpoints.insert(1000 + step);
                }
            }
            _ => proxy.hear(messages, &mut conversation),
        }
        // What is asked for again comes in the next round, and the one after is quiet.
        for _ in 0..3 {
            let messages = conversation.due(&world);
            proxy.hear(messages, &mut conversation);
        }
        if let Err(difference) = proxy.agrees(&world) {
            panic!("SEED={seed}, step {step}: {difference}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a history is replayed by its seed")]
fn whatever_happens_on_the_way_the_proxy_knows_what_there_is() {
    if let Ok(seed) = std::env::var("SEED") {
        return history(seed.parse().unwrap());
    }
    let first = fastrand::u64(..);
    println!("SEED={first} and the {HISTORIES} from there");
    (0..HISTORIES).for_each(|number| history(first.wrapping_add(number)));
}
