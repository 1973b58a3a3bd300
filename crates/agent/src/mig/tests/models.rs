//! Every model that can be cut, and the layouts that must be had.

use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_nvml_mock::mig::{Table, tables};
use gpu_scheduler_nvml_mock::models;

use super::*;
use crate::inventory::{MigProfile, Placement};
use crate::mig::layout::steps;
use crate::mig::name::ProfileName;
use crate::mig::plan::plan;
use crate::mig::wanted::{Wanted, most};
use crate::nvml::{Division, InstanceProfile, Library, MigMode, Partitioner, ProfileId};

/// A card of the table as the driver tells it, in MIG's mode and not cut.
fn division(table: &Table) -> Division {
    let profile = |profile: &gpu_scheduler_nvml_mock::mig::Profile| InstanceProfile {
        id: ProfileId(profile.id),
        name: MigProfile(profile.name.as_str().into()),
        slices: profile.slices,
        placements: profile.starts.iter().map(|start| Placement { start: *start, size: profile.size }).collect(),
    };
    let profiles = table.profiles.iter().map(profile).collect();
    Division { mode: MigMode { current: true, pending: true }, profiles, instances: Vec::new() }
}

fn counts(names: &[&str]) -> Wanted {
    let mut counts: BTreeMap<ProfileName, u32> = BTreeMap::new();
    for name in names {
        *counts.entry(name.parse().unwrap()).or_default() += 1;
    }
    Wanted::Devices(counts)
}

/// One model of each table.
fn divisible() -> Vec<(&'static models::Model, &'static Table)> {
    let of = |table: &'static Table| {
        let of_table = |model: &&models::Model| model.mig.is_some_and(|mig| mig.name == table.name);
        (models::all().iter().find(of_table).unwrap(), table)
    };
    tables().iter().map(of).collect()
}

#[test]
fn what_a_driver_tells_is_what_the_tables_have() {
    assert_eq!(divisible().len(), 15);
    for (model, table) in divisible() {
        let lab = Lab::of(&model.model, Mig { enabled: true, ..Mig::default() });
        let library = Library::open(&lab.installation.library()).unwrap();
        let cards = Partitioner::all(&library).unwrap();
        let mut told = cards[0].1.division().unwrap().unwrap();
        let mut expected = division(table);
        told.profiles.sort_by_key(|profile| profile.id);
        expected.profiles.sort_by_key(|profile| profile.id);
        assert_eq!(told, expected, "{}", table.name);
        for (profile, row) in expected.profiles.iter().map(|known| (known, table.by_id(known.id.0).unwrap())) {
            assert_eq!(most(profile), row.instances, "{} {}", table.name, row.name);
        }
    }
}

/// Whatever can be placed one after another in some order is found, and nothing else: compared with placing in every
/// order and at every place.
#[test]
fn a_layout_that_fits_is_always_found() {
    for table in tables() {
        let empty = division(table);
        let mut reached: BTreeSet<Vec<usize>> = BTreeSet::new();
        let mut placed: Vec<(usize, Placement)> = Vec::new();
        place_all(table, 0, &mut placed, &mut reached);
        let limit = if table.profiles.len() > 7 { 3 } else { 5 };
        for layout in &reached {
            for next in 0..=table.profiles.len() {
                let mut layout = layout.clone();
                if next < table.profiles.len() {
                    // One more than what fits: it fits as well, or must be refused.
                    if layout.len() > limit {
                        continue;
                    }
                    layout.push(next);
                    layout.sort_unstable();
                }
                let names: Vec<&str> = layout.iter().map(|at| table.profiles[*at].name.as_str()).collect();
                let planned = plan(&empty, &counts(&names));
                assert_eq!(planned.is_ok(), reached.contains(&layout), "{} {names:?}: {planned:?}", table.name);
            }
        }
        assert!(reached.len() > 3, "{}", table.name);
    }
}

/// All multisets of profiles that can be placed, by index; units are filled from the first on.
fn place_all(table: &Table, from: u32, placed: &mut Vec<(usize, Placement)>, reached: &mut BTreeSet<Vec<usize>>) {
    let mut layout: Vec<usize> = placed.iter().map(|(profile, _)| *profile).collect();
    layout.sort_unstable();
    reached.insert(layout);
    for (at, profile) in table.profiles.iter().enumerate() {
        let there = placed.iter().filter(|(placed, _)| *placed == at).count();
        if there as u32 == profile.instances {
            continue;
        }
        for start in profile.starts.iter().filter(|start| **start >= from) {
            placed.push((at, Placement { start: *start, size: profile.size }));
            place_all(table, start + profile.size, placed, reached);
            placed.pop();
        }
    }
}

#[test]
fn every_model_takes_every_standard_configuration() {
    for (model, table) in divisible() {
        let lab = Lab::of(&model.model, Mig::default());
        assert_eq!((lab.attempt("all-enabled").again, lab.shown()), (Again::Never, String::new()), "{}", table.name);
        for profile in &table.profiles {
            let label = format!("all-{}", profile.name.replace('+', "."));
            let outcome = lab.attempt(&label);
            assert_eq!(state(&outcome), Some(MigState::Success), "{} {label}: {}", table.name, reason(&outcome));
            let shown = lab.shown();
            let made = shown.split(", ").filter(|one| one.starts_with(&format!("{}@", profile.name))).count();
            assert_eq!(made as u32, profile.instances, "{} {label}: {shown}", table.name);
            assert!(shown.contains(&format!("[{}@0]", profile.slices)), "each is cut into one: {shown}");
        }
        let balanced = lab.attempt("all-balanced");
        match table.most_devices() {
            7 => assert_eq!(lab.shown().split(", ").count(), 4, "{}", table.name),
            4 => assert_eq!(lab.shown().split(", ").count(), 3, "{}", table.name),
            _ => assert!(reason(&balanced).contains("there is no configuration \"all-balanced\""), "{}", table.name),
        }
        assert_eq!(state(&lab.attempt("all-disabled")), Some(MigState::Success));
        assert_eq!(lab.shown(), "off", "{}", table.name);
    }
}

const SHOWN: [(&str, &str); 7] = [
    (
        "sevenths",
        "1g.5gb@0[1@0], 1g.5gb@1[1@0], 1g.5gb@2[1@0], 1g.5gb@3[1@0], 1g.5gb@4[1@0], 1g.5gb@5[1@0], 1g.5gb@6[1@0]",
    ),
    ("thirds", "2g.10gb@0[2@0], 2g.10gb@2[2@0], 2g.10gb@4[2@0]"),
    ("twenty-ten", "3g.20gb@0[3@0], 2g.10gb@4[2@0]"),
    ("four-ten", "4g.20gb@0[4@0], 2g.10gb@4[2@0]"),
    ("parts", "3g.20gb@0[1@2 2@0], 1g.5gb@4[1@0], 1g.5gb@5[1@0]"),
    ("whole", "7g.40gb@0[7@0]"),
    ("off", "off"),
];

/// From every layout to every other, on a card that was never cut before.
#[test]
fn an_a100_goes_from_each_layout_to_each_other() {
    let mut lab = Lab::of("A100-SXM4-40GB", Mig::default());
    for (first, shown) in SHOWN {
        for (second, _) in SHOWN {
            lab.reset(&Mig::default());
            let outcome = lab.lay_out(first);
            assert_eq!(
                (state(&outcome), lab.shown().as_str()),
                (Some(MigState::Success), shown),
                "{}",
                reason(&outcome)
            );
            let outcome = lab.lay_out(second);
            assert_eq!(state(&outcome), Some(MigState::Success), "{first} to {second}: {}", reason(&outcome));
            assert_eq!(lab.touched.get(), first != second, "{first} to {second}");
            assert_eq!(lab.journal().begun(), []);
            let kinds = |shown: &str| {
                let mut kinds: Vec<String> =
                    shown.split(", ").map(|one| one.split('@').next().unwrap_or_default().to_owned()).collect();
                kinds.sort();
                kinds
            };
            let expected = SHOWN.iter().find(|(name, _)| *name == second).unwrap().1;
            assert_eq!(kinds(&lab.shown()), kinds(expected), "{first} to {second}");
        }
    }
}

#[test]
fn the_same_layouts_on_80_gb() {
    let file = "
version: v1
mig-configs:
  sevenths: [{devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}]
  thirds: [{devices: [0], mig-enabled: true, mig-devices: {2g.20gb: 3}}]
  twenty-ten: [{devices: [0], mig-enabled: true, mig-devices: {2g.20gb: 1, 1g.10gb: 1}}]
  double: [{devices: [0], mig-enabled: true, mig-devices: {1g.20gb: 1, 1g.10gb+me: 1}}]
";
    let lab = Lab::of("A100-SXM4-80GB", Mig::default());
    for (label, count, first) in [
        ("sevenths", 7, "1g.10gb@0"),
        ("thirds", 3, "2g.20gb@0"),
        ("twenty-ten", 2, "2g.20gb@0"),
        ("double", 2, "1g.20gb@0"),
    ] {
        let outcome = lab.attempt_with(Some(label), Some(file));
        assert_eq!(state(&outcome), Some(MigState::Success), "{label}: {}", reason(&outcome));
        assert_eq!(lab.shown().split(", ").count(), count);
        assert!(lab.shown().starts_with(first), "{}", lab.shown());
    }
}

#[test]
fn what_is_wanted_where_it_is_stays() {
    let lab = Lab::of("A100-SXM4-40GB", cut());
    let library = Library::open(&lab.installation.library()).unwrap();
    let cards = Partitioner::all(&library).unwrap();
    let now = cards[0].1.division().unwrap().unwrap();
    let wanted = counts(&["1g.5gb", "3g.20gb"]);
    let layout = plan(&now, &wanted).unwrap();
    let steps: Vec<String> = steps(&now, &layout).iter().map(ToString::to_string).collect();
    assert!(steps.contains(&"destroy GPU instance 5".to_owned()), "the one of 2 slices goes: {steps:?}");
    assert!(!steps.iter().any(|step| step.starts_with("create a GPU")), "the others are there: {steps:?}");
}

#[test]
fn cards_of_one_node_may_differ() {
    let file = "
version: v1
mig-configs:
  mixed:
  - {devices: [0], mig-enabled: true, mig-devices: {7g.40gb: 1}}
  - {device-filter: '0x20B210DE', devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
  conflict:
  - {devices: all, mig-enabled: false}
  - {devices: [0], mig-enabled: true, mig-devices: {}}
  none-such: [{devices: [2], mig-enabled: true, mig-devices: {}}]
";
    let node = || Node::with(["A100-SXM4-40GB", "A100-SXM4-80GB", "A10"].map(Gpu::of).to_vec());
    let lab = Lab::new(node());
    assert_eq!(state(&lab.attempt_with(Some("mixed"), Some(file))), Some(MigState::Success));
    assert_eq!(lab.shown(), "7g.40gb@0[7@0] | 3g.40gb@0[3@0], 3g.40gb@4[3@0] | off");
    for (label, says) in
        [("conflict", "says two things of card 0"), ("none-such", "wants MIG of card 2, which has none")]
    {
        let outcome = lab.attempt_with(Some(label), Some(file));
        assert!(reason(&outcome).contains(says), "{}", reason(&outcome));
        assert!(!lab.touched.get());
    }
    let lab = Lab::new(node());
    assert_eq!(state(&lab.attempt("all-10gb")), Some(MigState::Failed));
    assert!(reason(&lab.attempt("all-10gb")).contains("all-1g.10gb.me"), "{}", reason(&lab.attempt("all-10gb")));
    // A profile of that name means another part of each model.
    assert_eq!(state(&lab.attempt("all-1g.10gb")), Some(MigState::Success));
    let shown = lab.shown();
    let each: Vec<usize> = shown.split(" | ").map(|card| card.split(", ").count()).collect();
    assert_eq!(each, [4, 7, 1], "{shown}");
    // One model alone has it, and the other stays as it is.
    assert_eq!(state(&lab.attempt("all-7g.80gb")), Some(MigState::Success));
    assert_eq!(lab.shown().split(" | ").nth(1), Some("7g.80gb@0[7@0]"));
    assert_eq!(lab.shown().split(" | ").next(), shown.split(" | ").next());
}
