//! What must hold whatever happens, worked out again from what the engine shows.

use std::collections::BTreeSet;

use gpu_scheduler_engine::ledger::{Card, Closed, HoldKind};
use gpu_scheduler_engine::model::{DeviceReport, Mib, Partitioning, Percent, Resources, TopologyManager};
use gpu_scheduler_engine::state::{NodeState, State};
use gpu_scheduler_engine::{Place, PodPhase};

use super::OURS;
use super::world::World;

/// The ledger and the nodes' sums.
pub fn state(state: &State) {
    for node in state.nodes() {
        sums(state, node);
        bare(state, node);
        for card in node.ledger().cards() {
            holders(state, node, card);
            if !matches!(card.room().closed, Some(Closed::Overcommitted(_))) {
                within_capacity(card);
            }
            room(card);
        }
    }
    volumes(state);
    for pod in state.pods() {
        let on: Vec<_> = state.nodes().filter(|n| n.pods().contains(&pod.id)).map(NodeState::id).collect();
        let holding: Vec<_> = state.nodes().filter(|n| n.ledger().holds(pod.id)).map(NodeState::id).collect();
        match &pod.placed {
            None => assert!(on.is_empty() && holding.is_empty(), "{} is nowhere and on {on:?} {holding:?}", pod.name),
            Some(placed) => {
                assert_eq!(on, [placed.node], "{} is on one node", pod.name);
                assert!(holding.iter().all(|n| *n == placed.node), "{} holds cards elsewhere", pod.name);
                let devices = placed.allocation.containers.iter().map(|c| c.devices.len()).sum::<usize>();
                assert_eq!(devices > 0, !holding.is_empty(), "{}: its record and the ledger differ", pod.name);
            }
        }
    }
}

/// Who has volumes where.
fn volumes(state: &State) {
    for node in state.nodes() {
        let has = |id: &&gpu_scheduler_engine::model::PodId| {
            let pod = state.pod(**id).expect("a node's pods exist");
            state.class(pod.class).spec.volumes.is_some()
        };
        let expected: Vec<_> = node.pods().iter().filter(has).copied().collect();
        assert_eq!(node.voluminous(), expected, "pods with volumes on {}", node.name());
    }
    for pod in state.pods() {
        let volumes = state.class(pod.class).spec.volumes.as_ref();
        for claim in volumes.iter().flat_map(|v| v.claims.iter()) {
            assert!(state.volumes().users(&claim.name).any(|id| id == pod.id), "{} uses {}", pod.name, claim.name);
        }
    }
}

fn sums(state: &State, node: &NodeState) {
    let (mut requested, mut cpu, mut memory, mut ports) = (Resources::default(), 0, 0, Vec::new());
    for id in node.pods() {
        let pod = state.pod(*id).expect("a node's pods exist");
        requested.add(&pod.charge.requests);
        cpu += pod.charge.non_zero_cpu;
        memory += pod.charge.non_zero_memory;
        ports.extend_from_slice(&pod.charge.ports);
    }
    ports.sort_unstable();
    assert_eq!(node.requested(), &requested, "requests on {}", node.name());
    assert_eq!(node.non_zero_requested(), (cpu, memory), "requests for scores on {}", node.name());
    assert_eq!(node.ports(), ports, "ports on {}", node.name());
    let allocatable = node.facts().map(|f| (f.allocatable().cpu, f.allocatable().memory)).unwrap_or_default();
    let free = (allocatable.0 - requested.cpu, allocatable.1 - requested.memory);
    assert_eq!((node.headroom().cpu, node.headroom().memory), free, "headroom of {}", node.name());
    let rooms = node.ledger().rooms();
    assert_eq!(node.headroom().cards, rooms, "card headroom of {}", node.name());
}

/// What lets nodes share a score, against all that a score may read of them.
fn bare(state: &State, node: &NodeState) {
    let idle = |card: &Card| {
        let room = card.room();
        let nobody = card.holdings().is_empty() && card.unexplained() == Mib(0) && room.closed.is_none();
        let all = Some(room.memory) == card.spec().memory && room.compute == Percent::ALL && room.idle.0 == 1000;
        nobody && all && room.whole && room.shareable && card.spec().partitioning == Partitioning::OnDemand
    };
    let cards = node.ledger().cards();
    let kinds: Vec<_> = cards.iter().map(|c| (c.model(), c.spec().memory)).collect();
    let expected = node.facts().is_some_and(|f| f.taints().is_empty())
        && node.pods().is_empty()
        && cards.iter().all(idle)
        && kinds.is_sorted();
    assert_eq!(node.is_bare(), expected, "{} is bare", node.name());
    for twin in state.nodes().filter(|other| node.is_twin_of(other)) {
        assert_eq!(node.headroom().cpu, twin.headroom().cpu, "CPU of {} and {}", node.name(), twin.name());
        assert_eq!(node.headroom().cards, twin.headroom().cards, "cards of {} and {}", node.name(), twin.name());
        assert_eq!(node.group(), twin.group(), "group of {} and {}", node.name(), twin.name());
    }
}

fn holders(state: &State, node: &NodeState, card: &Card) {
    let pods: BTreeSet<_> = card.holdings().iter().map(|h| h.pod).collect();
    assert_eq!(pods.len(), card.holdings().len(), "a pod holds {} twice", card.uuid());
    for holding in card.holdings() {
        let pod = state.pod(holding.pod).expect("a holder exists");
        assert_eq!(pod.uid, holding.uid, "{} is held by a pod that is another now", card.uuid());
        assert_eq!(pod.placed.as_ref().map(|p| p.node), Some(node.id()), "{} holds and is elsewhere", pod.name);
    }
    assert!(card.present() || !card.holdings().is_empty(), "{} is gone and nobody holds it", card.uuid());
}

fn within_capacity(card: &Card) {
    let holdings = card.holdings();
    if holdings.is_empty() {
        return;
    }
    assert!(card.present(), "{} is held and gone, and not called overcommitted", card.uuid());
    let kinds: BTreeSet<_> = holdings.iter().map(|h| h.kind).collect();
    assert_eq!(kinds.len(), 1, "{} is held in two ways", card.uuid());
    let memory: u64 = holdings.iter().map(|h| h.memory.0).sum();
    let compute: u32 = holdings.iter().map(|h| h.compute.0).sum();
    let seats: u32 = holdings.iter().map(|h| h.seats).sum();
    let slices: Vec<u16> = holdings.iter().flat_map(|h| h.slices.iter().copied()).collect();
    match (kinds.first(), &card.spec().partitioning) {
        (Some(HoldKind::Whole), Partitioning::OnDemand) => assert_eq!(holdings.len(), 1, "{}", card.uuid()),
        (Some(HoldKind::Share), Partitioning::OnDemand) => {
            assert!(card.spec().memory.is_none_or(|total| Mib(memory) <= total), "{} memory", card.uuid());
            assert!(compute <= 100, "{} compute", card.uuid());
        }
        (Some(HoldKind::Seat), Partitioning::TimeSliced { seats: all }) => assert!(seats <= *all, "{}", card.uuid()),
        (Some(HoldKind::Slice), Partitioning::Mig(all)) => {
            assert!(slices.iter().all(|s| usize::from(*s) < all.len()), "{} has no such slice", card.uuid());
            assert_eq!(slices.iter().collect::<BTreeSet<_>>().len(), slices.len(), "{} slice twice", card.uuid());
        }
        other => panic!("{} is held as {other:?}", card.uuid()),
    }
}

/// What a card says is left, against its holders.
fn room(card: &Card) {
    let room = card.room();
    if room.closed.is_some() {
        let nothing = (room.whole, room.shareable, room.memory, room.compute, room.seats, room.idle.0);
        assert_eq!(nothing, (false, false, Mib(0), Percent(0), 0, 0), "{} is closed", card.uuid());
        return;
    }
    let holdings = card.holdings();
    assert!(!room.whole || holdings.is_empty(), "{} is whole-free and held", card.uuid());
    // A slice's size is what its profile's name says, in round GB: sums of them are no exact parts of a card.
    if card.partitions().is_empty() {
        assert!(room.idle.0 <= 1000 - card.held().0, "{} idles more than is not held", card.uuid());
    }
    if room.shareable {
        let held: u64 = holdings.iter().map(|h| h.memory.0).sum();
        let total = card.spec().memory.expect("a card is shared by a memory that is known");
        assert!(room.memory.0 + held + card.foreign().0 <= total.0.max(held + card.foreign().0), "{}", card.uuid());
        let compute: u32 = holdings.iter().map(|h| h.compute.0).sum();
        assert_eq!(room.compute.0, 100_u32.saturating_sub(compute), "{}", card.uuid());
        assert!(holdings.iter().all(|h| h.kind == HoldKind::Share), "{} is shared and held whole", card.uuid());
    }
    let seats: u32 = holdings.iter().map(|h| h.seats).sum();
    if let Partitioning::TimeSliced { .. } = card.spec().partitioning {
        assert_eq!(room.seats, card.seats().saturating_sub(seats), "{}", card.uuid());
    }
}

/// No pod is lost, and at rest nobody waits who could run.
pub fn pods(world: &World, at_rest: bool) {
    // Within a transaction a plan outlives its placement.
    for pod in world.engine.state().pods() {
        assert!(pod.plan.is_none() || pod.placed.is_some(), "{} plans and is nowhere", pod.name);
    }
    for pod in world.pods.values() {
        let explained = world.engine.explain(&pod.uid);
        if pod.scheduler != OURS && pod.assignment.is_none() {
            assert!(explained.is_none(), "{} is none of ours", pod.name);
            continue;
        }
        let explained = explained.unwrap_or_else(|| panic!("{} is not known", pod.name));
        match (&pod.assignment, &explained.phase) {
            (Some(assignment), PodPhase::Placed { node, bound: true, .. }) => {
                assert_eq!(assignment.node, **node, "{} is elsewhere", pod.name);
            }
            (None, PodPhase::Terminating) => assert!(pod.terminating, "{} is lost", pod.name),
            (None, PodPhase::Placed { bound: false, .. }) => {
                let open = world.open.iter().any(|o| o.uid == pod.uid);
                // An agent's node takes pods that ask alike one after another, and where NUMA nodes count, all of them.
                let in_turn = |r: &DeviceReport| r.steered || r.topology_manager.is_some_and(TopologyManager::aligns);
                let in_turn = world.reports.values().any(in_turn) && !world.open.is_empty();
                let held = (world.holds && world.engine.next_wakeup().is_some()) || in_turn;
                assert!(open || held || !at_rest, "{} is in flight, and nothing is open for it", pod.name);
            }
            (None, PodPhase::Waiting(place)) => {
                assert!(!pod.terminating, "{} is being deleted and waits", pod.name);
                let alone = pod.group.is_none();
                assert!(*place != Place::Gated || !pod.gates.is_empty() || !alone, "{} is gated", pod.name);
                assert!(*place == Place::Gated || pod.gates.is_empty(), "{} is not gated", pod.name);
                if at_rest {
                    waits_for_a_reason(world, *place, &explained, alone);
                }
            }
            (assignment, phase) => panic!("{}: the world says {assignment:?}, the engine {phase:?}", pod.name),
        }
    }
    assert_eq!(
        world.engine.state().pods().filter(|p| !world.pods.contains_key(&p.uid.to_string())).count(),
        0,
        "the engine knows a pod that is gone"
    );
}

fn waits_for_a_reason(world: &World, place: Place, explained: &gpu_scheduler_engine::Explanation, alone: bool) {
    match place {
        Place::Active => panic!("{} is ready, and the engine rests", explained.pod),
        Place::InFlight => panic!("{} is in flight and has no place", explained.pod),
        Place::Gated => {}
        Place::Backoff(until) => assert!(until > world.now, "the backoff of {} is over", explained.pod),
        Place::Unschedulable(_) => {
            // A pod of a gang may fit where all of them together do not.
            assert!(explained.best.is_none() || !alone, "{} waits, and {:?} fits", explained.pod, explained.best);
            assert!(explained.message.is_some(), "{} does not say why it waits", explained.pod);
        }
    }
}
