//! Pods that are made up, where a trace has none of the kind.

use gpu_scheduler_engine::model::{Demand, MilliGpu, ModelPattern, Percent, ShareMemory};

use super::TracePod;

/// How many of a hundred pods have these shares of a card: memory in thousandths, compute in percent.
const SHARES: [(usize, u32, u32); 8] = [
    // Inference: the model fills memory, requests leave compute idle.
    (14, 500, 10),
    (14, 600, 20),
    (10, 700, 20),
    (8, 800, 30),
    // Training of small models: compute is busy, memory is not.
    (14, 100, 50),
    (14, 200, 70),
    (10, 300, 80),
    (8, 200, 60),
];
/// The rest: how many, and how many whole cards each.
const WHOLE: [(usize, u32); 3] = [(4, 1), (3, 2), (1, 8)];
/// Milli-cores and MiB of host memory by card or share: little, so that cards decide.
const HOST: (i64, i64) = (3000, 12 << 10);

/// A hundred pods whose demand has two dimensions: shares that are heavy in memory or heavy in compute, and some
/// whole cards.
pub fn two_dimensional_pods() -> Vec<TracePod> {
    let pod = |name: String, cards: u32, demand: Demand| {
        let cards = i64::from(cards);
        let models = ModelPattern::default();
        TracePod { name, cpu: cards * HOST.0, memory: cards * HOST.1, demand: Some(demand), models }
    };
    let share = |(count, memory, compute): (usize, u32, u32)| {
        let memory_part = ShareMemory::Fraction(MilliGpu(memory));
        let demand = Demand::Share { memory: memory_part, compute: Percent(compute), count: 1 };
        std::iter::repeat_n(pod(format!("share-{memory}-{compute}"), 1, demand), count)
    };
    let whole = |(count, cards): (usize, u32)| {
        std::iter::repeat_n(pod(format!("whole-{cards}"), cards, Demand::Cards { count: cards }), count)
    };
    SHARES.into_iter().flat_map(share).chain(WHOLE.into_iter().flat_map(whole)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_pods_sized_by_their_larger_dimension() {
        let pods = two_dimensional_pods();
        assert_eq!(pods.len(), 100);
        let sizes: Vec<u64> = ["share-500-10", "share-200-70", "whole-8"]
            .map(|name| pods.iter().find(|p| p.name == name).map_or(0, TracePod::gpu_milli))
            .into();
        assert_eq!(sizes, [500, 700, 8000]);
    }
}
