//! What is not done, and is said.

use gpu_scheduler_nvml_mock::describe::{Function, Megabytes, NvmlError as Answer, Process, ProcessKind};

use super::*;
use crate::inventory::{GpuUuid, MigUuid};

#[test]
fn a_busy_card_is_not_touched() {
    let lab = Lab::of("A100-SXM4-40GB", cut());
    let machine = lab.installation.machine().unwrap();
    let card = machine.cards[0].uuid.clone();
    let part = machine.cards[0].mig_devices().next().unwrap().uuid();
    let before = lab.shown();
    for (held, says) in [
        (DeviceUuid::Gpu(GpuUuid::from(card.as_str())), card.as_str()),
        (DeviceUuid::Mig(MigUuid::from(part.as_str())), part.as_str()),
    ] {
        lab.held.replace(BTreeSet::from([held]));
        let outcome = lab.lay_out("sevenths");
        assert_eq!((state(&outcome), outcome.again, lab.touched.get()), (Some(MigState::Failed), Again::All, false));
        assert!(reason(&outcome).contains("is in use and stays as it is: containers have "), "{}", reason(&outcome));
        assert!(reason(&outcome).contains(says), "{}", reason(&outcome));
        assert_eq!((lab.shown(), lab.journal().begun().len()), (before.clone(), 0));
    }
    // What another card's holder has is nothing to this one.
    lab.held.replace(BTreeSet::from([DeviceUuid::Gpu(GpuUuid::from("GPU-other"))]));
    assert_eq!(state(&lab.lay_out("sevenths")), Some(MigState::Success));
}

#[test]
fn a_card_with_processes_is_not_touched_and_follows_once_it_is_idle() {
    for kind in [ProcessKind::Compute, ProcessKind::Graphics, ProcessKind::Mps] {
        let mut lab = Lab::of("A100-SXM4-40GB", Mig::default());
        lab.write(|node| node.gpus[0].processes = vec![Process { kind, ..Process::computing(77, Megabytes(1)) }]);
        let outcome = lab.attempt("all-1g.5gb");
        assert_eq!((state(&outcome), outcome.again), (Some(MigState::Failed), Again::All));
        assert!(reason(&outcome).contains("processes use it (77)"), "{}", reason(&outcome));
        assert_eq!((lab.shown().as_str(), lab.touched.get()), ("off", false));
        lab.write(|node| node.gpus[0].processes.clear());
        assert_eq!(state(&lab.attempt("all-1g.5gb")), Some(MigState::Success));
    }
}

#[test]
fn a_card_of_which_nobody_knows_whether_it_is_idle_is_not_touched() {
    let mut lab = Lab::of("A100-SXM4-40GB", cut());
    let before = lab.shown();
    for call in [
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMaxMigDeviceCount",
    ] {
        lab.write(|node| node.gpus[0].fail = [(Function::named(call).unwrap(), Answer::NoPermission)].into());
        let outcome = lab.lay_out("sevenths");
        assert!(reason(&outcome).contains(&format!("cannot be seen: {call} failed")), "{}", reason(&outcome));
        assert_eq!((lab.shown(), lab.touched.get()), (before.clone(), false));
    }
}

/// One card is busy: the others are cut, and the node is not called done.
#[test]
fn cards_that_are_idle_do_not_wait_for_those_that_are_not() {
    let node = Node::with(vec![Gpu::of("A100-SXM4-40GB"), Gpu::of("A100-SXM4-40GB")]);
    let mut lab = Lab::new(node);
    lab.write(|node| node.gpus[0].processes = vec![Process::computing(77, Megabytes(1))]);
    let outcome = lab.lay_out("whole");
    assert_eq!((state(&outcome), outcome.again), (Some(MigState::Failed), Again::All));
    assert!(reason(&outcome).starts_with("card 0 (GPU-"), "{}", reason(&outcome));
    assert_eq!(lab.shown(), "off | 7g.40gb@0[7@0]");
}

#[test]
fn a_configuration_that_does_not_fit_changes_no_card() {
    let file = "
version: v1
mig-configs:
  too-many: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}]
  no-room: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}]
  unknown: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 1}}]
  media: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb+me: 2}}]
  parts: [{devices: all, mig-enabled: true, mig-devices: {1c.7g.40gb: 8}}]
";
    let lab = Lab::of("A100-SXM4-40GB", cut());
    let before = lab.shown();
    for (label, says) in [
        ("too-many", "8 of 1g.5gb are wanted, and the card takes 7 at most"),
        ("no-room", "1\u{d7}1g.5gb + 2\u{d7}3g.20gb does not fit on the card, in whatever order it is placed"),
        ("unknown", "the card has no profile 1g.18gb; it has 1g.5gb, 2g.10gb"),
        ("media", "2 of 1g.5gb+me are wanted, and the card takes 1 at most"),
        ("parts", "2 of 7g.40gb are wanted, and the card takes 1 at most"),
        ("nothing", "there is no configuration \"nothing\"; known are media, no-room, parts, too-many, unknown"),
    ] {
        let outcome = lab.attempt_with(Some(label), Some(file));
        assert_eq!((state(&outcome), outcome.again), (Some(MigState::Failed), Again::Never), "{label}");
        assert!(reason(&outcome).contains(says), "{label}: {}", reason(&outcome));
        assert_eq!((lab.shown(), lab.touched.get()), (before.clone(), false), "{label}");
    }
    let outcome = lab.attempt_with(Some("a"), Some("version: v1\nmig-configs: {a: [{devices: all}]}\n"));
    assert!(reason(&outcome).contains("config.yaml, line 2"), "{}", reason(&outcome));
}

#[test]
fn a_node_without_the_label_is_left_as_it_is() {
    let lab = Lab::of("A100-SXM4-40GB", cut());
    let before = lab.shown();
    assert_eq!(lab.attempt_with(None, None), Outcome { status: None, again: Again::Never });
    assert_eq!((lab.shown(), lab.touched.get()), (before, false));
}

/// A process starts between the look and the change of the mode: the driver puts the change off.
fn pending(lab: &Lab) -> Watched {
    let mut busy = lab.node.clone();
    busy.gpus[0].processes = vec![Process::computing(9, Megabytes(1))];
    let path = lab.installation.description();
    Watched::by(move |_, call| {
        if call == "nvmlDeviceSetMigMode" {
            busy.write(&path).unwrap();
        }
        Ok(())
    })
}

#[test]
fn a_mode_that_waits_for_a_reset_is_no_success() {
    for (reboots, expected) in [(false, MigState::Failed), (true, MigState::Rebooting)] {
        for (from, label, waits) in [(Mig::default(), "sevenths", "on"), (cut(), "off", "off")] {
            let mut lab = Lab::of("A100-SXM4-40GB", from);
            lab.reboots = reboots;
            let watched = pending(&lab);
            let outcome = lab.lay_out(label);
            drop(watched);
            assert_eq!((state(&outcome), outcome.again), (Some(expected), Again::All));
            let says = format!("MIG is to be {waits} at the card's next reset only (");
            assert!(reason(&outcome).contains(&says), "{}", reason(&outcome));
            assert!(reason(&outcome).contains("nvidia-smi --gpu-reset -i 0"), "{}", reason(&outcome));
            assert_eq!(lab.journal().begun(), [], "it waits, and is not to be taken back");
            // After it the change goes on by itself.
            lab.write(|_| ());
            let outcome = lab.lay_out(label);
            assert_eq!(state(&outcome), Some(MigState::Success), "{}", reason(&outcome));
        }
    }
}

#[test]
fn a_driver_that_is_not_there_yet_is_waited_for() {
    let lab = Lab::of("A100-SXM4-40GB", Mig::default());
    let library = lab.installation.library();
    let away = library.with_extension("away");
    std::fs::rename(&library, &away).unwrap();
    let outcome = lab.lay_out("whole");
    assert_eq!((state(&outcome), outcome.again), (Some(MigState::Failed), Again::All));
    std::fs::rename(&away, &library).unwrap();
    assert_eq!(state(&lab.lay_out("whole")), Some(MigState::Success));
}
