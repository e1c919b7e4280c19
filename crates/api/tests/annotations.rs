//! Policies written as annotations, our own and those of other meshes, and which policy wins.

use api::policy::annotations::{Annotated, internal_traffic_local, policy, traffic_distribution};
use api::policy::source::{PolicySource, most_specific};
use api::policy::{LoadBand, Mode, Policy, Tier};

const MODE: &str = "tidegate.io/locality-mode";
const BAND: &str = "tidegate.io/load-band";
const HAZL: &str = "balancer.buoyant.io/load-band";
const ZALANDO: &str = "zalando.org/traffic-zone-aware";
const TOPOLOGY: &str = "service.kubernetes.io/topology-mode";

/// Annotations of one object, and what they set.
type Case = (&'static [(&'static str, &'static str)], Option<(Mode, LoadBand)>);

#[test]
fn annotations_set_mode_and_band_and_leave_the_rest_built_in() {
    let built_in = Policy::default().load;
    let normalized = |low, high| LoadBand::Normalized { low, high };
    let outstanding = |low, high| LoadBand::Outstanding { low, high };
    let cases: &[Case] = &[
        (&[], None),
        (&[("prometheus.io/scrape", "true")], None),
        (&[(MODE, "Pinned")], Some((Mode::Pinned, built_in))),
        (&[(MODE, " off ")], Some((Mode::Off, built_in))),
        (&[(BAND, "1.3,2")], Some((Mode::Adaptive, normalized(1.3, 2.0)))),
        (&[(BAND, "normalized: 1.3, 2")], Some((Mode::Adaptive, normalized(1.3, 2.0)))),
        (&[(BAND, "outstanding:0.8,2.0")], Some((Mode::Adaptive, outstanding(0.8, 2.0)))),
        (&[(HAZL, "0.8,2.0")], Some((Mode::Adaptive, outstanding(0.8, 2.0)))),
        (&[(BAND, "1.2,1.6"), (HAZL, "0.8,2.0")], Some((Mode::Adaptive, normalized(1.2, 1.6)))),
        (&[(MODE, "Pinned"), (HAZL, "0.5,5")], Some((Mode::Pinned, outstanding(0.5, 5.0)))),
        (&[(ZALANDO, "false")], Some((Mode::Off, built_in))),
        (&[(ZALANDO, "true")], None),
        (&[(ZALANDO, "false"), (MODE, "Adaptive")], Some((Mode::Adaptive, built_in))),
        (&[(TOPOLOGY, "Auto")], Some((Mode::Proportional, built_in))),
        (&[(TOPOLOGY, "Auto"), (ZALANDO, "false")], Some((Mode::Off, built_in))),
        (&[(ZALANDO, "false"), (TOPOLOGY, "Auto")], Some((Mode::Off, built_in))),
        (&[(TOPOLOGY, "Disabled")], None),
    ];
    for (annotations, expected) in cases {
        let expected = expected.map(|(mode, load)| Policy { mode, load, ..Policy::default() });
        assert_eq!(
            policy(annotations.iter().copied()),
            Annotated { policy: expected, mistakes: vec![] },
            "{annotations:?}"
        );
    }
}

#[test]
fn junk_counts_as_absent_and_is_reported() {
    let cases = [
        (
            MODE,
            "Sticky",
            "tidegate.io/locality-mode: \"Sticky\" is no mode; write Adaptive, Proportional, Pinned or Off",
        ),
        (
            BAND,
            "1.2",
            "tidegate.io/load-band: \"1.2\" is not two numbers; write low,high, such as 1.2,1.5",
        ),
        (
            BAND,
            "1.2,1.5,1.9",
            "tidegate.io/load-band: \"1.2,1.5,1.9\" is not two numbers; write low,high, such as 1.2,1.5",
        ),
        (
            BAND,
            "cpu:1,2",
            "tidegate.io/load-band: \"cpu\" is no load signal; write low,high for normalized load, or outstanding:low,high",
        ),
        (
            BAND,
            "nan,nan",
            "tidegate.io/load-band: low NaN is not above 1 and high NaN is above 100; set it above 1, which is the load of a service that queues nothing; set it lower: a band that high never opens",
        ),
        (
            HAZL,
            "1.0,2.0",
            "balancer.buoyant.io/load-band: high 2 is not more than twice low, 1; raise high or lower low: going from one endpoint to two halves the load, so a narrower band swings",
        ),
        (
            ZALANDO,
            "no",
            "zalando.org/traffic-zone-aware: \"no\" is neither true nor false; write true or false",
        ),
        (
            TOPOLOGY,
            "on",
            "service.kubernetes.io/topology-mode: \"on\" is no topology mode; write Auto or Disabled",
        ),
    ];
    for (key, value, expected) in cases {
        let found = policy([(key, value)]);
        assert_eq!(found.policy, None, "{key}={value}");
        assert_eq!(
            found.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [expected],
            "{key}={value}"
        );
    }
}

#[test]
fn junk_in_one_annotation_does_not_spoil_another() {
    let found = policy([(BAND, "junk"), (MODE, "Pinned")]);
    assert_eq!(found.policy.map(|policy| policy.mode), Some(Mode::Pinned));
    assert_eq!(found.mistakes.len(), 1);
}

#[test]
fn a_services_own_fields_stand_for_policies() {
    let adaptive = |tiers: &[Tier]| Some((Mode::Adaptive, tiers.to_vec()));
    let cases = [
        ("PreferClose", adaptive(&[Tier::Zone, Tier::Any])),
        ("PreferSameZone", adaptive(&[Tier::Zone, Tier::Any])),
        ("PreferSameNode", adaptive(&[Tier::Node, Tier::Zone, Tier::Any])),
        ("PreferSomethingNew", None),
    ];
    for (value, expected) in cases {
        assert_eq!(
            traffic_distribution(value).map(|policy| (policy.mode, policy.tiers)),
            expected,
            "{value}"
        );
    }
    let local = internal_traffic_local();
    assert_eq!((local.mode, local.tiers), (Mode::Pinned, vec![Tier::Node]));
}

#[test]
fn the_most_specific_policy_wins_whole() {
    let mode = |mode| Policy { mode, ..Policy::default() };
    let percent_set = Policy { load: LoadBand::OUTSTANDING, ..mode(Mode::Pinned) };
    let cases = [
        (vec![], (PolicySource::BuiltIn, Policy::default())),
        (
            vec![(PolicySource::MeshDefault, mode(Mode::Off))],
            (PolicySource::MeshDefault, mode(Mode::Off)),
        ),
        (
            vec![
                (PolicySource::MeshDefault, percent_set),
                (PolicySource::NamespaceAnnotation, mode(Mode::Off)),
            ],
            (PolicySource::NamespaceAnnotation, mode(Mode::Off)),
        ),
        (
            vec![
                (PolicySource::ServicePolicy, mode(Mode::Off)),
                (PolicySource::ServicePolicy, mode(Mode::Pinned)),
            ],
            (PolicySource::ServicePolicy, mode(Mode::Off)),
        ),
    ];
    for (candidates, expected) in cases {
        assert_eq!(most_specific(candidates.clone()), expected, "{candidates:?}");
    }
    for pair in PolicySource::ALL.windows(2) {
        let candidates = pair.iter().rev().map(|source| (*source, Policy::default()));
        assert_eq!(most_specific(candidates).0, pair[0], "{pair:?}");
        let name = serde_json::to_value(pair[0]).expect("serialisable");
        assert_eq!(name, pair[0].as_str(), "one spelling everywhere");
    }
}
