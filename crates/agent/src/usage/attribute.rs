//! What each container holds of a card, and what is foreign.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{Mib, PodUid};

use super::assigned::{Amounts, Assignments, Held, Whose};
use super::index::Owner;
use crate::host::Origin;
use crate::inventory::Card;
use crate::nvml::Process;

/// Who uses a card.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CardUse {
    /// Containers, by pod in the order of the list, container and GPU instance; then those that only kubelet names.
    pub holders: Vec<Holder>,
    /// Memory of processes that no pod explains; `None` where the card does not say who uses it.
    pub foreign: Option<Mib>,
    /// Whether somebody was given less than all of it: it is shared, or may be at any time.
    pub shared: bool,
}

/// A container on a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// UID of its pod; `None` where only kubelet names the pod, which knows it by name.
    pub pod_uid: Option<PodUid>,
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
    /// What is measured; `None` where the card does not say, or its processes cannot be told from others'.
    pub used: Option<Mib>,
    /// Who says that it has the card.
    pub by: KnownBy,
}

/// Who says that a container has a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// kubelet's list: it was given it.
    Kubelet,
    /// The scheduler's record: it was given it, and kubelet has nothing else for it.
    Record,
    /// Its processes alone: nobody gave it the card.
    Processes,
}

/// Who uses `card`. `processes` are those on it, `None` where it does not say; `origins` tells where each comes from.
/// `O(processes + containers)`.
pub fn attribute(
    card: &Card,
    processes: Option<&[Process]>,
    assignments: &Assignments<'_>,
    origins: &BTreeMap<u32, Origin>,
) -> CardUse {
    let pods = &assignments.pods;
    let (mut held, shared) = assignments.on(card);
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
                let place = (Whose::Pod(settle(owner, &held)), process.gpu_instance);
                let amounts = held.entry(place).or_insert(Amounts::known(KnownBy::Processes));
                amounts.used = Some(amounts.used.unwrap_or_default().saturating_add(used));
            }
        }
    }
    let measured = processes.is_some();
    let holders = held.into_iter().filter_map(|((whose, gpu_instance), amounts)| match whose {
        Whose::Pod(owner) => holder(assignments, owner, gpu_instance, amounts, measured),
        Whose::Unseen { namespace, pod, container } => Some(Holder {
            pod_uid: None,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: Some(container.to_owned()),
            gpu_instance,
            granted: amounts.granted,
            used: amounts.used,
            by: amounts.by,
        }),
    });
    CardUse { holders: holders.collect(), foreign, shared }
}

/// The one container that has what these hold; `None` where there is none, or several share it. Who only uses it does
/// not have it, unless it was given to nobody.
pub fn having<'a>(holders: impl Iterator<Item = &'a Holder> + Clone) -> Option<&'a Holder> {
    let given = |holder: &&Holder| holder.by != KnownBy::Processes;
    let anybody = !holders.clone().any(|holder| given(&holder));
    let mut having = holders.filter(|holder| anybody || given(holder));
    let first = having.next()?;
    let name = |holder: &'a Holder| (&holder.namespace, &holder.pod, &holder.container);
    having.all(|other| name(other) == name(first)).then_some(first)
}

/// Where only the pod is known, the one container of it that was given this card will be it.
fn settle(owner: Owner, held: &Held<'_>) -> Owner {
    if owner.container.is_some() {
        return owner;
    }
    let mut given = held.iter().filter_map(|((whose, _), amounts)| match whose {
        Whose::Pod(known) if known.pod == owner.pod && amounts.by != KnownBy::Processes => Some(*known),
        Whose::Pod(_) | Whose::Unseen { .. } => None,
    });
    match (given.next(), given.next()) {
        (Some(only), None) => only,
        _ => owner,
    }
}

/// `None` for an init container that uses nothing: it has ended, or has not begun, and others hold its grant.
fn holder(
    assignments: &Assignments<'_>,
    owner: Owner,
    gpu_instance: Option<u32>,
    amounts: Amounts,
    measured: bool,
) -> Option<Holder> {
    let pod = &assignments.pods.pods()[owner.pod];
    let container = owner.container.and_then(|place| pod.containers.get(place));
    if amounts.used.is_none() && measured && container.is_some_and(|container| container.init) {
        return None;
    }
    Some(Holder {
        pod_uid: Some(pod.uid.clone()),
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: container.map(|container| container.name.clone()),
        gpu_instance,
        granted: amounts.granted,
        used: amounts.used.or(measured.then_some(Mib(0))),
        by: amounts.by,
    })
}

#[cfg(test)]
mod tests {
    use gpu_scheduler_engine::model::GrantKind;

    use super::*;
    use crate::checkpoint::Listed;
    use crate::fixtures::{card, mig_device, pod};
    use crate::host::ContainerRef;
    use crate::inventory::Mig;
    use crate::resources::{DeviceId, ResourceName};

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
        let index = Assignments::new(&pods, &[]);
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
        let used = attribute(&split, Some(&[on_two]), &Assignments::new(&pods, &[]), &origins);
        assert_eq!(shown(&used), (vec!["a/main@2 9728/100".to_owned()], Some(0)));
        assert!(!used.shared);
    }

    #[test]
    fn an_init_container_holds_while_it_uses() {
        let mut pods = [pod("a", Some("id-a"), GrantKind::Whole, &[("GPU-0", 81_920)])];
        pods[0].containers[0].init = true;
        let index = Assignments::new(&pods, &[]);
        let origins = BTreeMap::from([(1, of_container("id-a"))]);
        let holders = |processes: &[Process]| attribute(&card(0), Some(processes), &index, &origins).holders.len();
        assert_eq!((holders(&[]), holders(&[process(1, 1)])), (0, 1));
    }

    /// `pod/container: id,id` as kubelet lists it, in the namespace `default` unless one stands before.
    fn listed(text: &str) -> Listed {
        let (who, ids) = text.split_once(": ").unwrap();
        let (pod, container) = who.rsplit_once('/').unwrap();
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
        Listed {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            container: container.to_owned(),
            resource: ResourceName::gpu(),
            ids: ids.split(',').map(|id| DeviceId::parse(id).unwrap()).collect(),
        }
    }

    /// Holders as `pod/container@instance granted/used by`.
    fn told(used: &CardUse) -> Vec<String> {
        shown(used).0.iter().zip(&used.holders).map(|(holder, of)| format!("{holder} {:?}", of.by)).collect()
    }

    #[test]
    fn kubelets_list_comes_first_then_records_then_processes() {
        let pods = [
            pod("a", Some("id-a"), GrantKind::Share, &[("GPU-0", 8192)]),
            pod("b", Some("id-b"), GrantKind::Whole, &[("GPU-1", 81_920)]),
            pod("c", Some("id-c"), GrantKind::Whole, &[]),
        ];
        let origins = BTreeMap::from([(1, of_container("id-a")), (2, of_container("id-b")), (3, of_container("id-c"))]);
        let (a, b, c) = (process(1, 10), process(2, 20), process(3, 30));
        for (list, processes, expected, has) in [
            // Bound and not admitted yet.
            (vec![], vec![], vec!["a/main 8192/0 Record"], Some("a")),
            (vec!["a/main: GPU-0::3"], vec![], vec!["a/main 8192/0 Kubelet"], Some("a")),
            // Several seats are one container.
            (vec!["a/main: GPU-0::3,GPU-0::4"], vec![a], vec!["a/main 8192/10 Kubelet"], Some("a")),
            // A record gives nothing that kubelet gave otherwise.
            (vec!["a/main: GPU-1"], vec![], vec![], None),
            (vec!["a/main: GPU-1"], vec![a], vec!["a/main -/10 Processes"], Some("a")),
            (vec!["b/main: GPU-0", "a/main: GPU-1"], vec![], vec!["b/main -/0 Kubelet"], Some("b")),
            // Past the scheduler, and without a process.
            (vec!["c/main: GPU-0"], vec![], vec!["a/main 8192/0 Record", "c/main -/0 Kubelet"], None),
            (vec!["c/main: GPU-0", "a/main: GPU-1"], vec![], vec!["c/main -/0 Kubelet"], Some("c")),
            // Whoever was given nothing uses the card and does not have it.
            (vec![], vec![c], vec!["a/main 8192/0 Record", "c/main -/30 Processes"], Some("a")),
            (
                vec!["c/main: GPU-0", "a/main: GPU-1"],
                vec![a, b],
                vec!["a/main -/10 Processes", "b/main -/20 Processes", "c/main -/0 Kubelet"],
                Some("c"),
            ),
            (vec!["a/main: GPU-1"], vec![b, c], vec!["b/main -/20 Processes", "c/main -/30 Processes"], None),
            // Pods that the API server does not show: what they use is not known.
            (vec!["d/main: GPU-0", "a/main: GPU-1"], vec![], vec!["d/main -/- Kubelet"], Some("d")),
            (vec!["other/a/main: GPU-0", "a/main: GPU-1"], vec![], vec!["a/main -/- Kubelet"], Some("a")),
            (vec!["a/before: GPU-0"], vec![], vec!["a/main 8192/0 Record", "a/before -/- Kubelet"], None),
        ] {
            let items: Vec<Listed> = list.iter().map(|text| listed(text)).collect();
            let used = attribute(&card(0), Some(&processes), &Assignments::new(&pods, &items), &origins);
            assert_eq!(told(&used), expected, "{list:?} {processes:?}");
            assert_eq!(having(used.holders.iter()).map(|holder| holder.pod.as_str()), has, "{list:?} {processes:?}");
            assert_eq!(used.foreign, Some(Mib(0)));
        }
    }

    #[test]
    fn a_seat_or_replica_is_less_than_all_of_a_card() {
        for (ids, shared) in [("GPU-0", false), ("GPU-0::0", true), ("GPU-1::0", false), ("GPU-0,GPU-1::0", false)] {
            let list = [listed(&format!("x/main: {ids}"))];
            assert_eq!(
                attribute(&card(0), None, &Assignments::new(&[], &list), &BTreeMap::new()).shared,
                shared,
                "{ids}"
            );
        }
    }

    #[test]
    fn a_slice_is_of_the_container_that_kubelet_gave_it() {
        let mut split = card(0);
        split.mig = Mig::Enabled(vec![mig_device(0, 1, 0), mig_device(0, 2, 0), mig_device(0, 3, 0)]);
        let on = |name: &str, mig: &str| {
            let mut pod = pod(name, None, GrantKind::Mig, &[("GPU-0", 9728)]);
            pod.record.as_mut().unwrap().containers[0].devices[0].mig = Some(mig.to_owned());
            pod
        };
        // Two whose records say what kubelet says, otherwise, and by a name from before the devices were known.
        let pods = [on("a", "MIG-0-1-0"), on("b", "MIG-0-1-0"), on("c", "GPU-0/mig-0")];
        let list = [listed("a/main: MIG-0-1-0"), listed("b/main: MIG-0-2-0"), listed("c/main: MIG-0-3-0::1")];
        let used = attribute(&split, Some(&[]), &Assignments::new(&pods, &list), &BTreeMap::new());
        assert_eq!(told(&used), ["a/main@1 9728/0 Kubelet", "b/main@2 -/0 Kubelet", "c/main@3 9728/0 Kubelet"]);
        assert!(!used.shared);
    }
}
