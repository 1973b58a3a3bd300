//! The extension points, with small plugins that do one thing each.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Run, bound, cpu_pod, node, pod, sized};
use gpu_scheduler_engine::framework::{
    Filter, Permission, Permit, PluginName, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, Profile, Reason,
    Rescue, Reserve, Score, ScoreKind, Scoring, Selection, Verdict,
};
use gpu_scheduler_engine::model::{Allocation, Cost, Effect, NodeId, PodId, Timestamp};
use gpu_scheduler_engine::plugins::NodeResourcesFit;
use gpu_scheduler_engine::preemption::Attempt;
use gpu_scheduler_engine::state::{Class, NodeFacts, NodeState, PodEntry, State, Transaction};
use gpu_scheduler_engine::{Action, ConditionReason, Outcome, Place, PodPhase, PreBindStep};

/// What was called, in order, as decimal digits: a test plugin may hold an atomic, but no lock.
#[derive(Debug, Clone, Default)]
struct Calls(Arc<AtomicU64>);

impl Calls {
    fn note(&self, digit: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) * 10 + digit, Ordering::Relaxed);
    }
    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn reason(text: &str) -> Reason {
    Reason::Plugin(text.to_owned())
}

// ---- PreEnqueue ------------------------------------------------------------------------------------

/// Keeps pods out that have a gate of its own name.
#[derive(Debug)]
struct Gate(PluginName, u64, Calls);

impl PreEnqueue for Gate {
    fn name(&self) -> PluginName {
        self.0
    }
    fn pre_enqueue(&self, _: &State, pod: &PodEntry) -> Option<Reason> {
        self.2.note(self.1);
        pod.gates.iter().any(|g| g == self.0).then(|| reason("shut"))
    }
}

#[test]
fn pre_enqueue_asks_in_order_until_one_refuses() {
    let calls = Calls::default();
    let profile = Profile::default().with_pre_enqueue(Gate("first", 1, calls.clone())).with_pre_enqueue(Gate(
        "second",
        2,
        calls.clone(),
    ));
    let mut run = Run::profile(profile);
    run.nodes([node("n1")]);
    let mut gated = pod("a");
    for (gates, asked, place) in
        [(vec!["first", "second"], 1, Some(Place::Gated)), (vec!["second"], 12, Some(Place::Gated)), (vec![], 12, None)]
    {
        gated.gates = gates.into_iter().map(str::to_owned).collect();
        run.pods([gated.clone()]);
        let binds = run.settle();
        assert_eq!(calls.take(), asked, "{:?}", gated.gates);
        match place {
            Some(place) => assert_eq!(run.explain("a").phase, PodPhase::Waiting(place)),
            None => assert_eq!(binds, [("a".to_owned(), "n1".to_owned())]),
        }
    }
}

// ---- PreFilter and Filter --------------------------------------------------------------------------

/// Lets these nodes through, or with an empty list refuses outright.
#[derive(Debug)]
struct Narrow(PluginName, &'static [&'static str], u64, Calls);

impl PreFilter for Narrow {
    fn name(&self) -> PluginName {
        self.0
    }
    fn pre_filter(&self, state: &State, _class: &Class) -> Selection {
        self.3.note(self.2);
        if self.1.is_empty() {
            return Selection::Reject(reason("not today"));
        }
        let mut names: Vec<_> = self.1.iter().filter_map(|n| state.symbols().get(n)).collect();
        names.sort_unstable();
        Selection::Only(names)
    }
}

fn narrowed(first: &'static [&'static str], second: &'static [&'static str]) -> (Run, Calls) {
    let calls = Calls::default();
    let profile = Profile::default().with_pre_filter(Narrow("First", first, 1, calls.clone())).with_pre_filter(Narrow(
        "Second",
        second,
        2,
        calls.clone(),
    ));
    let mut run = Run::profile(profile);
    run.nodes([node("n1"), node("n2"), node("n3")]).pods([pod("a")]);
    run.settle();
    (run, calls)
}

#[test]
fn pre_filters_intersect() {
    let (run, calls) = narrowed(&["n1", "n2"], &["n3", "n2"]);
    assert_eq!(run.node_of("a").as_deref(), Some("n2"));
    assert_eq!(calls.take(), 12, "asked once a class, not once a node");
}

#[test]
fn a_pre_filter_that_refuses_ends_it() {
    let (run, calls) = narrowed(&[], &["n1"]);
    assert_eq!(calls.take(), 1);
    assert_eq!(run.message("a"), "0/3 nodes are available: not today.");
}

#[test]
fn pre_filters_that_contradict_each_other_say_so() {
    let (run, _) = narrowed(&["n1"], &["n2"]);
    let both = "0/3 nodes are available: node(s) didn't satisfy plugin(s) [First Second] simultaneously.";
    assert_eq!(run.message("a"), both);
}

/// Refuses nodes.
#[derive(Debug)]
struct Refuse(PluginName, &'static [&'static str], u64, Calls);

impl Filter for Refuse {
    fn name(&self) -> PluginName {
        self.0
    }
    fn filter(&self, _: &State, _: &Class, node: &NodeState, _: &NodeFacts) -> Verdict {
        self.3.note(self.2);
        if self.1.contains(&&**node.name()) { Verdict::unschedulable(reason(self.0)) } else { Verdict::Pass }
    }
}

#[test]
fn the_first_filter_that_refuses_is_the_reason() {
    let calls = Calls::default();
    let profile = Profile::default().with_filter(Refuse("first", &["n1"], 1, calls.clone())).with_filter(Refuse(
        "second",
        &["n1", "n2"],
        2,
        calls.clone(),
    ));
    let mut run = Run::profile(profile);
    run.nodes([node("n1"), node("n2")]).pods([pod("a")]).rest();
    assert_eq!(calls.take(), 112, "n1 stops at the first, n2 goes on to the second");
    assert_eq!(run.message("a"), "0/2 nodes are available: 1 first, 1 second.");
}

#[test]
fn a_node_outside_the_selection_names_who_left_it_out() {
    let calls = Calls::default();
    let profile = Profile::default().with_pre_filter(Narrow("First", &["n1"], 1, calls.clone())).with_filter(Refuse(
        "full",
        &["n1"],
        2,
        calls,
    ));
    let mut run = Run::profile(profile);
    run.nodes([node("n1"), node("n2")]).pods([pod("a")]).rest();
    let expected = "0/2 nodes are available: 1 full, 1 node(s) didn't satisfy plugin(s) [First].";
    assert_eq!(run.message("a"), expected);
    assert_eq!(run.permanent("a", "n2"), Some(true));
}

// ---- Score -----------------------------------------------------------------------------------------

/// Says these numbers for n1 and n2.
#[derive(Debug, Clone, Copy)]
struct Says(ScoreKind, i64, i64);

impl Score for Says {
    fn name(&self) -> PluginName {
        "Says"
    }
    fn kind(&self) -> ScoreKind {
        self.0
    }
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        if &**placement.node.name() == "n1" { self.1 } else { self.2 }
    }
}

/// Notes that it is asked; whether twins get the same from it is what it was made with.
#[derive(Debug)]
struct Asked(bool, Calls);

impl Score for Asked {
    fn name(&self) -> PluginName {
        "Asked"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    fn score(&self, _placement: &Scoring<'_>) -> i64 {
        self.1.note(1);
        0
    }
    fn same_on_twins(&self, _class: &Class) -> bool {
        self.0
    }
}

/// Four empty nodes are alike, one has other CPU, one has a taint: only who says so is spared the twins.
#[test]
fn twins_are_scored_once_where_the_plugin_allows_it() {
    for (allows, expected) in [(true, 111), (false, 111_111)] {
        let calls = Calls::default();
        let mut run = Run::profile(Profile::default().with_score(Asked(allows, calls.clone()), 1));
        let tainted = common::tainted(sized("n6", 8000, 1024), "gpu", "yes", Effect::PreferNoSchedule);
        run.nodes(["n1", "n2", "n3", "n4"].map(|name| sized(name, 8000, 1024)));
        run.nodes([sized("n5", 16_000, 1024), tainted]);
        assert_eq!(run.place(cpu_pod("a", 1000)).as_deref(), Some("n1"));
        assert_eq!(calls.take(), expected, "twins get the same: {allows}");
    }
}

fn winner(profile: Profile) -> String {
    let mut run = Run::profile(profile);
    run.nodes([node("n1"), node("n2")]);
    run.place(pod("a")).expect("both nodes do")
}

/// A point is worth 10 milli-GPU. So each row sets points against a cost that just balances them, where the
/// first node wins the tie, and against one thousandth of a milli-GPU more, where the other one wins.
#[test]
fn points_and_costs_balance_to_the_thousandth() {
    let exact = |points: i64| Cost::milli(10 * points).0;
    for (says, weight, ahead) in [
        (Says(ScoreKind::Points, 60, 40), 1, 20),
        (Says(ScoreKind::Points, 60, 40), 3, 60),
        // 100 * 2 / 3 = 66, cut off.
        (Says(ScoreKind::Normalized, 3, 2), 1, 34),
        (Says(ScoreKind::Normalized, 3, 2), 2, 68),
        // The other way round: 100 - 100 * 2 / 3 = 34, and 0 for the largest.
        (Says(ScoreKind::NormalizedReverse, 2, 3), 1, 34),
        (Says(ScoreKind::NormalizedReverse, 0, 7), 1, 100),
        // Nobody scores: all are equal.
        (Says(ScoreKind::Normalized, 0, 0), 5, 0),
        (Says(ScoreKind::NormalizedReverse, 0, 0), 5, 0),
    ] {
        let against = |discount: i64| {
            Profile::default().with_score(says, weight).with_score(Says(ScoreKind::Cost, 0, -discount), 1)
        };
        assert_eq!(winner(against(exact(ahead))), "n1", "{says:?} times {weight}");
        assert_eq!(winner(against(exact(ahead) + 1)), "n2", "{says:?} times {weight}");
    }
}

#[test]
fn costs_are_weighed_and_the_lowest_wins() {
    let profile = |weight| {
        Profile::default().with_score(Says(ScoreKind::Cost, 5, 9), 1).with_score(Says(ScoreKind::Cost, 3, 1), weight)
    };
    assert_eq!(winner(profile(1)), "n1"); // 8 and 10
    assert_eq!(winner(profile(2)), "n1"); // 11 and 11
    assert_eq!(winner(profile(3)), "n2"); // 14 and 12
}

#[test]
fn the_preference_weight_can_be_set() {
    let profile = |milli| {
        Profile::default()
            .with_preference_weight(Cost::milli(milli))
            .with_score(Says(ScoreKind::Points, 0, 10), 1)
            .with_score(Says(ScoreKind::Cost, 0, 50_000), 1)
    };
    assert_eq!(winner(profile(5)), "n1"); // 10 points at 5 milli-GPU balance 50
    assert_eq!(winner(profile(6)), "n2");
}

#[test]
fn ties_go_to_the_lowest_slot() {
    let mut run = Run::profile(Profile::default());
    run.nodes([node("n1"), node("n2")]);
    assert_eq!(run.place(pod("a")).as_deref(), Some("n1"));
    run.delete("a");
    run.engine.handle(run.now, gpu_scheduler_engine::Event::NodeDeleted { name: "n1".into() });
    run.nodes([node("z")]);
    assert_eq!(run.place(pod("b")).as_deref(), Some("z"), "a new node takes the lowest free slot");
}

// ---- Reserve ---------------------------------------------------------------------------------------

/// Reserves or refuses; notes `digit` for reserve and `digit + 1` for unreserve.
#[derive(Debug)]
struct Keep(PluginName, bool, u64, Calls);

impl Reserve for Keep {
    fn name(&self) -> PluginName {
        self.0
    }
    fn reserve(&self, state: &State, pod: PodId, node: NodeId) -> Verdict {
        assert_eq!(state.pod(pod).and_then(|p| p.placed.as_ref()).map(|p| p.node), Some(node), "assumed first");
        self.3.note(self.2);
        if self.1 { Verdict::Pass } else { Verdict::unschedulable(reason("no volume left")) }
    }
    fn unreserve(&self, state: &State, pod: PodId, _: NodeId) {
        assert!(state.pod(pod).is_some_and(|p| p.placed.is_some()), "undone last");
        self.3.note(self.2 + 1);
    }
}

#[test]
fn a_refused_reservation_is_undone_and_backs_off() {
    let calls = Calls::default();
    let profile = Profile::default().with_reserve(Keep("First", true, 1, calls.clone())).with_reserve(Keep(
        "Second",
        false,
        3,
        calls.clone(),
    ));
    let mut run = Run::profile(profile);
    run.nodes([node("n1")]).pods([cpu_pod("a", 1000)]);
    for wait in [1000, 2000, 4000] {
        let actions = run.rest();
        assert!(!actions.iter().any(|a| matches!(a, Action::Bind { .. })), "{actions:?}");
        assert_eq!(calls.take(), 1342, "reserved in order, unreserved in reverse");
        let until = Timestamp(run.now.0 + wait);
        assert_eq!(run.explain("a").phase, PodPhase::Waiting(Place::Backoff(until)));
        assert_eq!(run.engine.next_wakeup(), Some(until));
        assert_eq!(run.message("a"), "Second: no volume left");
        assert!(run.engine.state().node_named("n1").is_some_and(|n| n.pods().is_empty() && n.requested().is_zero()));
        run.wait(wait - 1);
        assert!(run.rest().is_empty(), "not before its time");
        run.wait(1);
    }
}

// ---- Permit ----------------------------------------------------------------------------------------

/// Holds pods until so many are placed.
#[derive(Debug)]
struct Gang(usize);

impl Permit for Gang {
    fn name(&self) -> PluginName {
        "Gang"
    }
    fn permit(&self, now: Timestamp, state: &State, _: PodId, _: NodeId) -> Permission {
        let placed = state.pods().filter(|p| p.placed.is_some()).count();
        if placed >= self.0 { Permission::Allow } else { Permission::Wait(Timestamp(now.0 + 60_000)) }
    }
}

fn binds(actions: &[Action]) -> Vec<&str> {
    actions.iter().filter_map(|a| if let Action::Bind { uid, .. } = a { Some(&*uid.0) } else { None }).collect()
}

#[test]
fn held_pods_are_bound_together() {
    let mut run = Run::profile(Profile::default().with_permit(Gang(3)));
    run.nodes([node("n1")]).pods([pod("a"), pod("b")]);
    assert_eq!(binds(&run.rest()), [""; 0]);
    assert!(matches!(run.explain("a").phase, PodPhase::Placed { bound: false, .. }), "held, with its place");
    run.pods([pod("c")]);
    let mut together = run.rest();
    together.sort_by_key(|a| if let Action::Bind { uid, .. } = a { uid.to_string() } else { String::new() });
    assert_eq!(binds(&together), ["a", "b", "c"]);
    assert_eq!(run.engine.next_wakeup(), None, "no wait is left");
}

#[test]
fn a_held_pod_gives_up_in_time_and_frees_its_place() {
    let profile = Profile::default().with_filter(NodeResourcesFit).with_permit(Gang(3));
    let mut run = Run::profile(profile);
    run.nodes([sized("n1", 1000, 1024)]).pods([cpu_pod("a", 900)]);
    run.rest();
    let deadline = Timestamp(run.now.0 + 60_000);
    assert_eq!(run.engine.next_wakeup(), Some(deadline));
    run.wait(30_000);
    // Asked again because another pod was placed: the first deadline stays.
    run.pods([cpu_pod("b", 100)]).rest();
    assert_eq!(run.engine.next_wakeup(), Some(deadline));
    run.wait(30_000);
    let actions = run.rest();
    assert_eq!(binds(&actions), [""; 0]);
    assert_eq!(run.message("a"), "timed out waiting for permission to bind");
    assert_eq!(run.explain("a").phase, PodPhase::Waiting(Place::Backoff(Timestamp(run.now.0 + 1000))));
    assert_eq!(
        run.engine.state().node_named("n1").map(|n| n.requested().cpu),
        Some(100),
        "the other one is still held"
    );
}

#[test]
fn a_held_pod_that_is_deleted_frees_its_place() {
    let mut run = Run::profile(Profile::default().with_permit(Gang(9)));
    run.nodes([node("n1")]).pods([cpu_pod("a", 1000)]).rest();
    run.delete("a");
    assert!(run.engine.state().node_named("n1").is_some_and(|n| n.requested().is_zero()));
    assert_eq!(run.engine.next_wakeup(), None);
}

// ---- PreBind, Bind, PostBind -----------------------------------------------------------------------

/// Wants something done first.
#[derive(Debug)]
struct Prepare(PluginName);

impl PreBind for Prepare {
    fn name(&self) -> PluginName {
        self.0
    }
    fn pre_bind(&self, _: &State, _: PodId, _: NodeId) -> Option<PreBindStep> {
        Some(PreBindStep::Other { plugin: self.0.into(), work: format!("{} works", self.0) })
    }
}

/// Counts binds.
#[derive(Debug)]
struct Count(Calls);

impl PostBind for Count {
    fn name(&self) -> PluginName {
        "Count"
    }
    fn post_bind(&self, state: &State, pod: PodId, node: NodeId) {
        let placed = state.pod(pod).and_then(|p| p.placed.as_ref()).expect("a bound pod has a place");
        assert_eq!((placed.node, placed.stage), (node, gpu_scheduler_engine::state::Stage::Bound));
        self.0.note(1);
    }
}

fn tickets(actions: &[Action]) -> Vec<gpu_scheduler_engine::model::Ticket> {
    let ticket = |a: &Action| match a {
        Action::PreBind { ticket, .. } | Action::Bind { ticket, .. } => Some(*ticket),
        _ => None,
    };
    actions.iter().filter_map(ticket).collect()
}

fn prepared(calls: &Calls) -> (Run, Vec<gpu_scheduler_engine::model::Ticket>) {
    let profile = Profile::default()
        .with_pre_bind(Prepare("Disk"))
        .with_pre_bind(Prepare("Claim"))
        .with_post_bind(Count(calls.clone()));
    let mut run = Run::profile(profile);
    run.nodes([node("n1")]).pods([cpu_pod("a", 1000)]);
    let actions = run.rest();
    assert_eq!(binds(&actions), [""; 0], "preparations come first");
    let tickets = tickets(&actions);
    assert_eq!(tickets.len(), 2);
    (run, tickets)
}

#[test]
fn the_bind_waits_for_all_preparations() {
    let calls = Calls::default();
    let (mut run, open) = prepared(&calls);
    run.answer(open[1], Outcome::Done);
    assert!(run.rest().is_empty());
    run.answer(open[0], Outcome::Done);
    let bind = run.rest();
    assert_eq!(binds(&bind), ["a"]);
    assert_eq!(calls.take(), 0, "not bound yet");
    run.answer(tickets(&bind)[0], Outcome::Done);
    run.pods([bound(cpu_pod("a", 1000), "n1", Some(Allocation::default()))]);
    run.answer(tickets(&bind)[0], Outcome::Done).rest();
    assert_eq!(calls.take(), 1, "told once");
}

#[test]
fn a_bind_that_is_seen_before_it_is_answered_counts_once() {
    let calls = Calls::default();
    let mut run = Run::profile(Profile::default().with_post_bind(Count(calls.clone())));
    run.nodes([node("n1")]).pods([pod("a")]);
    let bind = run.rest();
    run.pods([bound(pod("a"), "n1", Some(Allocation::default()))]);
    run.answer(tickets(&bind)[0], Outcome::Done).rest();
    assert_eq!(calls.take(), 1);
    run.answer(tickets(&bind)[0], Outcome::Failed("late".into())).rest();
    assert!(matches!(run.explain("a").phase, PodPhase::Placed { bound: true, .. }), "a late answer changes nothing");
}

#[test]
fn a_failed_preparation_gives_everything_back() {
    let calls = Calls::default();
    let (mut run, open) = prepared(&calls);
    run.answer(open[0], Outcome::Failed("disk is gone".into()));
    let actions = run.rest();
    let said = actions.iter().find_map(|a| match a {
        Action::SetCondition { condition, .. } => Some((condition.reason, condition.message.to_string())),
        _ => None,
    });
    assert_eq!(said, Some((ConditionReason::SchedulerError, "disk is gone".to_owned())));
    assert!(run.engine.state().node_named("n1").is_some_and(|n| n.requested().is_zero()));
    run.answer(open[1], Outcome::Done);
    assert!(run.rest().is_empty(), "the other preparation's answer means nothing now");
    run.wait(1000);
    assert_eq!(tickets(&run.rest()).len(), 2, "all is prepared anew");
    assert_eq!(calls.take(), 0);
}

// ---- PostFilter ------------------------------------------------------------------------------------

/// Throws everybody out, which must not count.
#[derive(Debug)]
struct Evictor(Calls);

impl PostFilter for Evictor {
    fn name(&self) -> PluginName {
        "Evictor"
    }
    fn post_filter(&self, what_if: &mut Transaction<'_>, _: &Profile, _: Attempt<'_>) -> Rescue {
        self.0.note(1);
        let placed: Vec<PodId> = what_if.pods().filter(|p| p.placed.is_some()).map(|p| p.id).collect();
        for pod in &placed {
            assert!(what_if.remove(*pod).is_some());
            assert!(what_if.remove(*pod).is_none(), "removing twice is a no-op");
        }
        Rescue::Helpless(format!("{} evicted in vain.", placed.len()))
    }
}

#[test]
fn post_filter_adds_to_the_message_and_changes_nothing() {
    let calls = Calls::default();
    let profile = Profile::default().with_filter(NodeResourcesFit).with_post_filter(Evictor(calls.clone()));
    let mut run = Run::profile(profile);
    run.nodes([sized("n1", 1000, 1024)]);
    run.place(cpu_pod("a", 600));
    assert_eq!(calls.take(), 0, "not where a node does");
    run.pods([cpu_pod("b", 600)]);
    let before = run.engine.state().content_hash();
    run.rest();
    assert_eq!((calls.take(), run.engine.state().content_hash()), (1, before));
    let message = run.message("b");
    assert!(message.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{message}");
    assert!(message.ends_with(" 1 evicted in vain."), "{message}");
    assert_eq!(run.node_of("a").as_deref(), Some("n1"));
}
