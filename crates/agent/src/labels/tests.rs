use super::*;
use crate::fixtures::{card, mig_device, node};
use crate::host::GpuMode;
use crate::inventory::{Card, GpuUuid, Link, LinkPeer, Mig, MigProfile};

fn facts() -> NodeFacts {
    NodeFacts { machine: Some("DGX A100".to_owned()), mode: GpuMode::Compute, fabric: None, vgpu: false }
}

fn split(index: u32, parts: u32) -> Card {
    let parts = (0..parts).map(|part| mig_device(index, part, 0)).collect();
    Card { mig: Mig::Enabled(parts), ..card(index) }
}

fn shared(resource: &str, strategy: SharingStrategy, replicas: u32, renamed: bool) -> LabelOptions {
    let sharing = BTreeMap::from([(resource.to_owned(), Sharing { strategy, replicas, renamed })]);
    LabelOptions { strategy, sharing, ..LabelOptions::default() }
}

/// The values of these labels of ours; `-` is none.
fn values(cards: Vec<Card>, options: &LabelOptions, names: &[&str]) -> Vec<String> {
    let labels = labels(&node(cards), &facts(), options);
    names.iter().map(|name| labels.get(&format!("nvidia.com/{name}")).map_or("-", String::as_str).to_owned()).collect()
}

#[test]
fn all_labels_of_a_plain_node() {
    let labels = labels(&node(vec![card(0), card(1)]), &facts(), &LabelOptions::default());
    let expected = [
        ("cuda.driver-version.full", "570.86.15"),
        ("cuda.driver-version.major", "570"),
        ("cuda.driver-version.minor", "86"),
        ("cuda.driver-version.revision", "15"),
        ("cuda.driver.major", "570"),
        ("cuda.driver.minor", "86"),
        ("cuda.driver.rev", "15"),
        ("cuda.runtime-version.full", "12.8"),
        ("cuda.runtime-version.major", "12"),
        ("cuda.runtime-version.minor", "8"),
        ("cuda.runtime.major", "12"),
        ("cuda.runtime.minor", "8"),
        ("gpu.compute.major", "8"),
        ("gpu.compute.minor", "0"),
        ("gpu.count", "2"),
        ("gpu.family", "ampere"),
        ("gpu.machine", "DGX-A100"),
        ("gpu.memory", "81920"),
        ("gpu.mode", "compute"),
        ("gpu.product", "NVIDIA-A100-SXM4-80GB"),
        ("gpu.replicas", "1"),
        ("gpu.sharing-strategy", "none"),
        ("gpu.topology", "pcie"),
        ("mig.capable", "true"),
        ("mps.capable", "false"),
        ("vgpu.present", "false"),
    ];
    let expected: Labels =
        expected.map(|(name, value)| (format!("nvidia.com/{name}"), value.to_owned())).into_iter().collect();
    assert_eq!(labels, expected);
}

#[test]
fn a_node_without_cards_has_none_and_no_time() {
    let none = labels(&node(Vec::new()), &facts(), &LabelOptions::default());
    assert_eq!(none, Labels::new());
    assert_eq!(stamped(&none, false, 5), Labels::new());
}

#[test]
fn the_time_goes_with_the_others() {
    let some = Labels::from([("a".to_owned(), "b".to_owned())]);
    assert_eq!(stamped(&some, false, 5).get(TIMESTAMP).map(String::as_str), Some("5"));
    assert_eq!(stamped(&some, true, 5), some);
}

#[test]
fn shared_cards() {
    use SharingStrategy::{Mps, TimeSlicing};
    const NAMES: [&str; 4] = ["gpu.product", "gpu.replicas", "gpu.sharing-strategy", "mps.capable"];
    for (options, expected) in [
        (
            shared("nvidia.com/gpu", TimeSlicing, 4, false),
            ["NVIDIA-A100-SXM4-80GB-SHARED", "4", "time-slicing", "false"],
        ),
        (shared("nvidia.com/gpu", TimeSlicing, 4, true), ["NVIDIA-A100-SXM4-80GB", "4", "time-slicing", "false"]),
        (shared("nvidia.com/gpu", Mps, 10, false), ["NVIDIA-A100-SXM4-80GB-SHARED", "10", "mps", "true"]),
    ] {
        assert_eq!(values(vec![card(0)], &options, &NAMES), expected, "{options:?}");
    }
}

#[test]
fn strategy_single() {
    const NAMES: [&str; 6] =
        ["gpu.product", "gpu.count", "gpu.replicas", "gpu.memory", "gpu.slices.gi", "gpu.sharing-strategy"];
    let single = LabelOptions { mig_strategy: MigStrategy::Single, ..LabelOptions::default() };
    let mut odd = split(1, 2);
    if let Mig::Enabled(parts) = &mut odd.mig {
        parts[1].profile = MigProfile("2g.20gb".into());
    }
    let invalid = ["NVIDIA-A100-SXM4-80GB-MIG-INVALID", "0", "0", "0", "-", ""];
    for (cards, expected) in [
        (vec![card(0), card(1)], ["NVIDIA-A100-SXM4-80GB", "2", "1", "81920", "-", "none"]),
        (vec![split(0, 7), split(1, 7)], ["NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "14", "1", "9728", "1", "none"]),
        (vec![split(0, 7), card(1)], invalid),
        (vec![split(0, 7), split(1, 0)], invalid),
        (vec![split(0, 7), odd], invalid),
    ] {
        assert_eq!(values(cards.clone(), &single, &NAMES), expected, "{cards:?}");
    }
    assert_eq!(values(vec![card(0)], &single, &["mig.strategy"]), ["single"]);
}

#[test]
fn strategy_mixed() {
    const NAMES: [&str; 7] = [
        "gpu.product",
        "gpu.count",
        "gpu.replicas",
        "mig-1g.10gb.product",
        "mig-1g.10gb.count",
        "mig-1g.10gb.me.count",
        "mig.strategy",
    ];
    let mixed = LabelOptions { mig_strategy: MigStrategy::Mixed, ..LabelOptions::default() };
    let mut media = split(1, 3);
    if let Mig::Enabled(parts) = &mut media.mig {
        parts[1].profile = MigProfile("1g.10gb+me".into());
        parts[2].slices = (2, 1);
    }
    let mig = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb";
    for (cards, expected) in [
        (vec![card(0), media], ["NVIDIA-A100-SXM4-80GB", "2", "1", mig, "1", "1", "mixed"]),
        (vec![split(0, 2)], ["NVIDIA-A100-SXM4-80GB", "1", "0", mig, "2", "-", "mixed"]),
        (vec![card(0)], ["NVIDIA-A100-SXM4-80GB", "1", "1", "-", "-", "-", "mixed"]),
    ] {
        assert_eq!(values(cards.clone(), &mixed, &NAMES), expected, "{cards:?}");
    }
    let shared = LabelOptions {
        mig_strategy: MigStrategy::Mixed,
        ..shared("nvidia.com/mig-1g.10gb", SharingStrategy::TimeSlicing, 2, false)
    };
    let names = ["mig-1g.10gb.product", "mig-1g.10gb.replicas", "mig-1g.10gb.sharing-strategy", "gpu.product"];
    let expected = [&format!("{mig}-SHARED"), "2", "time-slicing", "NVIDIA-A100-SXM4-80GB"];
    assert_eq!(values(vec![split(0, 2)], &shared, &names), expected);
}

#[test]
fn topologies() {
    let linked = |index, peer| Card { links: vec![Link { peer, lanes: 12 }], ..card(index) };
    let other = LinkPeer::Card(GpuUuid::from("GPU-1"));
    for (cards, expected) in [
        (vec![card(0)], "none"),
        (vec![linked(0, LinkPeer::Switch)], "none"),
        (vec![card(0), card(1)], "pcie"),
        (vec![linked(0, other.clone()), card(1)], "nvlink"),
        (vec![linked(0, other), linked(1, LinkPeer::Switch)], "nvswitch"),
    ] {
        assert_eq!(values(cards, &LabelOptions::default(), &["gpu.topology"]), [expected]);
    }
}

#[test]
fn the_model_with_the_most_cards_is_described() {
    let other = |index| Card { name: "NVIDIA L4".to_owned(), ..card(index) };
    for (cards, expected) in
        [(vec![card(0), other(1), other(2)], ["NVIDIA-L4", "2"]), (vec![other(0), card(1)], ["NVIDIA-L4", "1"])]
    {
        assert_eq!(values(cards, &LabelOptions::default(), &["gpu.product", "gpu.count"]), expected);
    }
}

#[test]
fn what_the_node_is() {
    let cards = node(vec![card(0)]);
    let named = |facts: &NodeFacts, name: &str| {
        labels(&cards, facts, &LabelOptions::default()).get(&format!("nvidia.com/{name}")).cloned()
    };
    let nothing = NodeFacts { machine: None, mode: GpuMode::Unknown, fabric: None, vgpu: true };
    for (facts, name, expected) in [
        (&nothing, "gpu.machine", Some("unknown")),
        (&nothing, "gpu.mode", Some("unknown")),
        (&nothing, "vgpu.present", Some("true")),
        (&nothing, "gpu.clique", None),
        (
            &NodeFacts { fabric: Some(([0x11; 16], 3)), machine: Some("O.E.M.".to_owned()), ..nothing.clone() },
            "gpu.clique",
            Some("11111111-1111-1111-1111-111111111111.3"),
        ),
        (
            &NodeFacts { machine: Some("To be filled by O.E.M.".to_owned()), ..nothing.clone() },
            "gpu.machine",
            Some("To-be-filled-by-O.E.M"),
        ),
    ] {
        assert_eq!(named(facts, name).as_deref(), expected, "{name}");
    }
}
