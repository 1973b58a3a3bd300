//! What engines do, from GPM's counters: Hopper and newer. Between two looks it is the difference that says something.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nvml_wrapper::Device;
use nvml_wrapper::enums::gpm::GpmMetricId as Id;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;

use super::fault::Calls;
use super::library::Library;
use super::raw::KeptSample;
use super::sample::Activity;
use crate::inventory::{Card, GpuUuid};

/// Compute capability of Hopper.
const HOPPER: u32 = 9;
/// GPM's rates are in MiB a second.
const MIB: f64 = 1_048_576.0;

const METRICS: [Id; 12] = [
    Id::GraphicsUtil,
    Id::SmUtil,
    Id::SmOccupancy,
    Id::AnyTensorUtil,
    Id::DramBwUtil,
    Id::Fp64Util,
    Id::Fp32Util,
    Id::Fp16Util,
    Id::PcieTxPerSec,
    Id::PcieRxPerSec,
    Id::NvlinkTotalTxPerSec,
    Id::NvlinkTotalRxPerSec,
];

/// The last samples, of cards and of GPU instances.
#[derive(Default)]
pub(super) struct Activities {
    last: BTreeMap<(GpuUuid, Option<u32>), KeptSample>,
}

impl Activities {
    /// What the card's, or its GPU instance's, engines did since the last look.
    pub fn of(
        &mut self,
        library: &Library,
        device: &Device<'_>,
        card: &Card,
        gpu_instance: Option<u32>,
        calls: &mut Calls<'_>,
    ) -> Option<Activity> {
        if card.capability.major < HOPPER {
            return None;
        }
        calls.value("nvmlGpmQueryDeviceSupport", || device.gpm_support()).filter(|supported| *supported)?;
        let sample = match gpu_instance {
            None => calls.value("nvmlGpmSampleGet", || device.gpm_sample()),
            Some(id) => calls.value("nvmlGpmMigSampleGet", || device.gpm_mig_sample(id)),
        };
        let now = KeptSample::keep(library.shared(), sample?);
        let before = match self.last.entry((card.uuid.clone(), gpu_instance)) {
            Entry::Vacant(entry) => {
                entry.insert(now);
                return None;
            }
            Entry::Occupied(mut entry) => entry.insert(now),
        };
        let now = self.last.get(&(card.uuid.clone(), gpu_instance))?;
        calls.value("nvmlGpmMetricsGet", || between(&before, now))
    }

    /// Forgets cards and instances that are gone.
    pub fn keep(&mut self, is_there: impl Fn(&GpuUuid, Option<u32>) -> bool) {
        self.last.retain(|(card, instance), _| is_there(card, *instance));
    }
}

fn between(before: &KeptSample, now: &KeptSample) -> Result<Activity, NvmlError> {
    let results = before.with(|nvml, before| now.with(|_, now| gpm_metrics_get(nvml, before, now, &METRICS)))?;
    let values: Vec<(Id, f64)> =
        METRICS.into_iter().zip(results).filter_map(|(id, result)| Some((id, result.ok()?.value))).collect();
    Ok(activity(&values))
}

fn activity(values: &[(Id, f64)]) -> Activity {
    let raw = |id: Id| values.iter().find(|(known, value)| *known == id && value.is_finite()).map(|(_, value)| *value);
    let share = |id| raw(id).map(|percent| percent / 100.0);
    let bytes = |id| raw(id).map(|mib| mib * MIB);
    Activity {
        graphics_engine: share(Id::GraphicsUtil),
        sm: share(Id::SmUtil),
        sm_occupancy: share(Id::SmOccupancy),
        tensor: share(Id::AnyTensorUtil),
        dram: share(Id::DramBwUtil),
        fp64: share(Id::Fp64Util),
        fp32: share(Id::Fp32Util),
        fp16: share(Id::Fp16Util),
        pcie_tx: bytes(Id::PcieTxPerSec),
        pcie_rx: bytes(Id::PcieRxPerSec),
        nvlink_tx: bytes(Id::NvlinkTotalTxPerSec),
        nvlink_rx: bytes(Id::NvlinkTotalRxPerSec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let seen = activity(&[(Id::GraphicsUtil, 50.0), (Id::PcieTxPerSec, 2.0), (Id::SmUtil, f64::NAN)]);
        assert_eq!(seen, Activity { graphics_engine: Some(0.5), pcie_tx: Some(2_097_152.0), ..Activity::default() });
    }
}
