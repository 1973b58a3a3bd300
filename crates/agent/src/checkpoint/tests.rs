use std::collections::BTreeMap;
use std::fs;

use gpu_scheduler_engine::model::Millis;

use super::file::{read, write};
use super::*;
use crate::allocate::View;
use crate::config::{AllocationPolicy, Config};
use crate::fixtures::written::{pod, started};
use crate::fixtures::{card, node};
use crate::inventory::Seen;
use crate::pods::NodePod;
use crate::resources::{Offer, SeatRules, offer};

fn entry(pod: &str, container: &str, card: u32, at: u64) -> Entry {
    let device = HeldDevice {
        id: DeviceId::parse(&format!("GPU-{card}")).unwrap(),
        card: format!("GPU-{card}").as_str().into(),
        memory: Mib(81_920),
    };
    Entry {
        resource: ResourceName::gpu(),
        hold: Hold::Whole,
        devices: vec![device],
        holder: Some(Holder {
            uid: Some(format!("uid-{pod}").as_str().into()),
            namespace: "default".into(),
            name: pod.into(),
            container: container.into(),
            init: container == "init",
        }),
        at: Timestamp(at),
    }
}

#[test]
fn what_was_saved_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.json");
    let loaded = Checkpoint::open(&path).unwrap();
    assert_eq!((loaded.entries, loaded.broken), (vec![], None), "nothing was handed out yet");
    let entries = vec![entry("a", "main", 0, 1), Entry { holder: None, ..entry("b", "main", 1, 2) }];
    loaded.checkpoint.save(&entries[..1]).unwrap();
    loaded.checkpoint.save(&entries).unwrap();
    let again = Checkpoint::open(&path).unwrap();
    assert_eq!((again.entries, again.broken), (entries, None));
}

/// A machine may stop after any byte of the next file, before and after it takes the old one's place.
#[test]
fn a_stop_at_any_point_leaves_the_old_or_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.json");
    let (old, new) = (vec![entry("a", "main", 0, 1)], vec![entry("a", "main", 0, 1), entry("b", "main", 1, 2)]);
    Checkpoint::open(&path).unwrap().checkpoint.save(&old).unwrap();
    let text = write(&new);
    for end in 0..=text.len() {
        fs::write(folder.path().join("checkpoint.json.next"), &text[..end]).unwrap();
        let loaded = Checkpoint::open(&path).unwrap();
        assert_eq!((loaded.entries, loaded.broken), (old.clone(), None), "{end} bytes");
    }
    fs::rename(folder.path().join("checkpoint.json.next"), &path).unwrap();
    assert_eq!(Checkpoint::open(&path).unwrap().entries, new);
}

#[test]
fn half_a_checkpoint_and_a_changed_one_are_told_from_a_whole_one() {
    let text = write(&[entry("a", "main", 0, 1)]);
    for end in 0..text.len() {
        assert!(read::<Entry>(&text.as_bytes()[..end]).is_err(), "{end} bytes");
    }
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        assert_ne!(read::<Entry>(&changed), Ok(vec![]), "byte {at}: what was handed out is not forgotten in silence");
        assert!(read::<Entry>(&changed).is_err(), "byte {at}");
    }
    assert!(
        read::<Entry>(text.replace("\"version\":1", "\"version\":2").as_bytes())
            .unwrap_err()
            .contains("its version is 2")
    );
}

#[test]
fn a_broken_checkpoint_is_set_aside_and_the_next_one_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.json");
    fs::write(&path, "{").unwrap();
    let loaded = Checkpoint::open(&path).unwrap();
    let broken = loaded.broken.expect("it is said");
    assert!(broken.to_string().contains("EOF"), "{broken}");
    assert_eq!(fs::read_to_string(broken.aside).unwrap(), "{");
    loaded.checkpoint.save(&[entry("a", "main", 0, 1)]).unwrap();
    assert_eq!(Checkpoint::open(&path).unwrap().entries.len(), 1);
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open(&folder.path().join("no/checkpoint.json")).unwrap().checkpoint;
    let error = checkpoint.save(&[]).unwrap_err().to_string();
    assert!(error.starts_with("cannot create ") && error.contains("see that the folder is there"), "{error}");
}

/// The books after a look, as `pod/container card …`, and the reasons of reports.
fn after(entries: &[Entry], pods: &[NodePod], synced: bool, listed: Option<&[(&str, &str, u32)]>) -> Vec<String> {
    let seen = Seen { inventory: node((0..4).map(card).collect()), health: BTreeMap::new() };
    let offer: Offer = offer(&seen.inventory, &Config::defaults(), SeatRules::default()).unwrap();
    let view =
        View { pods, synced, entries, offer: &offer, seen: &seen, policy: AllocationPolicy::Packed, one_only: false };
    let listed = listed.map(|listed| {
        let item = |(name, container, card): &(&str, &str, u32)| Listed {
            namespace: "default".into(),
            name: (*name).into(),
            container: (*container).into(),
            resource: ResourceName::gpu(),
            ids: vec![DeviceId::parse(&format!("GPU-{card}")).unwrap()],
        };
        listed.iter().map(item).collect::<Vec<_>>()
    });
    let reconciled = reconcile(&view, listed.as_deref(), Timestamp(100_000), Millis(30_000));
    let shown = |entry: &Entry| {
        let holder = entry.holder.as_ref().map_or("nobody".to_owned(), |it| format!("{}/{}", it.name, it.container));
        let known = entry.holder.as_ref().is_some_and(|holder| holder.uid.is_some());
        format!(
            "{holder}{} {}",
            if known { "" } else { "?" },
            entry.devices[0].id.device.as_str().trim_start_matches("GPU-")
        )
    };
    let mut lines: Vec<_> = reconciled.entries.iter().map(shown).collect();
    lines.extend(reconciled.reports.iter().map(|report| report.reason().to_owned()));
    lines
}

#[test]
fn the_books_follow_kubelet_and_the_pods() {
    let a = || started("a = main: gpu*1>0");
    let b = || started("b = main: gpu*1>1");
    let init = || started("c = ~init: gpu*1>2; main: gpu*1>2");
    let nobody = |at| Entry { holder: None, ..entry("x", "main", 0, at) };
    type Case<'a> = (&'a str, Vec<Entry>, Vec<NodePod>, Option<&'a [(&'a str, &'a str, u32)]>, &'a [&'a str]);
    let cases: [Case<'_>; 16] = [
        ("as it is", vec![entry("a", "main", 0, 0)], vec![a()], Some(&[("a", "main", 0)]), &["a/main 0"]),
        ("a lost checkpoint", vec![], vec![a()], Some(&[("a", "main", 0)]), &["a/main 0"]),
        ("… of a pod that the API does not show", vec![], vec![], Some(&[("z", "main", 0)]), &["z/main? 0"]),
        ("it has ended", vec![entry("a", "main", 0, 0)], vec![], Some(&[]), &[]),
        (
            "… but kubelet still has it",
            vec![entry("a", "main", 0, 0)],
            vec![],
            Some(&[("a", "main", 0)]),
            &["a/main 0"],
        ),
        ("… but it lives", vec![entry("a", "main", 0, 0)], vec![a()], Some(&[]), &["a/main 0"]),
        ("nobody was named, just now", vec![nobody(90_000)], vec![], Some(&[]), &["nobody? 0"]),
        ("… and a while ago", vec![nobody(60_000)], vec![], Some(&[]), &[]),
        ("a pod that ended at once", vec![entry("a", "main", 0, 99_999)], vec![], Some(&[]), &[]),
        ("kubelet is silent", vec![entry("a", "main", 0, 0)], vec![], None, &["a/main 0"]),
        (
            "nobody was named",
            vec![nobody(0)],
            vec![b()],
            Some(&[("b", "main", 0)]),
            &["b/main 0", "GPUAllocationMismatch"],
        ),
        (
            "the other pod was asking",
            vec![entry("a", "main", 1, 0)],
            vec![pod("a = main: gpu*1>1"), b()],
            Some(&[("b", "main", 1)]),
            &["b/main 1"],
        ),
        (
            "init containers are not listed",
            vec![entry("c", "init", 2, 0)],
            vec![init()],
            Some(&[("c", "main", 2)]),
            &["c/init 2", "c/main 2"],
        ),
        (
            "a pod of the same name",
            vec![Entry {
                holder: Some(Holder { uid: Some("old".into()), ..entry("a", "main", 0, 0).holder.unwrap() }),
                ..entry("a", "main", 0, 0)
            }],
            vec![a()],
            Some(&[("a", "main", 0)]),
            &["a/main 0"],
        ),
        ("kubelet's word counts", vec![entry("a", "main", 3, 0)], vec![a()], Some(&[("a", "main", 0)]), &["a/main 0"]),
        ("a device that is no longer there", vec![], vec![a()], Some(&[("a", "main", 9)]), &[]),
    ];
    for (what, entries, pods, listed, expected) in cases {
        assert_eq!(after(&entries, &pods, true, listed), expected, "{what}");
    }
    let kept = after(&[entry("a", "main", 0, 0)], &[], false, Some(&[]));
    assert_eq!(kept, ["a/main 0"], "the pods are not known yet");
}
