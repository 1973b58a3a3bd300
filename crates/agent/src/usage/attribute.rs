//! What each container holds of a card, and what is foreign.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{DeviceGrant, GrantKind, Mib, PodUid};

use super::index::{Owner, PodIndex};
use crate::host::Origin;
use crate::inventory::{Card, MigUuid};
use crate::nvml::Process;
use crate::pods::NodePod;

/// Who uses a card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CardUse {
    /// Containers, by pod in the order of the list, container and GPU instance.
    pub holders: Vec<Holder>,
    /// Memory of processes that no pod explains; `None` where the card does not say who uses it.
    pub foreign: Option<Mib>,
    /// Whether a record grants less than all of it: it is shared, or may be at any time.
    pub shared: bool,
}

/// A container on a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// UID of its pod.
    pub pod_uid: PodUid,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// Its name; `None` where only the pod is known.
    pub container: Option<String>,
    /// The GPU instance, on a card in MIG mode.
    pub gpu_instance: Option<u32>,
    /// What the record grants; `None` where it says nothing.
    pub granted: Option<Mib>,
    /// What is measured; `None` where the card does not say.
    pub used: Option<Mib>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    granted: Option<Mib>,
    used: Option<Mib>,
}

/// Who uses `card`. `processes` are those on it, `None` where it does not say; `origins` tells where each comes from.
/// `O(processes + containers)`.
pub fn attribute(
    card: &Card,
    processes: Option<&[Process]>,
    pods: &PodIndex<'_>,
    origins: &BTreeMap<u32, Origin>,
) -> CardUse {
    let mut held: BTreeMap<(Owner, Option<u32>), Amounts> = BTreeMap::new();
    let mut shared = false;
    for (pod, known) in pods.pods().iter().enumerate() {
        for (container, kind, grant) in grants(known, card) {
            shared |= is_part(kind, grant, card);
            let instance = grant.mig.as_deref().and_then(|mig| gpu_instance(card, mig));
            let amounts = held.entry((Owner { pod, container }, instance)).or_default();
            amounts.granted = Some(amounts.granted.unwrap_or_default().saturating_add(grant.memory));
        }
    }
    let mut foreign = processes.map(|_| Mib(0));
    for process in processes.unwrap_or_default() {
        let used = process.used.unwrap_or_default();
        let owner = match origins.get(&process.pid) {
            Some(Origin::Container(container)) => pods.owner(container),
            Some(Origin::Host | Origin::Gone) | None => None,
        };
        match owner {
            None => foreign = foreign.map(|sum| sum.saturating_add(used)),
            Some(owner) => {
                let amounts = held.entry((settle(owner, &held), process.gpu_instance)).or_default();
                amounts.used = Some(amounts.used.unwrap_or_default().saturating_add(used));
            }
        }
    }
    let measured = processes.is_some();
    let holders = held.into_iter().filter_map(|((owner, gpu_instance), amounts)| {
        holder(&pods.pods()[owner.pod], owner, gpu_instance, amounts, measured)
    });
    CardUse { holders: holders.collect(), foreign, shared }
}

/// The grants of a pod on a card: container, kind, grant.
fn grants<'a>(
    pod: &'a NodePod,
    card: &'a Card,
) -> impl Iterator<Item = (Option<usize>, Option<GrantKind>, &'a DeviceGrant)> {
    let containers = pod.record.iter().flat_map(|record| &record.containers);
    containers.flat_map(move |granted| {
        let place = pod.containers.iter().position(|known| known.name == granted.name);
        let devices = granted.devices.iter().filter(|device| device.uuid == card.uuid.as_str());
        devices.map(move |device| (place, granted.kind, device))
    })
}

fn is_part(kind: Option<GrantKind>, grant: &DeviceGrant, card: &Card) -> bool {
    match kind {
        Some(GrantKind::Share | GrantKind::Seat) => true,
        Some(GrantKind::Whole | GrantKind::Mig) => false,
        None => grant.mig.is_none() && grant.memory < card.memory,
    }
}

fn gpu_instance(card: &Card, mig: &str) -> Option<u32> {
    let uuid = MigUuid::from(mig);
    card.mig.devices().iter().find(|part| part.uuid == uuid).map(|part| part.gpu_instance)
}

/// Where only the pod is known, the one container of it that was given this card will be it.
fn settle(owner: Owner, held: &BTreeMap<(Owner, Option<u32>), Amounts>) -> Owner {
    if owner.container.is_some() {
        return owner;
    }
    let mut granted = held.iter().filter(|((known, _), amounts)| known.pod == owner.pod && amounts.granted.is_some());
    match (granted.next(), granted.next()) {
        (Some(((only, _), _)), None) => *only,
        _ => owner,
    }
}

/// `None` for an init container that uses nothing: it has ended, or has not begun, and others hold its grant.
fn holder(pod: &NodePod, owner: Owner, gpu_instance: Option<u32>, amounts: Amounts, measured: bool) -> Option<Holder> {
    let container = owner.container.and_then(|place| pod.containers.get(place));
    if amounts.used.is_none() && measured && container.is_some_and(|container| container.init) {
        return None;
    }
    Some(Holder {
        pod_uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: container.map(|container| container.name.clone()),
        gpu_instance,
        granted: amounts.granted,
        used: amounts.used.or(measured.then_some(Mib(0))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{card, mig_device, pod};
    use crate::host::ContainerRef;
    use crate::inventory::Mig;

    fn process(pid: u32, mib: u64) -> Process {
        Process { pid, gpu_instance: None, compute_instance: None, used: Some(Mib(mib)) }
    }

    fn of_container(id: &str) -> Origin {
        Origin::Container(ContainerRef { pod_uid: None, container_id: Some(id.to_owned()) })
    }

    fn of_pod(uid: &str) -> Origin {
        Origin::Container(ContainerRef {
            pod_uid: Some(uid.to_owned()),
            container_id: Some("not known yet".to_owned()),
        })
    }

    /// `pod/container@instance granted/used`, and what is foreign.
    fn shown(used: &CardUse) -> (Vec<String>, Option<u64>) {
        let number = |mib: Option<Mib>| mib.map_or("-".to_owned(), |mib| mib.0.to_string());
        let holder = |holder: &Holder| {
            let instance = holder.gpu_instance.map_or(String::new(), |id| format!("@{id}"));
            let container = holder.container.as_deref().unwrap_or("?");
            format!("{}/{container}{instance} {}/{}", holder.pod, number(holder.granted), number(holder.used))
        };
        (used.holders.iter().map(holder).collect(), used.foreign.map(|mib| mib.0))
    }

    #[test]
    fn holders_and_what_is_foreign() {
        let pods = [
            pod("a", Some("id-a"), GrantKind::Share, &[("GPU-0", 8192)]),
            pod("b", None, GrantKind::Share, &[("GPU-0", 4096), ("GPU-1", 4096)]),
            pod("c", Some("id-c"), GrantKind::Whole, &[]),
        ];
        let origins = BTreeMap::from([
            (1, of_container("id-a")),
            (2, of_container("id-a")),
            (3, of_pod("uid-b")),
            (4, of_container("id-c")),
            (5, of_container("of another runtime")),
            (6, Origin::Host),
            (7, Origin::Gone),
        ]);
        let index = PodIndex::new(&pods);
        for (processes, expected, foreign) in [
            (Some(vec![]), vec!["a/main 8192/0", "b/main 4096/0"], Some(0)),
            (None, vec!["a/main 8192/-", "b/main 4096/-"], None),
            (Some(vec![process(1, 10), process(2, 5)]), vec!["a/main 8192/15", "b/main 4096/0"], Some(0)),
            (Some(vec![process(3, 7)]), vec!["a/main 8192/0", "b/main 4096/7"], Some(0)),
            (Some(vec![process(4, 9)]), vec!["a/main 8192/0", "b/main 4096/0", "c/main -/9"], Some(0)),
            (
                Some(vec![process(5, 1), process(6, 2), process(7, 4), process(8, 8)]),
                vec!["a/main 8192/0", "b/main 4096/0"],
                Some(15),
            ),
            (Some(vec![process(7, 0)]), vec!["a/main 8192/0", "b/main 4096/0"], Some(0)),
        ] {
            let used = attribute(&card(0), processes.as_deref(), &index, &origins);
            assert_eq!(shown(&used), (expected.into_iter().map(str::to_owned).collect(), foreign), "{processes:?}");
            assert!(used.shared);
        }
        assert!(!attribute(&card(2), Some(&[]), &index, &origins).shared);
    }

    #[test]
    fn a_container_of_a_card_in_mig_mode_is_on_an_instance() {
        let mut split = card(0);
        split.mig = Mig::Enabled(vec![mig_device(0, 1, 0), mig_device(0, 2, 0)]);
        let mut pods = [pod("a", Some("id-a"), GrantKind::Mig, &[("GPU-0", 9728)])];
        pods[0].record.as_mut().unwrap().containers[0].devices[0].mig = Some("MIG-0-2-0".to_owned());
        let mut on_two = process(1, 100);
        on_two.gpu_instance = Some(2);
        let origins = BTreeMap::from([(1, of_container("id-a"))]);
        let used = attribute(&split, Some(&[on_two]), &PodIndex::new(&pods), &origins);
        assert_eq!(shown(&used), (vec!["a/main@2 9728/100".to_owned()], Some(0)));
        assert!(!used.shared);
    }

    #[test]
    fn an_init_container_holds_while_it_uses() {
        let mut pods = [pod("a", Some("id-a"), GrantKind::Whole, &[("GPU-0", 81_920)])];
        pods[0].containers[0].init = true;
        let index = PodIndex::new(&pods);
        let origins = BTreeMap::from([(1, of_container("id-a"))]);
        let holders = |processes: &[Process]| attribute(&card(0), Some(processes), &index, &origins).holders.len();
        assert_eq!((holders(&[]), holders(&[process(1, 1)])), (0, 1));
    }
}
