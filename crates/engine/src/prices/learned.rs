//! What arrivals teach: the worth of parts of a card, the CPU that GPUs need, who can use which nodes.

use std::collections::BTreeMap;

use crate::ledger::{Card, CardRoom};
use crate::model::{GpuShape, Mib, MilliGpu, Percent, mul_div, share_size};
use crate::prices::plane_values::free_of;
use crate::prices::{DeviceValues, ONE, PlaneValues};
use crate::state::{GroupId, Shape, State};

/// Idle GPU that is assumed to have been asked without CPU, before anything is known: 20 cards. It keeps
/// the first few pods from setting the ratio of CPU to GPU.
const PRIOR_GPU: i128 = 20_000;
/// Cards that are assumed to be asked for by those who can use one model only, spread over the models.
const PRIOR_CLAIMS: i128 = 20;
/// A change of a learnt number below this, in millionths of it, is none …
const MATERIAL: i64 = ONE / 25;
/// … and neither is one within the noise of what was seen: so many standard deviations of a mean.
const NOISE: u64 = 2;
/// Old prices that still make the demand worth this much of the optimum (in thousandths) stay. Optimal prices
/// are seldom unique: without this they would jump about from one optimum to the next.
const GOOD_ENOUGH: u128 = 1000;

/// Learnt numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Learned {
    /// Values of parts of a card, by the card's memory.
    values: BTreeMap<Mib, DeviceValues>,
    /// Values of free memory and compute apart, by the card's memory, where demand on such cards is heavy in either.
    planes: BTreeMap<Mib, PlaneValues>,
    /// Milli-cores per milli-GPU, in millionths.
    cpu_per_gpu: i64,
    /// CPU need of GPU pods (milli-cores, rising) and the part of them that need no more, in millionths.
    cpu_needs: Vec<(i64, i64)>,
    /// Numbers of cards that requests ask for together, and the part of all demand that does, in millionths.
    blocks: Vec<(u32, i64)>,
    /// The part of pods that ran and went again, in millionths: none in a cluster that only fills.
    turnover: i64,
    /// Sets of groups and the part of all demand that can use just these, in millionths.
    claims: Vec<(Vec<GroupId>, i64)>,
}

impl Learned {
    /// From all pods that arrived. `O(shapes * groups)` and one small linear program per memory size.
    pub(super) fn from(state: &State, old: &Self) -> Self {
        let values = device_values(state, &old.values);
        let planes = planes(state, &values);
        let (mut cpu, mut gpu, mut pods) = (0_i128, PRIOR_GPU, 0_i128);
        let mut needs: BTreeMap<i64, i128> = BTreeMap::new();
        let mut blocks: BTreeMap<u32, i128> = BTreeMap::new();
        for typical in state.mix().counts() {
            let Some((cards, whole)) = gpu_of(&typical.shape) else { continue };
            let count = i128::from(typical.count);
            // Sizes in MiB are taken on the smallest card: the ratio errs towards less CPU.
            let size = size_on(&typical.shape, values.keys().next().copied().unwrap_or_default());
            cpu += count * i128::from(typical.shape.cpu);
            gpu += count * i128::from(cards) * i128::from(size.0);
            pods += count;
            *needs.entry(typical.shape.cpu).or_default() += count;
            if whole && cards > 1 {
                *blocks.entry(cards).or_default() += 1000 * count * i128::from(cards);
            }
        }
        let mut below = 0_i128;
        let cpu_needs = needs
            .into_iter()
            .map(|(need, count)| {
                below += count;
                (need, ratio(below, pods))
            })
            .collect();
        let claims = claims(state, |shape, total| price(&values, &planes, shape, total));
        let turnover = ratio(i128::from(state.mix().departed()), i128::from(state.mix().arrived())).min(ONE);
        let blocks = blocks.into_iter().map(|(cards, amount)| (cards, ratio(amount, gpu))).collect();
        Self { values, planes, cpu_per_gpu: ratio(cpu, gpu), cpu_needs, blocks, turnover, claims }
    }

    /// Values of parts of a card of this memory.
    pub fn values(&self, total: Mib) -> Option<&DeviceValues> {
        self.values.get(&total)
    }
    /// Values of free memory and compute apart, for cards of this memory; `None` where one dimension rules.
    pub fn plane(&self, total: Mib) -> Option<&PlaneValues> {
        self.planes.get(&total)
    }
    /// Whether memory and compute count apart on some cards.
    pub fn counts_apart(&self) -> bool {
        !self.planes.is_empty()
    }
    /// The worth of what is idle of a card, in millionths of a card.
    pub(super) fn worth(&self, card: &Card, room: &CardRoom) -> i64 {
        match self.plane(room.total).filter(|_| card.room().shareable) {
            Some(plane) => {
                let (memory, compute) = free_of(card.room(), room.total);
                plane.worth(memory, compute)
            }
            None => self.values(room.total).map_or(0, |v| v.worth(room.idle)),
        }
    }
    /// The price of a shape's part of a card of this memory; `None` where there is no such card.
    pub fn price(&self, shape: &Shape, total: Mib) -> Option<i64> {
        price(&self.values, &self.planes, shape, total)
    }
    /// Milli-cores per milli-GPU, in millionths.
    pub fn cpu_per_gpu(&self) -> i64 {
        self.cpu_per_gpu
    }
    /// As [`Learned::cpu_per_gpu`], a tenth less: what is surely needed.
    pub fn sure_cpu_per_gpu(&self) -> i64 {
        self.cpu_per_gpu / 10 * 9
    }
    /// The part of GPU pods that `cpu` milli-cores suffice for, in millionths.
    pub fn served_by(&self, cpu: i64) -> i64 {
        let below = self.cpu_needs.partition_point(|(need, _)| *need <= cpu);
        below.checked_sub(1).map_or(0, |at| self.cpu_needs[at].1)
    }
    /// Numbers of cards that requests ask for together, and the part of all demand that does, in millionths.
    pub fn blocks(&self) -> &[(u32, i64)] {
        &self.blocks
    }
    /// The part of pods that ran and went again, in millionths.
    pub fn turnover(&self) -> i64 {
        self.turnover
    }
    pub(super) fn claims(&self) -> &[(Vec<GroupId>, i64)] {
        &self.claims
    }

    /// GPU that is stranded for want of CPU, in thousandths of a milli-GPU.
    pub fn stranded(&self, cpu: i64, idle: MilliGpu) -> i64 {
        let rate = self.sure_cpu_per_gpu().cast_unsigned();
        if rate == 0 {
            return 0;
        }
        let fed = mul_div(cpu.max(0).cast_unsigned(), 1000 * ONE.cast_unsigned(), rate);
        (u64::from(idle.0) * 1000).saturating_sub(fed).cast_signed()
    }

    /// Whether the difference is worth a second look at every node.
    pub(super) fn differs_from(&self, old: &Self, arrived: u64) -> bool {
        let noise = (NOISE * ONE.cast_unsigned() / arrived.isqrt().max(1)).min(ONE.cast_unsigned() / 4);
        let material = MATERIAL.max(noise.cast_signed());
        let far = |a: i64, b: i64| (a - b).abs() > b.abs() / (ONE / material).max(1);
        let parts = |v: &DeviceValues, w: &DeviceValues| {
            (0..=100).any(|cell| far(v.worth(MilliGpu(cell * 10)), w.worth(MilliGpu(cell * 10))))
                || (1..=100).any(|cell| far(v.price(MilliGpu(cell * 10)), w.price(MilliGpu(cell * 10))))
        };
        let all =
            |a: &Self, b: &Self| a.cpu_needs.iter().any(|(need, part)| (part - b.served_by(*need)).abs() > material);
        let planes = |v: &PlaneValues, w: &PlaneValues| v.all().zip(w.all()).any(|(a, b)| far(a, b));
        !self.values.keys().eq(old.values.keys())
            || !self.planes.keys().eq(old.planes.keys())
            || self.planes.values().zip(old.planes.values()).any(|(v, w)| planes(v, w))
            || self.values.values().zip(old.values.values()).any(|(v, w)| parts(v, w))
            || far(self.cpu_per_gpu, old.cpu_per_gpu)
            || all(self, old)
            || all(old, self)
            || (self.turnover - old.turnover).abs() > material
            || self.blocks.len() != old.blocks.len()
            || self.blocks.iter().zip(&old.blocks).any(|((k, p), (l, q))| k != l || (p - q).abs() > material)
            || self.claims.len() != old.claims.len()
            || self.claims.iter().zip(&old.claims).any(|((a, p), (b, q))| a != b || (p - q).abs() > material)
    }
}

fn ratio(part: i128, whole: i128) -> i64 {
    i64::try_from(part * i128::from(ONE) / whole.max(1)).unwrap_or(i64::MAX)
}

/// Cards and kind of a shape that has a size.
fn gpu_of(shape: &Shape) -> Option<(u32, bool)> {
    match shape.gpu {
        GpuShape::Cards(count) => Some((count, true)),
        GpuShape::Share { count, .. } => Some((count, false)),
        GpuShape::None | GpuShape::Fixed(_) => None,
    }
}

/// The memory and compute that a shape takes of each of its cards, on cards of this memory.
fn sides_on(shape: &Shape, total: Mib) -> (MilliGpu, Percent) {
    match shape.gpu {
        GpuShape::Share { memory, compute, .. } => (share_size(memory.on(total), Percent(0), total), compute),
        _ => (MilliGpu::CARD, Percent::ALL),
    }
}

/// The size that a shape takes of each of its cards, on cards of this memory.
fn size_on(shape: &Shape, total: Mib) -> MilliGpu {
    match shape.gpu {
        GpuShape::Share { memory, compute, .. } => share_size(memory.on(total), compute, total),
        _ => MilliGpu::CARD,
    }
}

/// One linear program per memory size of the cluster's cards; equal demands are solved once.
fn device_values(state: &State, old: &BTreeMap<Mib, DeviceValues>) -> BTreeMap<Mib, DeviceValues> {
    let mut totals: Vec<Mib> = state.groups().iter().flat_map(|(_, g)| &g.cards).map(|(_, total)| *total).collect();
    totals.sort_unstable();
    totals.dedup();
    let mut solved: Vec<(Vec<(MilliGpu, u128)>, DeviceValues)> = Vec::new();
    let mut values = BTreeMap::new();
    for total in totals {
        let mut demand: BTreeMap<MilliGpu, u128> = BTreeMap::new();
        for typical in state.mix().counts() {
            let Some((cards, whole)) = gpu_of(&typical.shape) else { continue };
            // A card of unknown memory serves whole-card requests only.
            if whole || total > Mib(0) {
                *demand.entry(size_on(&typical.shape, total)).or_default() +=
                    u128::from(typical.count) * u128::from(cards);
            }
        }
        let demand: Vec<_> = demand.into_iter().collect();
        let known = solved.iter().find(|(d, _)| *d == demand).map(|(_, v)| v.clone());
        let found = known.unwrap_or_else(|| {
            let fresh = DeviceValues::solve(&demand);
            let good_enough = |v: &&DeviceValues| v.value_of(&demand) * 1000 >= fresh.value_of(&demand) * GOOD_ENOUGH;
            old.get(&total).filter(good_enough).cloned().unwrap_or(fresh)
        });
        solved.push((demand, found.clone()));
        values.insert(total, found);
    }
    values
}

/// Values in two dimensions, for each memory size of the cluster's cards on which both count.
fn planes(state: &State, values: &BTreeMap<Mib, DeviceValues>) -> BTreeMap<Mib, PlaneValues> {
    type Demand = BTreeMap<(MilliGpu, Percent), u128>;
    let mut solved: Vec<(Demand, Option<PlaneValues>)> = Vec::new();
    let mut planes = BTreeMap::new();
    for total in values.keys().filter(|total| **total > Mib(0)) {
        let mut demand = Demand::new();
        for typical in state.mix().counts() {
            let Some((cards, _)) = gpu_of(&typical.shape) else { continue };
            *demand.entry(sides_on(&typical.shape, *total)).or_default() +=
                u128::from(typical.count) * u128::from(cards);
        }
        let known = solved.iter().find(|(d, _)| *d == demand).map(|(_, plane)| plane.clone());
        let plane = known.unwrap_or_else(|| PlaneValues::solve(demand.iter().map(|(size, amount)| (*size, *amount))));
        if let Some(plane) = &plane {
            planes.insert(*total, plane.clone());
        }
        solved.push((demand, plane));
    }
    planes
}

/// The price of a shape's part of a card of this memory.
fn price(
    values: &BTreeMap<Mib, DeviceValues>,
    planes: &BTreeMap<Mib, PlaneValues>,
    shape: &Shape,
    total: Mib,
) -> Option<i64> {
    if let Some(plane) = planes.get(&total) {
        let (memory, compute) = sides_on(shape, total);
        return Some(plane.price(memory, compute));
    }
    values.get(&total).map(|v| v.price(size_on(shape, total)))
}

/// Who can use which groups: demand by the set of groups whose empty node would take it.
fn claims(state: &State, price_on: impl Fn(&Shape, Mib) -> Option<i64>) -> Vec<(Vec<GroupId>, i64)> {
    let mut weights: BTreeMap<Vec<GroupId>, i128> = BTreeMap::new();
    let groups = state.groups();
    for typical in state.mix().counts() {
        let Some((cards, _)) = gpu_of(&typical.shape) else { continue };
        let wanted = state.models().matching(typical.shape.pattern);
        let mut usable = Vec::new();
        let mut price = None;
        for (id, group) in groups.iter() {
            let matching = || group.cards.iter().filter(|(model, _)| wanted.contains(*model));
            if group.cpu >= typical.shape.cpu && matching().count() >= cards as usize {
                usable.push(id);
                let total = matching().map(|(_, total)| *total).next().unwrap_or_default();
                price = price.or_else(|| price_on(&typical.shape, total));
            }
        }
        if let Some(price) = price {
            let weight = i128::from(typical.count) * i128::from(cards) * i128::from(price);
            *weights.entry(usable).or_default() += weight;
        }
    }
    let mut models: Vec<_> = groups.iter().flat_map(|(_, g)| g.cards.iter().map(|(model, _)| *model)).collect();
    models.sort_unstable();
    models.dedup();
    for model in &models {
        let with = groups.iter().filter(|(_, g)| g.cards.iter().any(|(m, _)| m == model)).map(|(id, _)| id).collect();
        *weights.entry(with).or_default() += PRIOR_CLAIMS * i128::from(ONE) / models.len() as i128;
    }
    let sum: i128 = weights.values().sum();
    weights.into_iter().map(|(set, weight)| (set, ratio(weight, sum))).collect()
}
