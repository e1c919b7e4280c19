//! ready, serving, terminating: all 27 combinations, alone and beside a ready endpoint.

use super::build::{endpoint, shop};
use serde_json::{Value, json};

const STATES: [Option<bool>; 3] = [Some(true), Some(false), None];

fn with(ready: Option<bool>, serving: Option<bool>, terminating: Option<bool>) -> Value {
    let mut value = endpoint("10.0.0.1", "a");
    value["conditions"] = json!({ "ready": ready, "serving": serving, "terminating": terminating });
    value
}

#[test]
fn ready_decides_and_draining_endpoints_are_the_last_resort() {
    let mut seen = 0;
    for ready in STATES {
        for serving in STATES {
            for terminating in STATES {
                seen += 1;
                let case =
                    format!("ready {ready:?}, serving {serving:?}, terminating {terminating:?}");
                let is_ready = ready != Some(false);
                let drains = !is_ready && serving != Some(false) && terminating == Some(true);
                let alone = match (is_ready, drains) {
                    (true, _) => vec!["10.0.0.1:8080 a//node-a"],
                    (false, true) => vec!["10.0.0.1:8080 a//node-a draining"],
                    (false, false) => vec![],
                };
                let mut world = shop();
                world.slice("one", &[with(ready, serving, terminating)]);
                assert_eq!(world.endpoints(), alone, "{case}");

                world.slice("two", &[endpoint("10.0.0.2", "b")]);
                let mut beside = vec!["10.0.0.2:8080 b//node-b"];
                if is_ready {
                    beside.insert(0, "10.0.0.1:8080 a//node-a");
                }
                assert_eq!(world.endpoints(), beside, "{case}, beside a ready one");
            }
        }
    }
    assert_eq!(seen, 27);
}

#[test]
fn endpoints_without_conditions_are_ready() {
    let mut world = shop();
    world.slice("one", &[endpoint("10.0.0.1", "a")]);
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 a//node-a"]);
}
