//! What was found last, as series. They are written out as they were found: what is gone ends, what is unknown is left
//! out, and a scrape never sees half of a round.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::MetricsOptions;
use super::entity::{Common, Entity, Labels};
use super::fields::{ACTIVITY, CARD, Field, MEMORY, Number};
use crate::collect::Round;
use crate::inventory::{Card, DeviceHealth, DeviceUuid};
use crate::usage::Holder;

/// The last round.
#[derive(Debug)]
pub(super) struct Exposed {
    options: MetricsOptions,
    round: Mutex<Option<Arc<Round>>>,
}

impl Exposed {
    pub fn new(options: MetricsOptions) -> Self {
        Self { options, round: Mutex::default() }
    }

    pub fn set(&self, round: Option<Arc<Round>>) {
        *self.round.lock().unwrap_or_else(PoisonError::into_inner) = round;
    }
}

impl Collector for Exposed {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(round) = self.round.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return Ok(()) };
        let common = Common {
            node: &self.options.node,
            hostname_label: self.options.hostname_label,
            inventory: &round.inventory,
        };
        let mut out = Out { encoder };
        out.dcgm(&round, &common)?;
        out.containers(&round, &common)?;
        out.node(&round, &common)
    }
}

struct Out<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Out<'_> {
    fn dcgm(&mut self, round: &Round, common: &Common<'_>) -> fmt::Result {
        let entities: Vec<Entity<'_>> = round
            .inventory
            .cards
            .iter()
            .filter_map(|card| Some((card, round.samples.get(&card.uuid)?)))
            .flat_map(|(card, sample)| common.entities(card, sample, round.usage.get(&card.uuid)))
            .collect();
        self.fields(CARD, &entities, |entity| entity.sample)?;
        self.fields(MEMORY, &entities, |entity| entity.memory.as_ref())?;
        self.fields(ACTIVITY, &entities, |entity| entity.activity.as_ref())?;
        let xids = round.inventory.cards.iter().map(|card| {
            let last = round.last_xids.get(&card.uuid).copied().unwrap_or_default();
            (common.labels(card, None, None), Number::Integer(last))
        });
        self.family("DCGM_FI_DEV_XID_ERRORS", "The last XID since the agent runs, 0 for none", MetricType::Gauge, xids)
    }

    fn fields<'e, T: 'e>(
        &mut self,
        fields: &[Field<T>],
        entities: &'e [Entity<'e>],
        measured: impl Fn(&'e Entity<'e>) -> Option<&'e T>,
    ) -> fmt::Result {
        for field in fields {
            let series = entities.iter().filter_map(|entity| {
                let value = (field.value)(measured(entity)?)?;
                Some((entity.labels.clone(), value))
            });
            self.family(field.name, field.help, field.kind, series)?;
        }
        Ok(())
    }

    /// A family; none at all where it has no series. DCGM's counters have no `_total` behind their names, so they are
    /// written as gauges are.
    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        series: impl Iterator<Item = (Labels, Number)>,
    ) -> fmt::Result {
        let mut series = series.peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in series {
            let encoder = family.encode_family(&labels)?;
            match value {
                Number::Integer(value) => ConstGauge::new(value).encode(encoder)?,
                Number::Real(value) => ConstGauge::new(value).encode(encoder)?,
            }
        }
        Ok(())
    }

    /// What each container holds of each card: where several share one, DCGM's series say nothing of either.
    fn containers(&mut self, round: &Round, common: &Common<'_>) -> fmt::Result {
        type Amount = fn(&Holder) -> Option<u64>;
        let columns: [(&str, &str, Amount); 2] = [
            ("gpu_scheduler_agent_container_memory_used_mib", "Memory that a container uses of a card in MiB", |h| {
                h.used.map(|mib| mib.0)
            }),
            (
                "gpu_scheduler_agent_container_memory_granted_mib",
                "Memory that a container was given of a card in MiB",
                |h| h.granted.map(|mib| mib.0),
            ),
        ];
        for (name, help, amount) in columns {
            let series = round.inventory.cards.iter().flat_map(|card| {
                let holders = round.usage.get(&card.uuid).map(|usage| usage.holders.as_slice()).unwrap_or_default();
                holders.iter().filter_map(move |holder| {
                    let labels = common.labels(card, holder.gpu_instance, Some(holder));
                    Some((labels, Number::Integer(amount(holder)?)))
                })
            });
            self.family(name, help, MetricType::Gauge, series)?;
        }
        Ok(())
    }

    fn node(&mut self, round: &Round, common: &Common<'_>) -> fmt::Result {
        let cards = || round.inventory.cards.iter();
        let foreign = cards().filter_map(|card| {
            let mib = round.usage.get(&card.uuid)?.foreign?;
            Some((common.labels(card, None, None), Number::Integer(mib.0)))
        });
        let help = "Memory in MiB used by processes that no pod explains";
        self.family("gpu_scheduler_agent_foreign_memory_mib", help, MetricType::Gauge, foreign)?;
        let healthy = cards().flat_map(|card| healthy(round, common, card));
        self.family(
            "gpu_scheduler_agent_device_healthy",
            "1 if a device takes pods, else 0",
            MetricType::Gauge,
            healthy,
        )?;
        let help = "Calls to NVML that failed, by call";
        let mut family =
            self.encoder.encode_descriptor("gpu_scheduler_agent_nvml_failures", help, None, MetricType::Counter)?;
        for (call, count) in &round.failed_calls {
            ConstCounter::new(*count).encode(family.encode_family(&[("call", *call)])?)?;
        }
        Ok(())
    }
}

fn healthy(round: &Round, common: &Common<'_>, card: &Card) -> Vec<(Labels, Number)> {
    let state = |device: DeviceUuid| match round.health.get(&device) {
        Some(DeviceHealth::Unhealthy { .. }) => Number::Integer(0),
        Some(DeviceHealth::Healthy) | None => Number::Integer(1),
    };
    let mut series = vec![(common.labels(card, None, None), state(DeviceUuid::Gpu(card.uuid.clone())))];
    for part in card.mig.devices() {
        let mut labels = common.labels(card, Some(part.gpu_instance), None);
        labels.push(("mig_uuid", part.uuid.to_string()));
        series.push((labels, state(DeviceUuid::Mig(part.uuid.clone()))));
    }
    series
}
