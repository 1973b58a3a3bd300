//! Which devices are well: what XIDs and silence make of them, and what makes them well again.
//!
//! As NVIDIA's device plugin has it, an XID that is not on the list of applications' own faults makes a device unhealthy.
//! Unlike there, every device of the card is marked and not only the last one, and a device recovers: when the card was
//! reset, or when nothing more was heard for a quiet time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::inventory::{Card, DeviceHealth, DeviceUuid, GpuUuid, Inventory};
use crate::nvml::{CardFault, XidEvent};

/// XIDs that applications cause: the card is well.
const IGNORED: [u64; 6] = [13, 31, 43, 45, 68, 109];
/// How long a device stays unhealthy after its last critical XID if nobody resets the card.
pub const DEFAULT_QUIET: Duration = Duration::from_secs(30 * 60);

/// Which XIDs count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidPolicy {
    none_counts: bool,
    ignored: BTreeSet<u64>,
    counted: BTreeSet<u64>,
}

impl Default for XidPolicy {
    fn default() -> Self {
        Self::from_env(None, None)
    }
}

impl XidPolicy {
    /// From the values of `DP_DISABLE_HEALTHCHECKS` and `DP_ENABLE_HEALTHCHECKS`: comma lists of numbers, or `all` or
    /// `xids` for all of them. What is enabled by its number counts in any case. What is no number is ignored.
    pub fn from_env(disable: Option<&str>, enable: Option<&str>) -> Self {
        let (disable_all, disabled) = xids(disable);
        let (enable_all, counted) = xids(enable);
        let ignored = IGNORED.into_iter().chain(disabled).collect();
        Self { none_counts: disable_all && !enable_all, ignored, counted }
    }

    /// Whether the XID makes a device unhealthy.
    pub fn counts(&self, xid: u64) -> bool {
        self.counted.contains(&xid) || !(self.none_counts || self.ignored.contains(&xid))
    }
}

fn xids(list: Option<&str>) -> (bool, BTreeSet<u64>) {
    let mut all = false;
    let mut numbers = BTreeSet::new();
    for entry in list.unwrap_or_default().split(',').map(|entry| entry.trim().to_ascii_lowercase()) {
        match entry.as_str() {
            "all" | "xids" => all = true,
            other => numbers.extend(other.parse::<u64>()),
        }
    }
    (all, numbers)
}

/// How the devices of a node are.
#[derive(Debug, Clone)]
pub struct Health {
    policy: XidPolicy,
    quiet: Duration,
    marks: BTreeMap<DeviceUuid, Mark>,
    faults: BTreeMap<GpuUuid, CardFault>,
    energy: BTreeMap<GpuUuid, u64>,
    last_xid: BTreeMap<GpuUuid, u64>,
}

/// A critical XID of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    xid: u64,
    at: Duration,
}

/// Times are since any moment that stays the same.
impl Health {
    /// All devices well.
    pub fn new(policy: XidPolicy, quiet: Duration) -> Self {
        let (marks, faults, energy, last_xid) = Default::default();
        Self { policy, quiet, marks, faults, energy, last_xid }
    }

    /// The driver reported an XID. One of a card that it could not name is every card's.
    pub fn xid(&mut self, inventory: &Inventory, event: &XidEvent, now: Duration) {
        let cards: Vec<&Card> = match &event.card {
            Some(uuid) => inventory.card(uuid).into_iter().collect(),
            None => inventory.cards.iter().collect(),
        };
        for card in cards {
            self.last_xid.insert(card.uuid.clone(), event.xid);
            if !self.policy.counts(event.xid) {
                continue;
            }
            for device in struck(card, event) {
                self.marks.insert(device, Mark { xid: event.xid, at: now });
            }
        }
    }

    /// The card does not answer.
    pub fn lost(&mut self, card: &GpuUuid, fault: CardFault) {
        self.faults.insert(card.clone(), fault);
    }

    /// The card answers, with its energy counter if it has one. A card that was silent, or whose counter began anew, was
    /// reset: what was wrong before is over.
    pub fn answered(&mut self, card: &Card, energy_mj: Option<u64>, now: Duration) {
        let was_lost = self.faults.remove(&card.uuid).is_some();
        let before = energy_mj.and_then(|energy| self.energy.insert(card.uuid.clone(), energy));
        let restarted = before.zip(energy_mj).is_some_and(|(before, energy)| energy < before);
        let quiet = self.quiet;
        for device in devices(card) {
            let over = |mark: &Mark| was_lost || restarted || now.saturating_sub(mark.at) >= quiet;
            if self.marks.get(&device).is_some_and(over) {
                self.marks.remove(&device);
            }
        }
    }

    /// Forgets devices that are gone.
    pub fn keep(&mut self, inventory: &Inventory) {
        let there: BTreeSet<DeviceUuid> = inventory.cards.iter().flat_map(devices).collect();
        self.marks.retain(|device, _| there.contains(device));
        self.faults.retain(|card, _| inventory.card(card).is_some());
        self.energy.retain(|card, _| inventory.card(card).is_some());
        self.last_xid.retain(|card, _| inventory.card(card).is_some());
    }

    /// How each device is.
    pub fn of(&self, inventory: &Inventory) -> BTreeMap<DeviceUuid, DeviceHealth> {
        let mut health = BTreeMap::new();
        for card in &inventory.cards {
            for device in devices(card) {
                let reason = match (self.faults.get(&card.uuid), self.marks.get(&device)) {
                    (Some(fault), _) => Some(fault.to_string()),
                    (None, Some(mark)) => Some(format!("XID {}", mark.xid)),
                    (None, None) => None,
                };
                let state = reason.map_or(DeviceHealth::Healthy, |reason| DeviceHealth::Unhealthy { reason });
                health.insert(device, state);
            }
        }
        health
    }

    /// Whether the card did not answer when it was last asked.
    pub fn is_lost(&self, card: &GpuUuid) -> bool {
        self.faults.contains_key(card)
    }

    /// The last XID of a card, critical or not, since the agent runs.
    pub fn last_xid(&self, card: &GpuUuid) -> Option<u64> {
        self.last_xid.get(card).copied()
    }
}

/// The card and its MIG devices.
fn devices(card: &Card) -> Vec<DeviceUuid> {
    let parts = card.mig.devices().iter().map(|part| DeviceUuid::Mig(part.uuid.clone()));
    std::iter::once(DeviceUuid::Gpu(card.uuid.clone())).chain(parts).collect()
}

/// The devices of a card that an event is about: those of its instances, or all.
fn struck(card: &Card, event: &XidEvent) -> Vec<DeviceUuid> {
    let Some(gpu_instance) = event.gpu_instance else { return devices(card) };
    let parts = card.mig.devices().iter().filter(|part| {
        part.gpu_instance == gpu_instance && event.compute_instance.is_none_or(|id| part.compute_instance == id)
    });
    parts.map(|part| DeviceUuid::Mig(part.uuid.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{card, mig_device};
    use crate::inventory::Mig;

    fn inventory() -> Inventory {
        let mut split = card(1);
        split.mig = Mig::Enabled(vec![mig_device(1, 1, 0), mig_device(1, 2, 0), mig_device(1, 2, 1)]);
        Inventory { cards: vec![card(0), split], ..Inventory::default() }
    }

    fn event(card: Option<u32>, xid: u64, gpu_instance: Option<u32>, compute_instance: Option<u32>) -> XidEvent {
        let card = card.map(|index| inventory().cards[index as usize].uuid.clone());
        XidEvent { card, xid, gpu_instance, compute_instance }
    }

    fn unhealthy(health: &Health) -> Vec<(String, String)> {
        let of = |(device, state): (DeviceUuid, DeviceHealth)| match state {
            DeviceHealth::Healthy => None,
            DeviceHealth::Unhealthy { reason } => Some((device.to_string(), reason)),
        };
        health.of(&inventory()).into_iter().filter_map(of).collect()
    }

    fn names(health: &Health) -> Vec<String> {
        unhealthy(health).into_iter().map(|(device, _)| device).collect()
    }

    #[test]
    fn which_xids_count() {
        for (disable, enable, xid, expected) in [
            (None, None, 79, true),
            (None, None, 13, false),
            (None, None, 109, false),
            (Some("79, 48"), None, 79, false),
            (Some("79, 48"), None, 74, true),
            (Some("all"), None, 79, false),
            (Some("XIDS"), None, 79, false),
            (Some("all"), Some("79"), 79, true),
            (Some("all"), Some("79"), 48, false),
            (Some("all"), Some("all"), 48, true),
            (Some("all"), Some("all"), 13, false),
            (None, Some("13"), 13, true),
            (Some("79"), Some("79"), 79, true),
            (Some("nonsense,"), None, 79, true),
        ] {
            let policy = XidPolicy::from_env(disable, enable);
            assert_eq!(policy.counts(xid), expected, "{disable:?} {enable:?} {xid}");
        }
    }

    #[test]
    fn which_devices_are_struck() {
        for (event, expected) in [
            (event(Some(0), 79, None, None), vec!["GPU-0"]),
            (event(Some(1), 79, None, None), vec!["GPU-1", "MIG-1-1-0", "MIG-1-2-0", "MIG-1-2-1"]),
            (event(Some(1), 79, Some(2), None), vec!["MIG-1-2-0", "MIG-1-2-1"]),
            (event(Some(1), 79, Some(2), Some(1)), vec!["MIG-1-2-1"]),
            (event(Some(1), 79, Some(5), Some(0)), vec![]),
            (event(Some(0), 13, None, None), vec![]),
            (event(None, 79, None, None), vec!["GPU-0", "GPU-1", "MIG-1-1-0", "MIG-1-2-0", "MIG-1-2-1"]),
        ] {
            let mut health = Health::new(XidPolicy::default(), DEFAULT_QUIET);
            health.xid(&inventory(), &event, Duration::ZERO);
            assert_eq!(names(&health), expected, "{event:?}");
        }
    }

    #[test]
    fn a_quiet_time_heals() {
        let mut health = Health::new(XidPolicy::default(), Duration::from_secs(100));
        let (inventory, second) = (inventory(), Duration::from_secs);
        let card = &inventory.cards[0];
        health.xid(&inventory, &event(Some(0), 48, None, None), second(10));
        health.answered(card, Some(1), second(60));
        assert_eq!(unhealthy(&health), [("GPU-0".to_owned(), "XID 48".to_owned())]);
        health.xid(&inventory, &event(Some(0), 94, None, None), second(70));
        health.answered(card, Some(2), second(169));
        assert_eq!(unhealthy(&health), [("GPU-0".to_owned(), "XID 94".to_owned())], "it is counted from the last one");
        health.answered(card, Some(3), second(170));
        assert_eq!(names(&health), [""; 0]);
        assert_eq!(health.last_xid(&card.uuid), Some(94));
    }

    #[test]
    fn a_reset_heals_at_once() {
        let inventory = inventory();
        let card = &inventory.cards[0];
        for (reset, name) in [
            (&(|health: &mut Health| health.lost(&card.uuid, CardFault::Lost)) as &dyn Fn(&mut Health), "silence"),
            (&|_: &mut Health| {}, "energy"),
        ] {
            let mut health = Health::new(XidPolicy::default(), DEFAULT_QUIET);
            health.answered(card, Some(500), Duration::ZERO);
            health.xid(&inventory, &event(Some(0), 48, None, None), Duration::ZERO);
            reset(&mut health);
            health.answered(card, Some(3), Duration::from_secs(1));
            assert_eq!(names(&health), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_lost_card_takes_its_parts_along_until_it_answers() {
        let mut health = Health::new(XidPolicy::default(), DEFAULT_QUIET);
        let inventory = inventory();
        let card = &inventory.cards[1];
        health.lost(&card.uuid, CardFault::Lost);
        assert_eq!(names(&health), ["GPU-1", "MIG-1-1-0", "MIG-1-2-0", "MIG-1-2-1"]);
        assert_eq!(unhealthy(&health)[0].1, "GPU is lost");
        health.answered(card, None, Duration::from_secs(5));
        assert_eq!(names(&health), [""; 0]);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut health = Health::new(XidPolicy::default(), DEFAULT_QUIET);
        health.xid(&inventory(), &event(Some(1), 79, None, None), Duration::ZERO);
        let mut other = inventory();
        other.cards[1].mig = Mig::Enabled(Vec::new());
        health.keep(&other);
        assert_eq!(names(&health), ["GPU-1"]);
    }
}
