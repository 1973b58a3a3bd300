use super::*;
use crate::config::{Config, Layer};
use crate::fixtures::{card, node, partitioned};
use crate::inventory::{ComputeCapability, Inventory};

fn config(text: &str) -> Config {
    Layer::parse(text).unwrap().0.settle().unwrap().config
}

/// `name: id id …`, with runs of seats as `id::0..n`.
fn offered(inventory: &Inventory, text: &str, seats: SeatRules) -> Result<Vec<String>, String> {
    let offer = offer(inventory, &config(text), seats).map_err(|error| error.to_string())?;
    Ok(offer
        .resources
        .iter()
        .map(|resource| {
            let mut ids: Vec<String> = Vec::new();
            for unit in &resource.units {
                let last = resource.units.iter().filter(|other| other.id.device == unit.id.device).count() - 1;
                match unit.id.seat {
                    None => ids.push(unit.id.to_string()),
                    Some(0) => ids.push(format!("{}::0..{last}", unit.id.device)),
                    Some(_) => {}
                }
            }
            format!("{}: {}", resource.name.short(), ids.join(" "))
        })
        .collect())
}

const NO_SEATS: SeatRules = SeatRules { per_card: 0, by_mps: false };

#[test]
fn what_is_offered() {
    let two = || node(vec![card(0), card(1)]);
    let mixed = || node(vec![card(0), partitioned(1, &["1g.10gb", "2g.20gb+me", "1g.10gb", "1c.2g.20gb"])]);
    let old = || node(vec![Card { capability: ComputeCapability { major: 7, minor: 0 }, ..card(0) }]);
    use crate::inventory::Card;
    let slicing = |name: &str, rename: bool| {
        format!("sharing: {{timeSlicing: {{renameByDefault: {rename}, resources: [{{name: {name}, replicas: 4}}]}}}}")
    };
    let seats = SeatRules { per_card: 20, by_mps: false };
    let mps = SeatRules { by_mps: true, ..seats };
    let cases: [(Inventory, String, SeatRules, &[&str]); 13] = [
        (node(vec![]), String::new(), seats, &[]),
        (two(), String::new(), NO_SEATS, &["gpu: GPU-0 GPU-1"]),
        (two(), String::new(), seats, &["gpu: GPU-0 GPU-1", "gpu.shared: GPU-0::0..19 GPU-1::0..19"]),
        (old(), String::new(), seats, &["gpu: GPU-0", "gpu.shared: GPU-0::0..19"]),
        (old(), String::new(), mps, &["gpu: GPU-0", "gpu.shared: GPU-0::0..15"]),
        (two(), slicing("gpu", false), seats, &["gpu: GPU-0::0..3 GPU-1::0..3"]),
        (two(), slicing("gpu", true), seats, &["gpu.shared: GPU-0::0..3 GPU-1::0..3"]),
        (mixed(), String::new(), NO_SEATS, &["gpu: GPU-0 GPU-1"]),
        (
            mixed(),
            "flags: {migStrategy: mixed}".into(),
            seats,
            &["gpu: GPU-0", "mig-1g.10gb: MIG-1-0 MIG-1-2", "mig-2g.20gb.me: MIG-1-1", "gpu.shared: GPU-0::0..19"],
        ),
        (
            mixed(),
            format!("flags: {{migStrategy: mixed}}\n{}", slicing("mig-1g.10gb", true)),
            NO_SEATS,
            &["gpu: GPU-0", "mig-1g.10gb.shared: MIG-1-0::0..3 MIG-1-2::0..3", "mig-2g.20gb.me: MIG-1-1"],
        ),
        (two(), "flags: {migStrategy: single}".into(), NO_SEATS, &["gpu: GPU-0 GPU-1"]),
        (
            node(vec![partitioned(0, &["3g.40gb", "3g.40gb"]), partitioned(1, &["3g.40gb"])]),
            "flags: {migStrategy: single}".into(),
            seats,
            &["gpu: MIG-0-0 MIG-0-1 MIG-1-0"],
        ),
        (
            node(vec![partitioned(0, &["3g.40gb"])]),
            format!("flags: {{migStrategy: single}}\n{}", slicing("gpu", false)),
            seats,
            &["gpu: MIG-0-0::0..3"],
        ),
    ];
    for (inventory, text, seats, expected) in cases {
        assert_eq!(offered(&inventory, &text, seats).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_offered() {
    let single = "flags: {migStrategy: single}";
    let mps = |replicas: u32| format!("sharing: {{mps: {{resources: [{{name: gpu, replicas: {replicas}}}]}}}}");
    let mut old = card(0);
    old.capability = ComputeCapability { major: 7, minor: 0 };
    let long = partitioned(0, &["1g.10gb"]);
    let cases = [
        (node(vec![card(0), partitioned(1, &["1g.10gb"])]), single.to_owned(), "enabled on GPU-1, and not on GPU-0"),
        (node(vec![partitioned(0, &["1g.10gb"]), partitioned(1, &[])]), single.to_owned(), "and GPU-1 has none"),
        (
            node(vec![partitioned(0, &["1g.10gb"]), partitioned(1, &["2g.20gb"])]),
            single.to_owned(),
            "1g.10gb with 9728 MiB and 14 multiprocessors and 2g.20gb with",
        ),
        (node(vec![card(0)]), mps(49), "takes 48 clients, and sharing.mps asks for 49"),
        (node(vec![old]), mps(17), "takes 16 clients"),
        (node(vec![long]), mps(2), "does not work on GPU-0, where MIG is enabled"),
        (
            node(vec![Card { uuid: format!("GPU-{}", "0".repeat(60)).as_str().into(), ..card(0) }]),
            String::new(),
            "longer than the 63 characters",
        ),
    ];
    use crate::inventory::Card;
    for (inventory, text, expected) in cases {
        let error = offered(&inventory, &text, NO_SEATS).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_left_out_is_said() {
    let warnings =
        |inventory: &Inventory, text: &str| offer(inventory, &config(text), SeatRules::default()).unwrap().warnings;
    let renamed = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 2}]}}";
    let slices = "sharing: {timeSlicing: {resources: [{name: mig-1g.10gb, replicas: 2}]}}";
    let mut unified = card(0);
    unified.memory = gpu_scheduler_engine::model::Mib(0);
    assert_eq!(warnings(&node(vec![card(0)]), renamed), [OfferWarning::SeatsRenamed]);
    assert_eq!(
        warnings(&node(vec![partitioned(0, &[])]), "flags: {migStrategy: mixed}"),
        [OfferWarning::EmptyCard("GPU-0".into())]
    );
    assert_eq!(warnings(&node(vec![unified]), ""), [OfferWarning::MemoryUnknown("GPU-0".into())]);
    assert_eq!(
        warnings(&node(vec![card(0)]), slices),
        [OfferWarning::NothingToReplicate(ResourceName::nvidia("mig-1g.10gb").unwrap())]
    );
    assert_eq!(warnings(&node(vec![]), slices), []);
}

#[test]
fn names() {
    let long = format!("mig-{}", "1".repeat(48));
    for (text, expected) in [
        ("gpu", Ok("nvidia.com/gpu")),
        ("nvidia.com/mig-1g.24gb-me", Ok("nvidia.com/mig-1g.24gb-me")),
        (&long, Ok("nvidia.com/mig-111111111111111111111111111111111111111111111111")),
        ("example.com/gpu", Err("is not of nvidia.com/")),
        (&format!("{long}1"), Err("more than the 63 characters")),
        ("mig-1g.10gb+me", Err("is not a name")),
        ("nvidia.com/", Err("is not a name")),
        ("gpu-", Err("is not a name")),
        ("GPU", Err("is not a name")),
    ] {
        match (ResourceName::nvidia(text), expected) {
            (Ok(name), Ok(expected)) => assert_eq!(name.as_str(), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (name, expected) => panic!("{text}: {name:?}, not {expected:?}"),
        }
    }
    assert!(ResourceName::nvidia(&long).unwrap().shared().is_err(), "it grows too long");
}

#[test]
fn seats_for_shares_alone_have_no_numa_node() {
    let slicing = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
    let mixed = || node(vec![partitioned(0, &["1g.10gb"])]);
    let seats = SeatRules { per_card: 4, by_mps: false };
    for (inventory, text, expected) in [
        (node(vec![card(0)]), "", &[("nvidia.com/gpu", Some(0)), ("nvidia.com/gpu.shared", None)][..]),
        (node(vec![card(0)]), slicing, &[("nvidia.com/gpu.shared", Some(0))]),
        (mixed(), "flags: {migStrategy: mixed}", &[("nvidia.com/mig-1g.10gb", Some(0))]),
    ] {
        let offer = offer(&inventory, &config(text), seats).unwrap();
        let found: Vec<_> = offer.resources.iter().map(|it| (it.name.as_str(), it.units[0].numa)).collect();
        assert_eq!(found, expected, "{text}");
    }
}
