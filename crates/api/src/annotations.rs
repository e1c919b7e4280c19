//! All keys under `tidegate.io/` that users write, in one list: what is documented and what is suggested for a misspelt key are
//! the same.

use crate::names::{annotation, label};

/// Where a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A label of a Namespace or pod.
    Label,
    /// An annotation that the injector reads on a pod.
    Pod,
    /// An annotation that the controller reads on a Service, a Namespace or a client pod.
    Policy,
    /// Written by Tidegate itself.
    Written,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key itself.
    pub name: &'static str,
    /// Where it is written.
    pub place: Place,
    /// What its value may be.
    pub value: &'static str,
    /// What it does, in one sentence, with what holds without it.
    pub about: &'static str,
}

const PORTS: &str = "ports and ranges: `25,8000-8010`";
const SUBNETS: &str = "subnets or addresses: `10.1.0.0/16,fd00::/8`";
const QUANTITY: &str = "a quantity: `100m`, `64Mi`";

/// All of them, as documented.
pub const KEYS: [Key; 19] = [
    Key {
        name: label::INJECT,
        place: Place::Label,
        value: "`enabled` on a Namespace; `disabled` or `ingress` on a pod",
        about: "Adds the proxy to the pods of a Namespace; leaves one pod alone; marks a gateway, whose calls are routed by `Host`.",
    },
    Key {
        name: annotation::REDIRECT,
        place: Place::Pod,
        value: "`none`",
        about: "Adds the proxy without redirection rules and points `HTTP_PROXY` to it. Works where Pod Security refuses the rules. Otherwise all TCP is redirected.",
    },
    Key {
        name: annotation::PROXY_IMAGE,
        place: Place::Pod,
        value: "an image",
        about: "Image of the proxy in this pod. Otherwise the one of the installation.",
    },
    Key {
        name: annotation::LOG_LEVEL,
        place: Place::Pod,
        value: "`error`, `warn`, `info`, `debug`, `trace`, or pairs such as `info,proxy=debug`",
        about: "Which log lines of the proxy appear. Otherwise those of the installation.",
    },
    Key {
        name: annotation::CPU_REQUEST,
        place: Place::Pod,
        value: QUANTITY,
        about: "CPU that the proxy asks for.",
    },
    Key {
        name: annotation::CPU_LIMIT,
        place: Place::Pod,
        value: QUANTITY,
        about: "CPU that the proxy may use. Otherwise none, or 1 if every container of the pod has a limit (a quota may ask for it).",
    },
    Key {
        name: annotation::MEMORY_REQUEST,
        place: Place::Pod,
        value: QUANTITY,
        about: "Memory that the proxy asks for.",
    },
    Key {
        name: annotation::MEMORY_LIMIT,
        place: Place::Pod,
        value: QUANTITY,
        about: "Memory that the proxy may use.",
    },
    Key {
        name: annotation::OPAQUE_PORTS,
        place: Place::Pod,
        value: PORTS,
        about: "Destination ports whose bytes are not looked at: protocols in which the server speaks first.",
    },
    Key {
        name: annotation::SKIP_OUTBOUND_PORTS,
        place: Place::Pod,
        value: PORTS,
        about: "Destination ports that the application reaches past the proxy.",
    },
    Key {
        name: annotation::SKIP_OUTBOUND_SUBNETS,
        place: Place::Pod,
        value: SUBNETS,
        about: "Destinations that the application reaches past the proxy.",
    },
    Key {
        name: annotation::SKIP_INBOUND_PORTS,
        place: Place::Pod,
        value: PORTS,
        about: "Ports of the application that callers reach past the proxy.",
    },
    Key {
        name: annotation::SKIP_INBOUND_SUBNETS,
        place: Place::Pod,
        value: SUBNETS,
        about: "Callers that reach the application past the proxy.",
    },
    Key {
        name: annotation::ZONE,
        place: Place::Pod,
        value: "a zone",
        about: "Zone of the pod. Otherwise its node's.",
    },
    Key {
        name: annotation::REGION,
        place: Place::Pod,
        value: "a region",
        about: "Region of the pod. Otherwise its node's.",
    },
    Key {
        name: annotation::LOCALITY_MODE,
        place: Place::Policy,
        value: "`Adaptive`, `Proportional`, `Pinned` or `Off`",
        about: "Mode of the locality policy.",
    },
    Key {
        name: annotation::LOAD_BAND,
        place: Place::Policy,
        value: "`1.2,1.5` or `outstanding:0.8,2.0`",
        about: "Load at which calls leave the zone and come back.",
    },
    Key {
        name: annotation::HAZL_LOAD_BAND,
        place: Place::Policy,
        value: "`0.8,2.0`",
        about: "The same as `tidegate.io/load-band` with `outstanding:`.",
    },
    Key {
        name: annotation::INJECTED,
        place: Place::Written,
        value: "a version",
        about: "Version of the injector that added the proxy.",
    },
];

/// The keys as a table.
pub fn markdown() -> String {
    let place = |place| match place {
        Place::Label => "label",
        Place::Pod => "annotation of a pod",
        Place::Policy => "annotation of a Service, Namespace or client pod",
        Place::Written => "annotation, written by the injector",
    };
    let head = "| key | where | value | what it does |\n| --- | --- | --- | --- |\n".to_owned();
    KEYS.iter().fold(head, |table, Key { name, place: at, value, about }| {
        table + &format!("| `{name}` | {} | {value} | {about} |\n", place(*at))
    })
}
