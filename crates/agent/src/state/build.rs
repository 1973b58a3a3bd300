//! Makes the report of what a round found.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::TopologyManager;

use super::document::{
    AgentStatus, Annotations, DeviceStatus, HolderStatus, LinkStatus, PartitionStatus, Status, TopologyManagerStatus,
};
use crate::collect::Round;
use crate::inventory::{Card, DeviceHealth, DeviceUuid, Inventory, LinkPeer, Mig, MigDevice};
use crate::labels::{LabelOptions, SharingStrategy, product};
use crate::usage::{CardUse, Holder};

/// This process, as others tell it from another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Another one for each process.
    pub id: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// Whether it hands out the node's devices by the scheduler's records.
    pub hands_out: bool,
    /// How the node's kubelet aligns devices to NUMA nodes, where it knows.
    pub topology_manager: Option<TopologyManager>,
}

impl Instance {
    /// This process, beginning now.
    pub fn new(hands_out: bool, topology_manager: Option<TopologyManager>) -> Self {
        let started_at = seconds(jiff::Timestamp::now());
        Self { id: uuid::Uuid::new_v4().to_string(), started_at, hands_out, topology_manager }
    }
}

/// RFC 3339 in whole seconds, as Kubernetes writes times.
pub(super) fn seconds(time: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// The status of the node. Its `updatedAt` is empty: whoever writes it sets the time.
pub fn status(round: &Round, instance: &Instance, options: &LabelOptions) -> Status {
    let inventory = &round.inventory;
    let devices: Vec<DeviceStatus> = inventory.cards.iter().map(|card| device(card, round, options)).collect();
    Status {
        updated_at: String::new(),
        driver_version: inventory.driver_version.clone(),
        agent: AgentStatus {
            instance: instance.id.clone(),
            started_at: instance.started_at.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hands_out: instance.hands_out,
        },
        topology_manager: instance.topology_manager.map(TopologyManagerStatus::from),
        gpus: devices.len(),
        total_memory_mib: devices.iter().map(|device| device.total_memory_mib).sum(),
        used_memory_mib: devices.iter().filter_map(|device| device.used_memory_mib).sum(),
        devices,
    }
}

/// The annotations of the node; without the time, which whoever writes them sets.
pub fn annotations(status: &Status) -> Annotations {
    BTreeMap::from([
        ("gpu-scheduler/memory-used".to_owned(), status.used_memory_mib.to_string()),
        ("gpu-scheduler/memory-total".to_owned(), status.total_memory_mib.to_string()),
    ])
}

fn device(card: &Card, round: &Round, options: &LabelOptions) -> DeviceStatus {
    let sample = round.samples.get(&card.uuid);
    let nobody = CardUse::default();
    let usage = round.usage.get(&card.uuid).unwrap_or(&nobody);
    let (health, health_reason) = match unhealthy(round, &DeviceUuid::Gpu(card.uuid.clone())) {
        None => ("Healthy", None),
        Some(reason) => ("Unhealthy", Some(reason)),
    };
    DeviceStatus {
        index: card.index.0,
        uuid: card.uuid.to_string(),
        model: product(&card.name),
        total_memory_mib: card.memory.0,
        used_memory_mib: sample.and_then(|sample| sample.memory).map(|memory| memory.used.0),
        foreign_memory_mib: usage.foreign.map(|mib| mib.0),
        holders: holders(&usage.holders),
        utilization: sample.and_then(|sample| sample.gpu_utilization),
        temperature_c: sample.and_then(|sample| sample.temperature),
        power_w: sample.and_then(|sample| sample.power_mw).map(|mw| f64::from((mw + 50) / 100) / 10.0),
        health,
        health_reason,
        mode: mode(card, usage, options),
        numa_node: card.numa_node,
        links: links(card, &round.inventory),
        partitions: matches!(card.mig, Mig::Enabled(_))
            .then(|| card.mig.devices().iter().map(|part| partition(part, round)).collect()),
    }
}

fn unhealthy(round: &Round, device: &DeviceUuid) -> Option<String> {
    match round.health.get(device)? {
        DeviceHealth::Healthy => None,
        DeviceHealth::Unhealthy { reason } => Some(reason.clone()),
    }
}

/// By container: one that is on several GPU instances of a card holds their sum.
fn holders(holders: &[Holder]) -> Vec<HolderStatus> {
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    let mut merged: Vec<HolderStatus> = Vec::new();
    for holder in holders {
        // The scheduler knows pods by their UIDs.
        let Some(uid) = &holder.pod_uid else { continue };
        let (granted, used) = (holder.granted.map(|mib| mib.0), holder.used.map(|mib| mib.0));
        let same = |known: &&mut HolderStatus| known.pod_uid == *uid.0 && known.container == holder.container;
        match merged.iter_mut().find(same) {
            Some(known) => {
                known.granted_mib = sum(known.granted_mib, granted);
                known.used_mib = sum(known.used_mib, used);
            }
            None => merged.push(HolderStatus {
                pod_uid: uid.to_string(),
                namespace: holder.namespace.clone(),
                pod: holder.pod.clone(),
                container: holder.container.clone(),
                granted_mib: granted,
                used_mib: used,
            }),
        }
    }
    merged
}

fn mode(card: &Card, usage: &CardUse, options: &LabelOptions) -> &'static str {
    match (&card.mig, options.strategy) {
        (Mig::Enabled(_), _) => "mig",
        (_, SharingStrategy::Mps) => "mps",
        (_, SharingStrategy::TimeSlicing) => "shared",
        (_, SharingStrategy::None) if usage.shared => "shared",
        (_, SharingStrategy::None) => "exclusive",
    }
}

/// Connections to cards. A switch leads to every other card that is connected to one.
fn links(card: &Card, inventory: &Inventory) -> Vec<LinkStatus> {
    let mut links = Vec::new();
    for link in &card.links {
        match &link.peer {
            LinkPeer::Card(peer) => {
                links.push(LinkStatus { peer: peer.to_string(), kind: "nvlink", lanes: link.lanes })
            }
            LinkPeer::Switch => links.extend(inventory.cards.iter().filter_map(|other| {
                let lanes = other.links.iter().find(|link| link.peer == LinkPeer::Switch)?.lanes.min(link.lanes);
                (other.uuid != card.uuid).then(|| LinkStatus { peer: other.uuid.to_string(), kind: "nvswitch", lanes })
            })),
        }
    }
    links
}

fn partition(part: &MigDevice, round: &Round) -> PartitionStatus {
    let health_reason = unhealthy(round, &DeviceUuid::Mig(part.uuid.clone()));
    PartitionStatus {
        profile: part.profile.0.to_string(),
        uuid: part.uuid.to_string(),
        start: part.placement.start,
        health: health_reason.as_ref().map(|_| "Unhealthy"),
        health_reason,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use gpu_scheduler_engine::model::{Mib, PodUid, TopologyManagerPolicy, TopologyManagerScope};
    use serde_json::json;

    use super::*;
    use crate::collect::NodeFacts;
    use crate::fixtures::{card, mig_device};
    use crate::host::GpuMode;
    use crate::inventory::Link;
    use crate::nvml::{Memory, Sample};
    use crate::usage::KnownBy;

    fn round(cards: Vec<Card>) -> Round {
        let inventory = Inventory { driver_version: "570.86.15".to_owned(), cuda_version: None, cards };
        Round {
            inventory: Arc::new(inventory),
            facts: Arc::new(NodeFacts { machine: None, mode: GpuMode::Compute, fabric: None, vgpu: false }),
            health: BTreeMap::new(),
            samples: BTreeMap::new(),
            usage: BTreeMap::new(),
            last_xids: BTreeMap::new(),
            failed_calls: BTreeMap::new(),
            took: Duration::ZERO,
        }
    }

    fn holder(pod: &str, gpu_instance: Option<u32>, granted: Option<u64>, used: Option<u64>) -> Holder {
        Holder {
            pod_uid: Some(PodUid::from(format!("uid-{pod}").as_str())),
            namespace: "default".to_owned(),
            pod: pod.to_owned(),
            container: Some("main".to_owned()),
            gpu_instance,
            granted: granted.map(Mib),
            used: used.map(Mib),
            by: KnownBy::Kubelet,
        }
    }

    fn written(round: &Round, options: &LabelOptions) -> serde_json::Value {
        let instance = Instance {
            id: "i".to_owned(),
            started_at: "2026-11-29T10:00:00Z".to_owned(),
            hands_out: true,
            topology_manager: Some(TopologyManager {
                policy: TopologyManagerPolicy::SingleNumaNode,
                scope: TopologyManagerScope::Container,
            }),
        };
        serde_json::to_value(status(round, &instance, options)).unwrap()
    }

    #[test]
    fn a_busy_card() {
        let mut round = round(vec![card(0)]);
        let uuid = round.inventory.cards[0].uuid.clone();
        let memory = Memory { total: Mib(81_920), free: Mib(60_000), used: Mib(20_480), reserved: Some(Mib(600)) };
        let sample = Sample {
            memory: Some(memory),
            gpu_utilization: Some(35),
            temperature: Some(54),
            power_mw: Some(212_349),
            ..Sample::default()
        };
        round.samples.insert(uuid.clone(), sample);
        let holders = vec![holder("a", None, Some(8192), Some(7000)), holder("b", None, None, Some(1))];
        round.usage.insert(uuid, CardUse { holders, foreign: Some(Mib(64)), shared: true });
        assert_eq!(
            written(&round, &LabelOptions::default()),
            json!({
                "updatedAt": "", "driverVersion": "570.86.15",
                "agent": {"instance": "i", "startedAt": "2026-11-29T10:00:00Z", "version": env!("CARGO_PKG_VERSION"), "handsOut": true},
                "topologyManager": {"policy": "single-numa-node", "scope": "container"},
                "gpus": 1, "totalMemoryMiB": 81920, "usedMemoryMiB": 20480,
                "devices": [{
                    "index": 0, "uuid": "GPU-0", "model": "NVIDIA-A100-SXM4-80GB",
                    "totalMemoryMiB": 81920, "usedMemoryMiB": 20480, "foreignMemoryMiB": 64,
                    "holders": [
                        {"podUID": "uid-a", "namespace": "default", "pod": "a", "container": "main", "grantedMiB": 8192, "usedMiB": 7000},
                        {"podUID": "uid-b", "namespace": "default", "pod": "b", "container": "main", "usedMiB": 1},
                    ],
                    "utilization": 35, "temperatureC": 54, "powerW": 212.3,
                    "health": "Healthy", "mode": "shared", "numaNode": 0, "links": [],
                }],
            })
        );
    }

    #[test]
    fn a_lost_card_says_nothing_that_is_not_known() {
        let mut round = round(vec![card(0)]);
        let gone = DeviceHealth::Unhealthy { reason: "GPU is lost".to_owned() };
        round.health.insert(DeviceUuid::Gpu("GPU-0".into()), gone);
        let written = &written(&round, &LabelOptions::default())["devices"][0];
        assert_eq!(written["health"], "Unhealthy");
        assert_eq!(written["healthReason"], "GPU is lost");
        for missing in ["usedMemoryMiB", "foreignMemoryMiB", "utilization", "temperatureC", "powerW", "partitions"] {
            assert!(written.get(missing).is_none(), "{missing}");
        }
    }

    #[test]
    fn a_partitioned_card() {
        let mut split = card(0);
        split.mig = Mig::Enabled(vec![mig_device(0, 1, 0), mig_device(0, 2, 0)]);
        let mut round = round(vec![split]);
        let sick = DeviceHealth::Unhealthy { reason: "XID 94".to_owned() };
        round.health.insert(DeviceUuid::Mig("MIG-0-2-0".into()), sick);
        let holders = vec![holder("a", Some(1), Some(9728), Some(10)), holder("a", Some(2), Some(9728), None)];
        round.usage.insert("GPU-0".into(), CardUse { holders, foreign: None, shared: false });
        let written = &written(&round, &LabelOptions::default())["devices"][0];
        assert_eq!(written["mode"], "mig");
        assert_eq!(
            written["partitions"],
            json!([
                {"profile": "1g.10gb", "uuid": "MIG-0-1-0", "start": 1},
                {"profile": "1g.10gb", "uuid": "MIG-0-2-0", "start": 2, "health": "Unhealthy", "healthReason": "XID 94"},
            ])
        );
        assert_eq!(written["holders"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&written["holders"][0]["grantedMiB"], &written["holders"][0]["usedMiB"]),
            (&json!(19456), &json!(10))
        );
    }

    #[test]
    fn a_holder_without_a_uid_is_not_told() {
        let unseen = Holder { pod_uid: None, ..holder("b", None, None, None) };
        let told = holders(&[holder("a", None, None, Some(0)), unseen]);
        assert_eq!(told.iter().map(|holder| holder.pod.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn modes() {
        let with = |strategy| LabelOptions { strategy, ..LabelOptions::default() };
        let shared = CardUse { shared: true, ..CardUse::default() };
        for (usage, options, expected) in [
            (CardUse::default(), with(SharingStrategy::None), "exclusive"),
            (shared.clone(), with(SharingStrategy::None), "shared"),
            (CardUse::default(), with(SharingStrategy::TimeSlicing), "shared"),
            (shared, with(SharingStrategy::Mps), "mps"),
        ] {
            assert_eq!(mode(&card(0), &usage, &options), expected);
        }
    }

    #[test]
    fn a_switch_leads_to_all_that_have_one() {
        let linked = |index, peer, lanes| Card { links: vec![Link { peer, lanes }], ..card(index) };
        let cards = vec![
            linked(0, LinkPeer::Switch, 12),
            linked(1, LinkPeer::Switch, 10),
            linked(2, LinkPeer::Card("GPU-0".into()), 2),
        ];
        let inventory = Inventory { cards, ..Inventory::default() };
        let shown = |index: usize| -> Vec<String> {
            let links = links(&inventory.cards[index], &inventory);
            links.iter().map(|link| format!("{} {} {}", link.peer, link.kind, link.lanes)).collect()
        };
        assert_eq!(shown(0), ["GPU-1 nvswitch 10"]);
        assert_eq!(shown(2), ["GPU-0 nvlink 2"]);
    }

    #[test]
    fn annotations_are_sums() {
        let round = round(vec![card(0), card(1)]);
        let status = status(&round, &Instance::new(true, None), &LabelOptions::default());
        let expected = [("gpu-scheduler/memory-total", "163840"), ("gpu-scheduler/memory-used", "0")];
        assert_eq!(annotations(&status), expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn times_are_in_whole_seconds() {
        let time: jiff::Timestamp = "2026-11-29T10:00:00.987Z".parse().unwrap();
        assert_eq!(seconds(time), "2026-11-29T10:00:00Z");
    }
}
