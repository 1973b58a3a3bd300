//! An agent's report of its node's cards as a fact for the engine.

use std::collections::BTreeSet;

use gpu_scheduler_engine::model::{
    CardSpec, DeviceReport, DeviceStatus, Health, Holder, Link, Mib, Partition, Partitioning, PodUid, TopologyManager,
    TopologySetting,
};

use crate::node::{MOST_CARDS, product};
use crate::objects::{GpuNodeState, GpuNodeStateStatus, ReportedDevice, ReportedHolder, ReportedTopologyManager};
use crate::problem::Finding;
use crate::time;

/// Turns a report object into a fact; `None` where it says nothing about cards yet, so that what the node
/// object says goes on counting. What is wrong with it goes to `findings`.
///
/// A card that the node time-slices is reported as shared on demand: seats are the node object's to tell.
pub fn read_device_report(object: GpuNodeState, findings: &mut Vec<Finding>) -> Option<DeviceReport> {
    let GpuNodeState { metadata, status } = object;
    if status == GpuNodeStateStatus::default() {
        return None; // just made: what there is to report comes by the status subresource, a moment later
    }
    let Some(devices) = status.devices else {
        findings.push(Finding::new(
            "status.devices",
            "it is missing, and the report was ignored",
            "check that the agent runs on the node; until it reports, the node's labels and capacity count",
        ));
        return None;
    };
    if status.updated_at.is_none() {
        findings.push(Finding::new(
            "status.updatedAt",
            "it is missing, so nobody can tell how old the measurements are",
            "check the agent; a plan takes the report as written just now",
        ));
    }
    let updated_at = time::read(status.updated_at.as_deref(), "status.updatedAt", findings).unwrap_or_default();
    let mut report = DeviceReport {
        node: metadata.name,
        updated_at,
        steered: status.agent.is_some_and(|a| a.hands_out),
        topology_manager: status.topology_manager.and_then(|it| topology_manager(&it, findings)),
        devices: Vec::with_capacity(devices.len()),
    };
    let mut seen = BTreeSet::new();
    if devices.len() > MOST_CARDS as usize {
        findings.push(Finding::new(
            "status.devices",
            format!("{} cards are more than any node has, and the first {MOST_CARDS} were taken", devices.len()),
            "check the agent",
        ));
    }
    for (position, device) in devices.into_iter().take(MOST_CARDS as usize).enumerate() {
        let field = format!("status.devices[{position}]");
        let index = device.index.unwrap_or(u32::try_from(position).unwrap_or(u32::MAX));
        let status = read_device(device, &report.node, index, &field, findings);
        if seen.insert(status.card.uuid.clone()) {
            report.devices.push(status);
        } else {
            findings.push(Finding::new(
                format!("{field}.uuid"),
                format!("{:?} is there twice, and the second card was left out", status.card.uuid),
                "check the agent: every card has a UUID of its own",
            ));
        }
    }
    Some(report)
}

/// What is missing has kubelet's default. What is not known is ignored whole: half of it would foretell something else.
fn topology_manager(said: &ReportedTopologyManager, findings: &mut Vec<Finding>) -> Option<TopologyManager> {
    let (field, unknown) = match TopologyManager::named(&said.policy, &said.scope) {
        Ok(known) => return Some(known),
        Err((TopologySetting::Policy, unknown)) => ("policy", unknown),
        Err((TopologySetting::Scope, unknown)) => ("scope", unknown),
    };
    findings.push(Finding::new(
        format!("status.topologyManager.{field}"),
        format!("{unknown}; kubelet is taken to align nothing"),
        "check the agent and its version",
    ));
    None
}

fn read_device(
    device: ReportedDevice,
    node: &str,
    index: u32,
    field: &str,
    findings: &mut Vec<Finding>,
) -> DeviceStatus {
    let uuid = if device.uuid.is_empty() { CardSpec::made_up_uuid(node, index) } else { device.uuid.clone() };
    let memory = device.total_memory_mib.filter(|mib| *mib > 0).map(Mib);
    let mut card = CardSpec::new(uuid, index, product(&device.model), memory);
    card.numa = device.numa_node;
    card.health = health(&device, field, findings);
    card.partitioning = partitioning(&device, &card.uuid, field, findings);
    card.links =
        device.links.into_iter().map(|link| Link { peer: link.peer, kind: link.kind, lanes: link.lanes }).collect();
    DeviceStatus {
        card,
        used: Mib(device.used_memory_mib),
        foreign: Mib(device.foreign_memory_mib),
        holders: holders(&device.holders, field, findings),
    }
}

fn health(device: &ReportedDevice, field: &str, findings: &mut Vec<Finding>) -> Health {
    match device.health.as_str() {
        "" | "Healthy" => Health::Healthy,
        "Unhealthy" if device.health_reason.is_empty() => Health::Unhealthy("no reason given".to_owned()),
        "Unhealthy" => Health::Unhealthy(device.health_reason.clone()),
        // Whatever it means, it is not "healthy": nothing new goes there.
        unknown => {
            findings.push(Finding::new(
                format!("{field}.health"),
                format!("{unknown:?} is not known, and the card counts as unhealthy"),
                "write Healthy or Unhealthy",
            ));
            Health::Unhealthy(format!("unknown health {unknown:?}"))
        }
    }
}

fn partitioning(device: &ReportedDevice, uuid: &str, field: &str, findings: &mut Vec<Finding>) -> Partitioning {
    match device.mode.as_str() {
        "" | "exclusive" | "shared" | "mps" => Partitioning::OnDemand,
        "mig" => Partitioning::Mig(
            device
                .partitions
                .iter()
                .enumerate()
                .map(|(j, partition)| Partition {
                    // As the resource is named, where a plus sign is not allowed.
                    profile: partition.profile.replace('+', "."),
                    uuid: if partition.uuid.is_empty() { format!("{uuid}/mig-{j}") } else { partition.uuid.clone() },
                    start: partition.start,
                })
                .collect(),
        ),
        unknown => {
            findings.push(Finding::new(
                format!("{field}.mode"),
                format!("{unknown:?} is not known, and the card counts as one that may be whole or shared"),
                "write exclusive, shared, mps or mig",
            ));
            Partitioning::OnDemand
        }
    }
}

/// What each pod holds: the sum over its containers, in the order in which the pods first appear.
fn holders(list: &[ReportedHolder], field: &str, findings: &mut Vec<Finding>) -> Vec<Holder> {
    let mut holders: Vec<Holder> = Vec::new();
    for (index, holder) in list.iter().enumerate() {
        if holder.pod_uid.is_empty() {
            findings.push(Finding::new(
                format!("{field}.holders[{index}].podUID"),
                "it is missing, and the holder was left out",
                "report the memory of processes that no pod explains in foreignMemoryMiB",
            ));
            continue;
        }
        let used = Mib(holder.used_mib);
        match holders.iter_mut().find(|known| *known.pod.0 == *holder.pod_uid) {
            Some(known) => known.used = known.used.saturating_add(used),
            None => holders.push(Holder { pod: PodUid::from(holder.pod_uid.as_str()), used }),
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use gpu_scheduler_engine::model::Timestamp;
    use serde_json::json;

    use super::*;

    fn read(object: serde_json::Value) -> (Option<DeviceReport>, Vec<String>) {
        let object: GpuNodeState = serde_json::from_value(object).expect("a report object");
        let mut findings = Vec::new();
        let report = read_device_report(object, &mut findings);
        (report, findings.into_iter().map(|f| f.field).collect())
    }

    #[test]
    fn a_full_report() {
        let (report, findings) = read(json!({"metadata": {"name": "n1"}, "status": {
            "updatedAt": "1970-01-01T00:00:05Z", "driverVersion": "570",
            "devices": [
                {"index": 0, "uuid": "GPU-a", "model": "T4-SHARED", "totalMemoryMiB": 15360, "usedMemoryMiB": 300,
                 "foreignMemoryMiB": 100, "utilization": 35.2, "health": "Healthy", "mode": "exclusive", "numaNode": 1,
                 "holders": [{"podUID": "u", "usedMiB": 50}, {"podUID": "v", "usedMiB": 50}, {"podUID": "u", "usedMiB": 100}],
                 "links": [{"peer": "GPU-b", "kind": "nvlink", "lanes": 12}]},
                {"index": 3, "uuid": "GPU-b", "model": "A100", "health": "Unhealthy", "healthReason": "XID 79", "mode": "mig",
                 "partitions": [{"profile": "1g.10gb+me", "uuid": "MIG-1", "start": 2}, {"profile": "2g.20gb"}]},
                {"mode": "mps"}]}}));
        assert_eq!(findings, Vec::<String>::new());
        let report = report.expect("a report");
        assert_eq!((report.node.as_str(), report.updated_at), ("n1", Timestamp(5000)));
        let [a, b, c] = report.devices.as_slice() else { panic!("three cards") };
        assert_eq!((a.card.model.as_str(), a.card.memory, a.card.numa), ("T4", Some(Mib(15360)), Some(1)));
        assert_eq!((a.used, a.foreign, &a.card.partitioning), (Mib(300), Mib(100), &Partitioning::OnDemand));
        let holders: Vec<_> = a.holders.iter().map(|h| (&*h.pod.0, h.used.0)).collect();
        assert_eq!(holders, [("u", 150), ("v", 50)]);
        assert_eq!(a.card.links, [Link { peer: "GPU-b".into(), kind: "nvlink".into(), lanes: 12 }]);
        assert_eq!((b.card.index, &b.card.health), (3, &Health::Unhealthy("XID 79".into())));
        let Partitioning::Mig(slices) = &b.card.partitioning else { panic!("MIG") };
        let slices: Vec<_> = slices.iter().map(|s| (s.profile.as_str(), s.uuid.as_str(), s.start)).collect();
        assert_eq!(slices, [("1g.10gb.me", "MIG-1", Some(2)), ("2g.20gb", "GPU-b/mig-1", None)]);
        assert_eq!((c.card.uuid.as_str(), c.card.model.as_str(), c.card.memory), ("n1/gpu-2", "unknown", None));
    }

    #[test]
    fn faults_cost_only_themselves() {
        let (report, findings) = read(json!({"metadata": {"name": "n"}, "status": {"updatedAt": "now", "devices": [
            {"uuid": "a", "health": "Poorly", "mode": "odd", "holders": [{"usedMiB": 5}, null]}, {"uuid": "a"}]}}));
        assert_eq!(
            findings,
            [
                "status.updatedAt",
                "status.devices[0].health",
                "status.devices[0].mode",
                "status.devices[0].holders[0].podUID",
                "status.devices[1].uuid",
            ]
        );
        let report = report.expect("a report");
        assert_eq!(report.devices.len(), 1);
        assert!(matches!(report.devices[0].card.health, Health::Unhealthy(_)));
    }

    #[test]
    fn how_kubelet_aligns() {
        use gpu_scheduler_engine::model::{TopologyManagerPolicy, TopologyManagerScope};
        let known = |policy, scope| Some(TopologyManager { policy, scope });
        let single = TopologyManagerPolicy::SingleNumaNode;
        for (said, expected, findings) in [
            (json!(null), None, &[][..]),
            (json!({}), known(TopologyManagerPolicy::None, TopologyManagerScope::Container), &[]),
            (json!({"policy": "single-numa-node", "scope": null}), known(single, TopologyManagerScope::Container), &[]),
            (json!({"policy": "single-numa-node", "scope": "pod"}), known(single, TopologyManagerScope::Pod), &[]),
            (json!({"policy": "strict", "scope": "pod"}), None, &["status.topologyManager.policy"]),
            (json!({"policy": "restricted", "scope": "node"}), None, &["status.topologyManager.scope"]),
        ] {
            let object = json!({"metadata": {"name": "n"}, "status": {"updatedAt": "1970-01-01T00:00:05Z", "devices": [],
                "topologyManager": said}});
            let (report, found) = read(object);
            assert_eq!(
                (report.expect("a report").topology_manager, found.as_slice()),
                (expected, &findings.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>()[..]),
                "{said}"
            );
        }
    }

    #[test]
    fn saying_nothing_is_not_saying_that_there_are_no_cards() {
        assert_eq!(read(json!({"metadata": {"name": "n"}, "status": {}})).0, None);
        assert_eq!(read(json!({"metadata": {"name": "n"}, "status": null})).0, None);
        let none = read(json!({"metadata": {"name": "n"}, "status": {"devices": []}})).0.expect("a report");
        assert_eq!(none.devices, []);
    }
}
