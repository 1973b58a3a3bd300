//! What containers have, told to whoever wants to change cards under them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::checkpoint::Entry;
use crate::inventory::DeviceUuid;
use crate::pods::NodePod;

/// What containers have or were promised. A clone is another handle on the same.
#[derive(Debug, Clone)]
pub struct Hands {
    pub(super) turn: Arc<Mutex<()>>,
    pub(super) entries: watch::Sender<Arc<Vec<Entry>>>,
    pub(super) pods: watch::Receiver<Arc<Vec<NodePod>>>,
    /// Whether kubelet's list and the pods were seen since the start.
    pub(super) known: watch::Sender<bool>,
}

/// What containers have or were promised. As long as this is there, nothing is handed out.
#[derive(Debug, Default)]
pub struct Claim {
    held: BTreeSet<DeviceUuid>,
    unknown: Option<&'static str>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Claim {
    /// These devices, and nobody who hands out.
    pub fn of(held: BTreeSet<DeviceUuid>) -> Self {
        Self { held, ..Self::default() }
    }

    /// The devices: cards, MIG devices.
    pub fn held(&self) -> &BTreeSet<DeviceUuid> {
        &self.held
    }

    /// Why these may not be all.
    pub fn unknown(&self) -> Option<&'static str> {
        self.unknown
    }
}

impl Hands {
    pub(super) fn new(pods: watch::Receiver<Arc<Vec<NodePod>>>) -> Self {
        Self {
            turn: Arc::default(),
            entries: watch::Sender::new(Arc::default()),
            pods,
            known: watch::Sender::new(false),
        }
    }

    /// Waits until what containers have is known.
    pub async fn known(&self) {
        // Whoever could tell is as long there as this is.
        let _ = self.known.subscribe().wait_for(|known| *known).await;
    }

    /// Waits until no call of kubelet's is being answered, and lets none be until the claim is dropped. It blocks: give it a
    /// thread.
    pub fn claim(&self) -> Claim {
        let turn = Arc::clone(&self.turn).blocking_lock_owned();
        let entries = Arc::clone(&self.entries.borrow());
        let given = entries.iter().flat_map(|entry| &entry.devices).map(|device| device.id.device.clone());
        let pods = Arc::clone(&self.pods.borrow());
        let records = pods.iter().filter_map(|pod| pod.record.as_ref());
        let grants = records.flat_map(|record| &record.containers).flat_map(|container| &container.devices);
        let promised: Vec<Option<DeviceUuid>> =
            grants.map(|grant| DeviceUuid::parse(grant.mig.as_deref().unwrap_or(&grant.uuid))).collect();
        let unknown = if !*self.known.borrow() {
            Some("kubelet's list of devices or this node's pods were not seen yet")
        } else if promised.contains(&None) {
            Some("a pod's record names its cards by their numbers only")
        } else {
            None
        };
        Claim { held: given.chain(promised.into_iter().flatten()).collect(), unknown, _turn: Some(turn) }
    }
}

#[cfg(test)]
mod tests {
    use gpu_scheduler_engine::model::GrantKind;

    use super::*;
    use crate::fixtures::pod;

    #[test]
    fn what_is_not_known_is_said_and_what_is_promised_counts() {
        let (sender, pods) = watch::channel(Arc::default());
        let hands = Hands::new(pods);
        assert!(hands.claim().unknown().is_some_and(|why| why.contains("not seen yet")));
        hands.known.send_replace(true);
        sender.send_replace(Arc::new(vec![pod("a", None, GrantKind::Whole, &[("GPU-1", 5)])]));
        let claim = hands.claim();
        assert_eq!(claim.unknown(), None);
        assert_eq!(claim.held().iter().map(ToString::to_string).collect::<Vec<_>>(), ["GPU-1"]);
        assert!(hands.turn.try_lock().is_err(), "nothing is handed out under it");
        drop(claim);
        assert!(hands.turn.try_lock().is_ok());
        sender.send_replace(Arc::new(vec![pod("a", None, GrantKind::Whole, &[("n1/gpu-0", 5)])]));
        assert!(hands.claim().unknown().is_some_and(|why| why.contains("numbers")));
    }
}
