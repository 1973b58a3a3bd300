//! Whether a report says something new: anything but numbers that moved by less than 1 %.
//!
//! Temperature and power are for people and never stand still: a card at rest wavers by a degree and some watts. They
//! count when they moved by more than that, or ten thousand nodes would tell of it all day.

use super::document::{DeviceStatus, HolderStatus, Status};

/// A change of temperature that is told.
const DEGREES: u32 = 3;
/// A change of power that is told.
const WATTS: f64 = 10.0;

/// Whether `new` is worth a write where `old` was the last one.
pub(super) fn moved(old: &Status, new: &Status) -> bool {
    old.driver_version != new.driver_version
        || old.agent != new.agent
        || old.topology_manager != new.topology_manager
        || old.devices.len() != new.devices.len()
        || old.devices.iter().zip(&new.devices).any(|(old, new)| device_moved(old, new))
}

/// Whether a sum of memory moved by 1 % of what there is.
pub(super) fn memory_moved(old: u64, new: u64, total: u64) -> bool {
    old != new && old.abs_diff(new).saturating_mul(100) >= total
}

fn device_moved(old: &DeviceStatus, new: &DeviceStatus) -> bool {
    let total = new.total_memory_mib;
    what_it_is(old) != what_it_is(new)
        || optional(old.used_memory_mib, new.used_memory_mib, |a, b| memory_moved(a, b, total))
        || optional(old.foreign_memory_mib, new.foreign_memory_mib, |a, b| memory_moved(a, b, total))
        || old.holders.len() != new.holders.len()
        || old.holders.iter().zip(&new.holders).any(|(old, new)| holder_moved(old, new, total))
        || optional(old.utilization, new.utilization, |a, b| a != b)
        || optional(old.temperature_c, new.temperature_c, |a, b| a.abs_diff(b) >= DEGREES)
        || optional(old.power_w, new.power_w, |a, b| (a - b).abs() >= WATTS)
}

/// What is not measured.
fn what_it_is(device: &DeviceStatus) -> impl PartialEq + '_ {
    (
        (device.index, &device.uuid, &device.model, device.total_memory_mib, device.numa_node),
        (device.health, &device.health_reason, device.mode, &device.links, &device.partitions),
    )
}

fn holder_moved(old: &HolderStatus, new: &HolderStatus, total: u64) -> bool {
    let who = |holder: &HolderStatus| (holder.pod_uid.clone(), holder.container.clone(), holder.granted_mib);
    who(old) != who(new) || optional(old.used_mib, new.used_mib, |a, b| memory_moved(a, b, total))
}

fn optional<T: Copy>(old: Option<T>, new: Option<T>, moved: impl Fn(T, T) -> bool) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => moved(old, new),
        (None, None) => false,
        _ => true,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use gpu_scheduler_engine::model::TopologyManager;

    use super::super::document::AgentStatus;
    use super::*;

    /// One card of 80 GiB.
    pub fn report() -> Status {
        let device = DeviceStatus {
            index: 0,
            uuid: "GPU-0".to_owned(),
            model: "A100".to_owned(),
            total_memory_mib: 80_000,
            used_memory_mib: Some(10_000),
            foreign_memory_mib: Some(0),
            holders: vec![HolderStatus {
                pod_uid: "u".to_owned(),
                namespace: "default".to_owned(),
                pod: "a".to_owned(),
                container: None,
                granted_mib: Some(8192),
                used_mib: Some(7000),
            }],
            utilization: Some(50),
            temperature_c: Some(40),
            power_w: Some(200.0),
            health: "Healthy",
            health_reason: None,
            mode: "shared",
            numa_node: None,
            links: Vec::new(),
            partitions: None,
        };
        Status {
            updated_at: String::new(),
            driver_version: "570".to_owned(),
            agent: AgentStatus {
                instance: "i".to_owned(),
                started_at: "s".to_owned(),
                version: "v".to_owned(),
                hands_out: true,
            },
            topology_manager: None,
            gpus: 1,
            total_memory_mib: 80_000,
            used_memory_mib: 10_000,
            devices: vec![device],
        }
    }

    #[test]
    fn what_moves() {
        type Change = fn(&mut Status);
        let cases: [(&str, Change, bool); 23] = [
            ("nothing", |_| {}, false),
            ("time", |s| s.updated_at = "now".to_owned(), false),
            ("driver", |s| s.driver_version = "580".to_owned(), true),
            ("agent", |s| s.agent.instance = "j".to_owned(), true),
            ("topology manager", |s| s.topology_manager = Some(TopologyManager::default().into()), true),
            ("a card less", |s| s.devices.clear(), true),
            ("0.9 % of memory", |s| s.devices[0].used_memory_mib = Some(10_799), false),
            ("1 % of memory", |s| s.devices[0].used_memory_mib = Some(10_800), true),
            ("1 % of memory less", |s| s.devices[0].used_memory_mib = Some(9_200), true),
            ("memory unknown", |s| s.devices[0].used_memory_mib = None, true),
            ("foreign", |s| s.devices[0].foreign_memory_mib = Some(800), true),
            ("little foreign", |s| s.devices[0].foreign_memory_mib = Some(799), false),
            ("holder", |s| s.devices[0].holders[0].used_mib = Some(8000), true),
            ("holder, little", |s| s.devices[0].holders[0].used_mib = Some(7100), false),
            ("grant", |s| s.devices[0].holders[0].granted_mib = Some(1), true),
            ("holder gone", |s| s.devices[0].holders.clear(), true),
            ("utilization", |s| s.devices[0].utilization = Some(51), true),
            ("temperature, little", |s| s.devices[0].temperature_c = Some(42), false),
            ("temperature", |s| s.devices[0].temperature_c = Some(37), true),
            ("power, little", |s| s.devices[0].power_w = Some(209.9), false),
            ("power", |s| s.devices[0].power_w = Some(190.0), true),
            ("health", |s| s.devices[0].health = "Unhealthy", true),
            ("mode", |s| s.devices[0].mode = "mig", true),
        ];
        for (name, change, expected) in cases {
            let mut new = report();
            change(&mut new);
            assert_eq!(moved(&report(), &new), expected, "{name}");
        }
    }
}
