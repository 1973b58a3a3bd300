//! Whether a pod fits, with regard to pods that room is being made for.

use smallvec::SmallVec;

use crate::framework::{PluginName, PreFiltered, Profile, Reason, Rejection, find_cards};
use crate::ledger::{CardChoice, Placement};
use crate::model::{NodeId, PodId};
use crate::state::{Class, PodEntry, Resolution, State, Transaction};

const NOMINATED: PluginName = "NominatedPods";

/// Why `class` does not fit on a node as it is: what all filters say. `O(plugins)`, and `O(nodes)` where some of them
/// look at the whole cluster.
pub(super) fn rejection(
    state: &State,
    profile: &Profile,
    class: &Class,
    pre: &PreFiltered,
    node: NodeId,
) -> Option<Rejection> {
    let node = state.node(node)?;
    if let Some(rejection) = profile.rejection(state, class, pre, node) {
        return Some(rejection);
    }
    let cycle = profile.begin_cycle(state, class);
    if let Some((plugin, reason)) = cycle.pre_filter() {
        return Some(Rejection { plugin, permanent: true, reasons: SmallVec::from_iter([reason]) });
    }
    cycle.reject(node)
}

/// Why `pod` does not fit on a node beside those that room is being made for there: pods of its priority or a higher
/// one. They count as if they were there already; what pods hold that are being deleted is theirs.
pub(crate) fn fits_beside_nominated(
    what_if: &mut Transaction<'_>,
    profile: &Profile,
    class: &Class,
    pod: PodId,
    node: NodeId,
) -> Option<Rejection> {
    let others = awaited(what_if, pod, node);
    if others.is_empty() {
        return None;
    }
    let asks_gpu = !class.spec.gpu.is_none();
    // On the cards that it would really have, whoever room is made for must still find theirs.
    if asks_gpu && !cards_remain(what_if, &others, node, (pod, class)) {
        return Some(no_room());
    }
    what_if.transaction(|what_if| {
        let all_have_cards = settle_awaited(what_if, &others, node);
        if asks_gpu && !all_have_cards {
            return Resolution::Rollback(Some(no_room()));
        }
        let pre = profile.pre_filter(what_if, class);
        Resolution::Rollback(rejection(what_if, profile, class, &pre, node))
    })
}

/// Whether those that room is being made for on a node, of a pod's priority or a higher one, find their cards once who leaves
/// has left, beside the pod on those that it would have now. The rejection says that they do not.
pub(crate) fn leaves_cards_to_nominated(
    what_if: &mut Transaction<'_>,
    class: &Class,
    pod: PodId,
    node: NodeId,
) -> Result<(), Rejection> {
    let others = awaited(what_if, pod, node);
    if others.is_empty() || cards_remain(what_if, &others, node, (pod, class)) { Ok(()) } else { Err(no_room()) }
}

/// Pods of a pod's priority or a higher one that room is being made for on a node.
fn awaited(state: &State, pod: PodId, node: NodeId) -> Vec<PodId> {
    let Some(priority) = state.pod(pod).map(|p| p.priority) else { return Vec::new() };
    let awaited = |other: &PodId| {
        let other = state.pod(*other).filter(|o| o.id != pod && o.placed.is_none());
        other.is_some_and(|o| o.priority >= priority)
    };
    state.nominated_on(node).filter(awaited).collect()
}

fn no_room() -> Rejection {
    Rejection { plugin: NOMINATED, permanent: false, reasons: SmallVec::from_iter([Reason::Nominated]) }
}

/// Places those that room is made for, on what is left once who leaves has left; whoever finds no cards is there without.
/// Returns whether all found theirs.
fn settle_awaited(what_if: &mut Transaction<'_>, others: &[PodId], node: NodeId) -> bool {
    release_leaving(what_if, node);
    let mut all_have_cards = true;
    for other in others {
        let Some(class) = what_if.pod(*other).map(|p| what_if.class(p.class).clone()) else { continue };
        let Some(state) = what_if.node(node) else { continue };
        let placement = find_cards(what_if, &class, state, CardChoice::SmallestRemainder);
        all_have_cards &= placement.is_ok();
        what_if.place(*other, node, &placement.unwrap_or_else(|_| Placement::default()));
    }
    all_have_cards
}

/// Gives back what pods hold that are being deleted.
fn release_leaving(what_if: &mut Transaction<'_>, node: NodeId) {
    let here: Vec<PodId> = what_if.node(node).map(|n| n.pods().to_vec()).unwrap_or_default();
    for pod in here {
        if what_if.pod(pod).is_some_and(PodEntry::is_leaving) {
            what_if.release_devices(pod);
        }
    }
}

/// Whether `others` find cards on the node once who leaves has left, after `first` has taken its own now.
fn cards_remain(what_if: &mut Transaction<'_>, others: &[PodId], node: NodeId, first: (PodId, &Class)) -> bool {
    let (pod, class) = first;
    what_if.transaction(|what_if| {
        let Some(state) = what_if.node(node) else { return Resolution::Rollback(true) };
        // That it has none now is for the filters to say.
        let Ok(placement) = find_cards(what_if, class, state, CardChoice::SmallestRemainder) else {
            return Resolution::Rollback(true);
        };
        what_if.place(pod, node, &placement);
        Resolution::Rollback(settle_awaited(what_if, others, node))
    })
}
