//! The search for cards, against one that tries everything; and what a policy is shown of a placement
//! against what then comes.

mod common;

use common::{CARD, Run, bound, gpu_node, gpu_pod, pod, record, share, whole, with_cards};
use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::ledger::{Card, CardChoice, place};
use gpu_scheduler_engine::model::{
    Container, ContainerKind, Demand, GpuRequest, GrantKind, Mib, Partition, Partitioning, Percent, Pod, ShareMemory,
};
use gpu_scheduler_engine::state::NodeState;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A pod of these containers, in order.
fn several(name: &str, containers: &[(ContainerKind, Demand)]) -> Pod {
    let mut pod = pod(name);
    pod.containers = (0..)
        .zip(containers)
        .map(|(i, (kind, demand))| {
            let mut container = Container::new(format!("c{i}"), *kind, [].into());
            container.gpu = vec![demand.clone()];
            container
        })
        .collect();
    pod
}

fn request_of(run: &Run, uid: &str) -> GpuRequest {
    let state = run.engine.state();
    let pod = state.pod_of(&uid.into()).expect("the test made this pod");
    state.class(pod.class).spec.gpu.clone()
}

fn node_of(run: &Run) -> &NodeState {
    run.engine.state().node_named("n1").expect("the test made this node")
}

/// What runs at the same time: each init container beside the sidecars before it, then the rest together.
fn phases(kinds: &[ContainerKind]) -> Vec<Vec<usize>> {
    let mut phases = Vec::new();
    let mut sidecars = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        match kind {
            ContainerKind::Sidecar => sidecars.push(at),
            ContainerKind::Init => phases.push([sidecars.as_slice(), &[at]].concat()),
            ContainerKind::App => {}
        }
    }
    let lasting = (0..kinds.len()).filter(|at| kinds[*at] != ContainerKind::Init);
    phases.push(lasting.collect());
    phases
}

/// Whether these cards for each container do, phase by phase and card by card.
fn does(request: &GpuRequest, cards: &[Card], chosen: &[Vec<usize>]) -> bool {
    let kinds: Vec<_> = request.containers.iter().map(|c| c.kind).collect();
    phases(&kinds).iter().all(|phase| {
        cards.iter().enumerate().all(|(at, card)| {
            let here: Vec<&Demand> = phase
                .iter()
                .filter(|c| chosen[**c].contains(&at))
                .map(|c| &request.containers[*c].demands[0])
                .collect();
            let mut memory = 0;
            let mut compute = 0;
            for demand in &here {
                match demand {
                    Demand::Cards { .. } => return card.room().whole && here.len() == 1,
                    Demand::Share { memory: ShareMemory::Mib(m), compute: c, .. } => {
                        memory += m.0;
                        compute += c.0;
                    }
                    other => panic!("not drawn: {other:?}"),
                }
            }
            here.is_empty()
                || (card.room().shareable
                    && Mib(memory) <= card.room().memory
                    && Percent(compute) <= card.room().compute)
        })
    })
}

/// All ways to choose as many distinct cards as each container asks.
fn every_choice(request: &GpuRequest, cards: usize) -> Vec<Vec<Vec<usize>>> {
    let mut all = vec![Vec::new()];
    for container in &request.containers {
        let (Demand::Cards { count } | Demand::Share { count, .. }) = container.demands[0] else { panic!("not drawn") };
        let sets: Vec<Vec<usize>> = (0_u32..1 << cards)
            .filter(|set| set.count_ones() == count)
            .map(|set| (0..cards).filter(|at| set >> at & 1 == 1).collect())
            .collect();
        all = all
            .iter()
            .flat_map(|done| sets.iter().map(|s| [done.as_slice(), std::slice::from_ref(s)].concat()))
            .collect();
    }
    all
}

fn demand() -> impl Strategy<Value = Demand> {
    prop_oneof![
        1 => (1_u32..3).prop_map(whole),
        3 => (1_u64..12, 0_u32..4, 1_u32..3).prop_map(|(memory, compute, count)| Demand::Share {
            memory: ShareMemory::Mib(Mib(memory * 1000)),
            compute: Percent(compute * 30),
            count,
        }),
    ]
}

fn containers() -> impl Strategy<Value = Vec<(ContainerKind, Demand)>> {
    use ContainerKind::{App, Init, Sidecar};
    let kind = prop::sample::select(vec![App, App, Init, Sidecar]);
    prop::collection::vec((kind, demand()), 1..5).prop_map(|mut containers| {
        // As in a pod: init containers and sidecars in any order, then the app's.
        containers.sort_by_key(|(kind, _)| *kind == App);
        containers
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A placement is found exactly where there is one, and it is one.
    #[test]
    fn the_search_finds_what_there_is(
        containers in containers(),
        held in prop::collection::vec((0_u32..3, 1_u64..8), 0..3),
        cards in 1_u32..4,
    ) {
        let mut run = Run::policy(Policy::Fgd);
        run.nodes([gpu_node("n1", cards)]);
        for (n, (at, memory)) in held.into_iter().enumerate().filter(|(_, (at, _))| *at < cards) {
            let on = record(GrantKind::Share, &[(&format!("GPU-n1-{at}"), at, memory * 1000)]);
            run.pods([bound(gpu_pod(&format!("old{n}"), share(memory * 1000)), "n1", Some(on))]);
        }
        run.pods([several("a", &containers)]);
        let request = request_of(&run, "a");
        let ledger = node_of(&run).ledger();
        let open = ledger.cards().iter().all(|c| c.room().closed.is_none());
        prop_assume!(open);
        let found = place(&request, ledger, |_| true, CardChoice::SmallestRemainder, None);
        let possible = every_choice(&request, ledger.cards().len()).iter().any(|c| does(&request, ledger.cards(), c));
        prop_assert_eq!(found.is_ok(), possible, "{:?}", found);
        if let Ok(placement) = found {
            let chosen: Vec<Vec<usize>> = placement
                .containers
                .iter()
                .map(|c| c.grants.iter().map(|g| usize::from(g.card)).collect())
                .collect();
            prop_assert!(does(&request, ledger.cards(), &chosen), "{:?}", placement);
        }
    }

    /// The headroom that policies are shown for after a placement is the headroom after it.
    #[test]
    fn what_is_left_is_what_was_foretold(
        total in 10_000_u64..90_000,
        held in 0_u64..500,
        wanted in 1_u64..500,
        compute in 0_u32..40,
        foreign in 0_u64..2_000,
    ) {
        let mut run = Run::policy(Policy::BestFit);
        let n1 = with_cards(common::node("n1"), vec![common::card("n1", 0, total)]);
        run.nodes([n1.clone()]).report(common::report(&n1, 1_000_000, foreign.min(total / 2)));
        if held > 0 {
            run.place(gpu_pod("old", share(held * total / 1500)));
        }
        foretold(&mut run, gpu_pod("a", common::with_compute(wanted * total / 1500, compute)))?;
    }
}

/// Compares the foreseen headroom of n1 with what comes, if the pod fits.
fn foretold(run: &mut Run, wanted: Pod) -> Result<(), TestCaseError> {
    let uid = wanted.uid.to_string();
    run.pods([wanted]);
    let request = request_of(run, &uid);
    let node = node_of(run);
    let Ok(placement) = place(&request, node.ledger(), |_| true, CardChoice::SmallestRemainder, None) else {
        return Ok(());
    };
    let foreseen = node.headroom().after(node.ledger(), &placement.peaks(&request), 0, 0);
    run.settle();
    prop_assert!(run.node_of(&uid).is_some(), "it was placed a moment ago");
    prop_assert_eq!(&node_of(run).headroom().cards, &foreseen.cards);
    Ok(())
}

/// Foreign memory takes 2000 of 10,000, a running share of 1 MiB rounds up to one thousandth: 799 idle by
/// memory, 999 by what is granted. A share of 1 MiB and 30 % takes its compute from the 999.
#[test]
fn compute_is_not_charged_to_memory() {
    let mut run = Run::policy(Policy::BestFit);
    let n1 = gpu_node("n1", 1);
    run.nodes([n1.clone()]).report(common::report(&n1, 1_000_000, 2000));
    run.place(gpu_pod("old", share(1)));
    let outcome = foretold(&mut run, gpu_pod("a", common::with_compute(1, 30)));
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// The same where a card's parts do not sum to a round number.
#[test]
fn seats_and_slices_are_foretold_too() {
    let slice = |i| Partition { profile: "1g.10gb".into(), uuid: format!("MIG-{i}"), start: None };
    let seats = (Partitioning::TimeSliced { seats: 3 }, whole(1));
    let slices = (Partitioning::Mig((0..7).map(slice).collect()), slice_demand());
    for (partitioning, demand) in [seats, slices] {
        let mut card = common::card("n1", 0, 81_920);
        card.partitioning = partitioning.clone();
        let mut run = Run::policy(Policy::BestFit);
        run.nodes([with_cards(common::node("n1"), vec![card])]);
        for n in 0..3 {
            let outcome = foretold(&mut run, gpu_pod(&format!("p{n}"), demand.clone()));
            assert!(outcome.is_ok(), "{partitioning:?}, pod {n}: {outcome:?}");
        }
    }
}

fn slice_demand() -> Demand {
    Demand::Slices { profile: "1g.10gb".into(), count: 1 }
}

/// A share that no card is large enough for does not fit beside an init container that takes a card whole.
#[test]
fn a_whole_card_for_one_container_excuses_no_other() {
    use ContainerKind::{App, Init};
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([gpu_node("n1", 1)]);
    let too_large = share(2 * CARD);
    let pod = several("a", &[(Init, whole(1)), (Init, too_large), (App, share(1000))]);
    assert_eq!(run.place(pod), None, "{:?}", run.explain("a").phase);
}

/// App containers run together; an init container is gone before they start.
#[test]
fn containers_share_cards_where_they_may() {
    use ContainerKind::{App, Init, Sidecar};
    for (containers, fits, what) in [
        (vec![(App, share(6000)), (App, share(4000))], true, "two shares of one card"),
        (vec![(App, share(6000)), (App, share(4001))], false, "too much together"),
        (vec![(Init, share(CARD)), (App, share(CARD))], true, "one after the other"),
        (vec![(Init, whole(1)), (App, share(CARD))], true, "whole first, then a share"),
        (vec![(Sidecar, share(1)), (Init, whole(1))], false, "the sidecar runs on"),
        (vec![(Init, whole(1)), (Sidecar, share(1))], true, "the sidecar starts later"),
        (vec![(Sidecar, share(1)), (App, share(CARD))], false, "a sidecar runs beside the app"),
        (vec![(App, whole(1)), (App, share(1))], false, "whole means alone"),
        (vec![(App, whole(2))], false, "there is one card"),
    ] {
        let mut run = Run::policy(Policy::Fgd);
        run.nodes([gpu_node("n1", 1)]);
        assert_eq!(run.place(several("a", &containers)).is_some(), fits, "{what}: {}", run.message("a"));
    }
}
