//! Calls fail and processes are killed in the middle of changes: the card is as before, or as wanted.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use gpu_scheduler_nvml_mock::describe::{Function, NvmlError as Answer};

use super::*;

/// Changes of an A100: from, the label, and what is there afterwards.
fn changes() -> Vec<(Mig, &'static str)> {
    vec![(cut(), "thirds"), (cut(), "parts"), (Mig::default(), "twenty-ten"), (cut(), "off")]
}

fn new_lab() -> Lab {
    Lab::of("A100-SXM4-40GB", Mig::default())
}

/// What is there before and after, and how many calls the change makes.
fn undisturbed(lab: &mut Lab, from: &Mig, label: &str) -> (String, String, usize) {
    lab.reset(from);
    let before = lab.shown();
    let watched = Watched::by(|_, _| Ok(()));
    let outcome = lab.lay_out(label);
    assert_eq!(state(&outcome), Some(MigState::Success), "{}", reason(&outcome));
    (before, lab.shown(), watched.calls.get())
}

#[test]
fn one_call_fails_and_the_card_is_as_before() {
    let mut lab = new_lab();
    for (from, label) in changes() {
        let (before, after, calls) = undisturbed(&mut lab, &from, label);
        let mut put_back = 0;
        for failing in 0..calls {
            lab.reset(&from);
            let watched =
                Watched::by(move |number, _| if number == failing { Err(NvmlError::Unknown) } else { Ok(()) });
            let outcome = lab.lay_out(label);
            drop(watched);
            match state(&outcome) {
                Some(MigState::Success) => assert_eq!(lab.shown(), after, "{label}, call {failing}"),
                _ => assert_eq!(lab.shown(), before, "{label}, call {failing}: {}", reason(&outcome)),
            }
            put_back += usize::from(reason(&outcome).contains("it was put back as it was"));
            assert_eq!(lab.journal().begun(), [], "{label}, call {failing}");
        }
        assert!(put_back > 5, "{label}: {put_back}");
    }
}

#[test]
fn all_calls_fail_from_one_on_and_the_next_attempt_puts_the_card_back() {
    let mut lab = new_lab();
    for (from, label) in changes() {
        let (before, after, calls) = undisturbed(&mut lab, &from, label);
        let mut not_put_back = 0;
        for failing in 0..calls {
            lab.reset(&from);
            let watched =
                Watched::by(move |number, _| if number >= failing { Err(NvmlError::Unknown) } else { Ok(()) });
            let outcome = lab.lay_out(label);
            drop(watched);
            assert_eq!(state(&outcome), Some(MigState::Failed), "{label}, call {failing}");
            if reason(&outcome).contains("could not be put back") {
                not_put_back += 1;
                assert_eq!(outcome.again, Again::Recover, "{label}, call {failing}");
            }
            let recovered = lab.attempt_with(None, None);
            assert_eq!(recovered, Outcome { status: None, again: Again::Never }, "{label}, call {failing}");
            let shown = lab.shown();
            assert!(shown == before || shown == after, "{label}, call {failing}: {shown}");
            assert_eq!(lab.journal().begun(), []);
        }
        assert!(not_put_back > 5, "{label}: {not_put_back}");
    }
}

#[test]
fn a_kill_between_any_two_calls_is_repaired_at_the_next_start() {
    let mut lab = new_lab();
    for (from, label) in changes() {
        let (before, after, calls) = undisturbed(&mut lab, &from, label);
        let mut half_done = 0;
        for last in 0..calls {
            lab.reset(&from);
            let watched =
                Watched::by(move |number, _| if number == last { resume_unwind(Box::new(())) } else { Ok(()) });
            let killed = catch_unwind(AssertUnwindSafe(|| lab.lay_out(label)));
            drop(watched);
            assert!(killed.is_err(), "{label}, call {last}");
            let left = lab.shown();
            half_done += usize::from(left != before && left != after);
            lab.attempt_with(None, None);
            let shown = lab.shown();
            let expected = if left == after && left != before { &after } else { &before };
            assert_eq!(&shown, expected, "{label}, call {last}, left as {left}");
            assert_eq!(lab.journal().begun(), []);
            let outcome = lab.lay_out(label);
            assert_eq!(
                (state(&outcome), lab.shown()),
                (Some(MigState::Success), after.clone()),
                "{label}, call {last}"
            );
        }
        assert!(half_done > 2, "{label}: {half_done}");
    }
}

/// The card is in use when the agent starts again: it waits with the repair.
#[test]
fn an_interrupted_change_waits_for_an_idle_card() {
    let (from, label) = (cut(), "thirds");
    let lab = Lab::of("A100-SXM4-40GB", from);
    let before = lab.shown();
    let watched = Watched::by(|_, call| {
        if call == "nvmlDeviceCreateGpuInstanceWithPlacement" { resume_unwind(Box::new(())) } else { Ok(()) }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| lab.lay_out(label))).is_err());
    drop(watched);
    let card = lab.installation.machine().unwrap().cards[0].uuid.clone();
    lab.held.replace(BTreeSet::from([DeviceUuid::parse(&card).unwrap()]));
    assert_eq!(lab.attempt_with(None, None).again, Again::Recover);
    assert_ne!(lab.shown(), before);
    lab.held.replace(BTreeSet::new());
    assert_eq!(lab.attempt_with(None, None).again, Again::Never);
    assert_eq!(lab.shown(), before);
}

/// By the library's own answers: a call that never works.
#[test]
fn a_call_that_never_works_leaves_what_can_be_put_back() {
    let mut lab = new_lab();
    for call in [
        "nvmlDeviceGetGpuInstances",
        "nvmlComputeInstanceDestroy",
        "nvmlGpuInstanceDestroy",
        "nvmlDeviceSetMigMode",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceCreateComputeInstance",
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
        "nvmlGpuInstanceGetComputeInstanceProfileInfo",
        "nvmlGpuInstanceGetInfo",
        "nvmlDeviceGetGpuInstanceById",
    ] {
        for (from, label) in changes() {
            let (before, after, _) = undisturbed(&mut lab, &from, label);
            lab.reset(&from);
            lab.write(|node| node.gpus[0].fail = [(Function::named(call).unwrap(), Answer::Unknown)].into());
            let outcome = lab.lay_out(label);
            if state(&outcome) == Some(MigState::Success) {
                assert_eq!(lab.shown(), after, "{call} is not needed for {label}");
                continue;
            }
            assert!(reason(&outcome).contains(&format!("{call} failed: ")), "{call} {label}: {}", reason(&outcome));
            if lab.shown() != before {
                assert!(reason(&outcome).contains("it could not be put back"), "{call} {label}: {}", reason(&outcome));
                assert_eq!(lab.journal().begun().len(), 1);
            }
            lab.write(|node| node.gpus[0].fail.clear());
            lab.attempt_with(None, None);
            let shown = lab.shown();
            // Where only looking failed, all was done.
            assert!(shown == before || shown == after, "{call} {label}: {shown}");
            assert_eq!(lab.journal().begun(), [], "{call} {label}");
        }
    }
}

/// Older drivers do not tell places before the card is in the mode.
#[test]
fn a_driver_that_tells_profiles_in_the_mode_only() {
    let untold = |lab: &Lab, failing: Option<&'static str>| {
        let installation = lab.installation.description();
        Watched::by(move |_, call| {
            let machine = gpu_scheduler_nvml_mock::Machine::read(&installation).unwrap();
            match call {
                "nvmlDeviceGetGpuInstancePossiblePlacements_v2" if !machine.cards[0].mig.enabled => {
                    Err(NvmlError::NotSupported)
                }
                call if Some(call) == failing => Err(NvmlError::Unknown),
                _ => Ok(()),
            }
        })
    };
    let mut lab = new_lab();
    let watched = untold(&lab, None);
    for (label, shown) in
        [("all-7g.40gb", "7g.40gb@0[7@0]"), ("all-disabled", "off"), ("all-balanced", "1g.5gb@2[1@0]")]
    {
        assert_eq!(state(&lab.attempt(label)), Some(MigState::Success), "{label}");
        assert!(lab.shown().contains(shown), "{}", lab.shown());
    }
    drop(watched);
    for (label, failing, says) in [
        ("all-1g.18gb", None, "the card has no profile 1g.18gb"),
        ("all-1g.5gb", Some("nvmlDeviceCreateGpuInstanceWithPlacement"), "failed"),
    ] {
        lab.reset(&Mig::default());
        let watched = untold(&lab, failing);
        let outcome = lab.attempt(label);
        drop(watched);
        assert!(reason(&outcome).contains(says) && reason(&outcome).contains("put back"), "{}", reason(&outcome));
        assert_eq!(lab.shown(), "off");
    }
    let outcome = lab.attempt("all-nonsense");
    assert!(reason(&outcome).contains("there is no configuration"), "{}", reason(&outcome));
}
