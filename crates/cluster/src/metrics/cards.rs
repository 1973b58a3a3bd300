//! The cards of the cluster by model: how many, what is taken, what is left, what is wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use gpu_scheduler_engine::ledger::{Card, HoldKind, Holding};
use gpu_scheduler_engine::model::{Mib, MilliGpu, ModelId};
use gpu_scheduler_engine::plugins::fragment;
use gpu_scheduler_engine::state::{NodeState, State};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The cards of one model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelUse {
    /// The model's name.
    pub model: String,
    /// Cards that are there, on nodes that are there.
    pub cards: u64,
    /// Granted, in thousandths of a card; on cards that are gone too, as long as pods hold them.
    pub allocated_milli: u64,
    /// Idle, in thousandths of a card: neither granted nor used by others, on a card that takes pods.
    pub free_milli: u64,
    /// Of that, what the usual mix of pods could not use: what `simulate` calls fragmented.
    pub fragmented_milli: u64,
    /// Memory of the cards, as far as it is known.
    pub memory_total: Mib,
    /// Memory granted, at most what the card has.
    pub memory_allocated: Mib,
    /// Memory used by processes that no pod explains.
    pub foreign_memory: Mib,
    /// Cards that hold more than they can, those that are gone and held among them.
    pub overcommitted: u64,
}

/// Sums over all nodes, by name of the model. `O(cards)`, and `O(typical shapes * cards)` for what is fragmented:
/// some milliseconds for a thousand nodes, so it is for a timer and not for every decision.
pub fn per_model(state: &State) -> Vec<ModelUse> {
    let mut sums: BTreeMap<ModelId, ModelUse> = BTreeMap::new();
    for node in state.nodes() {
        let live = node.facts().is_some();
        for card in node.ledger().cards() {
            let sum = sums.entry(card.model()).or_insert_with(|| ModelUse {
                model: label(state.models().name(card.model())).to_owned(),
                ..ModelUse::default()
            });
            count(sum, card, live);
        }
        if live {
            for (model, lost) in fragments(state, node) {
                sums.entry(model).or_default().fragmented_milli += lost;
            }
        }
    }
    let mut models: Vec<ModelUse> = sums.into_values().collect();
    models.sort_by(|a, b| a.model.cmp(&b.model));
    models
}

/// A model as a label. A card that only a record names has none, and an empty label is no label.
fn label(model: &str) -> &str {
    if model.is_empty() { "unknown" } else { model }
}

/// Adds one card; one of a node that is gone counts with what is held on it alone.
fn count(sum: &mut ModelUse, card: &Card, live: bool) {
    let total = card.memory().unwrap_or_default();
    sum.allocated_milli += u64::from(card.held().0);
    let granted = card.holdings().iter().map(|h| granted_memory(card, h, total).0).fold(0, u64::saturating_add);
    sum.memory_allocated = sum.memory_allocated.saturating_add(Mib(granted.min(total.0)));
    sum.overcommitted += u64::from(card.overcommit().is_some());
    if live && card.present() {
        sum.cards += 1;
        sum.free_milli += u64::from(card.room().idle.0);
        sum.memory_total = sum.memory_total.saturating_add(total);
        sum.foreign_memory = sum.foreign_memory.saturating_add(card.foreign());
    }
}

/// Memory that a holding takes. Seats and slices grant none by themselves: they count by their part of the card.
fn granted_memory(card: &Card, holding: &Holding, total: Mib) -> Mib {
    match holding.kind {
        HoldKind::Whole => total,
        HoldKind::Share => holding.memory,
        HoldKind::Seat | HoldKind::Slice => {
            let MilliGpu(part) = card.size_of(holding);
            Mib(total.0.saturating_mul(u64::from(part)) / u64::from(MilliGpu::CARD.0))
        }
    }
}

/// What is fragmented on a node, by model. The engine's measure is one number a node; where cards of several models
/// are on one, it is divided among them by what idles on them.
fn fragments(state: &State, node: &NodeState) -> Vec<(ModelId, u64)> {
    let headroom = node.headroom();
    let idle = u64::from(headroom.idle().0);
    let weight = i128::from(state.mix().weight());
    if idle == 0 || weight == 0 {
        return Vec::new();
    }
    let lost = u64::try_from(fragment(state.mix(), state.models(), headroom) / weight).unwrap_or(0);
    headroom.cards.iter().map(|card| (card.model, lost * u64::from(card.idle.0) / idle)).collect()
}

/// A number of a model, by the name of its metric.
type Column = (&'static str, &'static str, fn(&ModelUse) -> u64);

const COLUMNS: [Column; 8] = [
    ("gpu_scheduler_gpus", "Cards that are there", |m| m.cards),
    ("gpu_scheduler_gpu_allocated_milli", "Granted GPU in thousandths of a card", |m| m.allocated_milli),
    ("gpu_scheduler_gpu_free_milli", "Idle GPU in thousandths of a card, on cards that take pods", |m| m.free_milli),
    (
        "gpu_scheduler_gpu_fragmented_milli",
        "Idle GPU that the usual mix of pods could not use, in thousandths of a card",
        |m| m.fragmented_milli,
    ),
    ("gpu_scheduler_gpu_memory_total_mib", "Memory of the cards in MiB", |m| m.memory_total.0),
    ("gpu_scheduler_gpu_memory_allocated_mib", "Granted memory in MiB", |m| m.memory_allocated.0),
    ("gpu_scheduler_gpu_foreign_memory_mib", "Memory in MiB used by processes that no pod explains", |m| {
        m.foreign_memory.0
    }),
    ("gpu_scheduler_gpus_overcommitted", "Cards that hold more than they can", |m| m.overcommitted),
];

/// The latest sums. They are written out as they were handed in, so a model that is gone ends its series, and a
/// scrape never sees half of an update.
#[derive(Debug, Default)]
pub(super) struct CardGauges(Mutex<Vec<ModelUse>>);

impl CardGauges {
    pub fn set(&self, models: Vec<ModelUse>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = models;
    }
}

impl Collector for CardGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let models = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, help, number) in COLUMNS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for model in &models {
                let labels = [("model", model.model.as_str())];
                ConstGauge::new(i64::try_from(number(model)).unwrap_or(i64::MAX))
                    .encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
