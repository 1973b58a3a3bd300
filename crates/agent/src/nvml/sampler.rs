//! Takes samples of cards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpu_scheduler_engine::model::Mib;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper_sys::bindings::field_id::NVML_FI_DEV_MEMORY_TEMP;

use super::activity::Activities;
use super::fault::{Calls, CardFault, Failures, is_unsupported};
use super::library::Library;
use super::processes::processes;
use super::rate::Rate;
use super::raw;
use super::sample::{Ecc, Instance, Memory, RemappedRows, Sample};
use crate::inventory::{Card, GpuUuid, Inventory};

/// What must be remembered from one look to the next.
#[derive(Default)]
pub struct Sampler {
    rates: BTreeMap<GpuUuid, Rate>,
    activities: Activities,
}

impl Sampler {
    /// Looks at a card. `now` is the time since any moment that stays the same.
    ///
    /// # Errors
    /// [`CardFault`] if the card is lost: then it has no values at all.
    pub fn sample(
        &mut self,
        library: &Library,
        card: &Card,
        now: Duration,
        failures: &mut Failures,
    ) -> Result<Sample, CardFault> {
        let device = match library.nvml().device_by_uuid(card.uuid.as_str()) {
            Ok(device) => device,
            Err(NvmlError::NotFound) => return Err(CardFault::Unknown),
            Err(error) => return Err(CardFault::of(&error).unwrap_or(CardFault::Lost)),
        };
        let mut calls = Calls::of(&card.uuid, failures);
        let mut sample = values(&device, &mut calls);
        sample.ecc = ecc(&device, &mut calls);
        sample.remapped_rows = remapped_rows(&device, &mut calls);
        sample.processes = processes(&device, &mut calls);
        if !card.links.is_empty() {
            let counters = calls.value("nvmlDeviceGetFieldValues", || raw::nvlink_throughput(&device));
            sample.nvlink_mb_per_second = counters.map(|(received, sent)| {
                let rate = self.rates.entry(card.uuid.clone()).or_default();
                rate.thousands_per_second(now, received.saturating_add(sent))
            });
        }
        if card.mig.devices().is_empty() {
            sample.activity = self.activities.of(library, &device, card, None, &mut calls);
        }
        sample.instances = self.instances(library, &device, card, &mut calls);
        calls.fault().map_or(Ok(sample), Err)
    }

    fn instances(
        &mut self,
        library: &Library,
        device: &Device<'_>,
        card: &Card,
        calls: &mut Calls<'_>,
    ) -> Vec<Instance> {
        let mut seen = BTreeSet::new();
        let mut instances = Vec::new();
        for part in card.mig.devices().iter().filter(|part| seen.insert(part.gpu_instance)) {
            let handle = calls.value("nvmlDeviceGetMigDeviceHandleByIndex", || device.mig_device_by_index(part.index));
            let memory = handle.and_then(|handle| calls.value("nvmlDeviceGetMemoryInfo_v2", || memory(&handle)));
            let activity = self.activities.of(library, device, card, Some(part.gpu_instance), calls);
            instances.push(Instance { gpu_instance: part.gpu_instance, memory, activity });
        }
        instances.sort_by_key(|instance| instance.gpu_instance);
        instances
    }

    /// Forgets what is gone.
    pub fn keep(&mut self, inventory: &Inventory) {
        self.rates.retain(|card, _| inventory.card(card).is_some());
        self.activities.keep(|card, instance| {
            inventory.card(card).is_some_and(|card| match instance {
                None => card.mig.devices().is_empty(),
                Some(id) => card.mig.devices().iter().any(|part| part.gpu_instance == id),
            })
        });
    }
}

fn values(device: &Device<'_>, calls: &mut Calls<'_>) -> Sample {
    let utilization = calls.value("nvmlDeviceGetUtilizationRates", || device.utilization_rates());
    Sample {
        memory: calls.value("nvmlDeviceGetMemoryInfo_v2", || memory(device)),
        gpu_utilization: utilization.as_ref().map(|rates| rates.gpu),
        memory_utilization: utilization.map(|rates| rates.memory),
        encoder_utilization: calls
            .value("nvmlDeviceGetEncoderUtilization", || device.encoder_utilization())
            .map(|encoder| encoder.utilization),
        decoder_utilization: calls
            .value("nvmlDeviceGetDecoderUtilization", || device.decoder_utilization())
            .map(|decoder| decoder.utilization),
        temperature: calls.value("nvmlDeviceGetTemperature", || device.temperature(TemperatureSensor::Gpu)),
        memory_temperature: calls.value("nvmlDeviceGetFieldValues", || memory_temperature(device)),
        power_mw: calls.value("nvmlDeviceGetPowerUsage", || device.power_usage()),
        energy_mj: calls.value("nvmlDeviceGetTotalEnergyConsumption", || device.total_energy_consumption()),
        sm_clock: calls.value("nvmlDeviceGetClockInfo", || device.clock_info(Clock::SM)),
        memory_clock: calls.value("nvmlDeviceGetClockInfo", || device.clock_info(Clock::Memory)),
        clock_reasons: calls
            .value("nvmlDeviceGetCurrentClocksThrottleReasons", || device.current_throttle_reasons())
            .map(|reasons| reasons.bits()),
        pcie_replays: calls.value("nvmlDeviceGetPcieReplayCounter", || device.pcie_replay_counter()),
        ..Sample::default()
    }
}

fn memory(device: &Device<'_>) -> Result<Memory, NvmlError> {
    let mib = |bytes: u64| Mib(bytes >> 20);
    match device.memory_info() {
        Ok(memory) => Ok(Memory {
            total: mib(memory.total),
            free: mib(memory.free),
            used: mib(memory.used),
            reserved: Some(mib(memory.reserved)),
        }),
        Err(error) if is_unsupported(&error) => {
            let memory = raw::memory_v1(device)?;
            Ok(Memory { total: mib(memory.total), free: mib(memory.free), used: mib(memory.used), reserved: None })
        }
        Err(error) => Err(error),
    }
}

fn memory_temperature(device: &Device<'_>) -> Result<u64, NvmlError> {
    let fields = device.field_values_for(&[FieldId(NVML_FI_DEV_MEMORY_TEMP)])?;
    let field = fields.into_iter().next().unwrap_or(Err(NvmlError::NoData))?;
    match field.value? {
        SampleValue::U32(degrees) => Ok(u64::from(degrees)),
        SampleValue::U64(degrees) => Ok(degrees),
        _ => Err(NvmlError::NoData),
    }
}

fn ecc(device: &Device<'_>, calls: &mut Calls<'_>) -> Ecc {
    let mut count = |error: MemoryError, counter: EccCounter| {
        calls.value("nvmlDeviceGetTotalEccErrors", || device.total_ecc_errors(error, counter))
    };
    Ecc {
        corrected_volatile: count(MemoryError::Corrected, EccCounter::Volatile),
        uncorrected_volatile: count(MemoryError::Uncorrected, EccCounter::Volatile),
        corrected_aggregate: count(MemoryError::Corrected, EccCounter::Aggregate),
        uncorrected_aggregate: count(MemoryError::Uncorrected, EccCounter::Aggregate),
    }
}

fn remapped_rows(device: &Device<'_>, calls: &mut Calls<'_>) -> Option<RemappedRows> {
    let rows = calls.value("nvmlDeviceGetRemappedRows", || raw::remapped_rows(device));
    rows.map(|(correctable, uncorrectable, failed)| RemappedRows { correctable, uncorrectable, failed })
}
