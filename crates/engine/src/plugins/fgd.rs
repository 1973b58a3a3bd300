//! Fragmentation gradient descent: place where the least GPU becomes useless for the usual mix of pods.
//!
//! Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
//! Descent", USENIX ATC 2023.

use crate::framework::{PluginName, Score, ScoreKind, Scoring};
use crate::ledger::{CardRoom, Headroom};
use crate::model::{GpuShape, MilliGpu, Models, Percent, ShareMemory, share_size};
use crate::plugins::published_points;
use crate::state::{Class, Mix, Shape, State};

/// `ln(k / (100 - k))` for k = 51 to 99, in trillionths: where 100 times the logistic function reaches k.
/// A table keeps the score the same on every machine, whatever its mathematics library.
const LOGIT: [i64; 49] = [
    40_005_334_614,    // 51
    80_042_707_674,    // 52
    120_144_311_842,   // 53
    160_342_650_075,   // 54
    200_670_695_462,   // 55
    241_162_056_817,   // 56
    281_851_152_141,   // 57
    322_773_392_263,   // 58
    363_965_377_201,   // 59
    405_465_108_108,   // 60
    447_312_218_044,   // 61
    489_548_225_319,   // 62
    532_216_813_747,   // 63
    575_364_144_904,   // 64
    619_039_208_406,   // 65
    663_294_217_410,   // 66
    708_185_057_924,   // 67
    753_771_802_376,   // 68
    800_119_300_112,   // 69
    847_297_860_387,   // 70
    895_384_047_055,   // 71
    944_461_608_841,   // 72
    994_622_575_144,   // 73
    1_045_968_555_183, // 74
    1_098_612_288_668, // 75
    1_152_679_509_938, // 76
    1_208_311_205_925, // 77
    1_265_666_373_331, // 78
    1_324_925_414_744, // 79
    1_386_294_361_120, // 80
    1_450_010_175_506, // 81
    1_516_347_489_368, // 82
    1_585_627_263_740, // 83
    1_658_228_076_604, // 84
    1_734_601_055_388, // 85
    1_815_289_966_638, // 86
    1_900_958_761_193, // 87
    1_992_430_164_690, // 88
    2_090_741_096_934, // 89
    2_197_224_577_336, // 90
    2_313_634_929_181, // 91
    2_442_347_035_369, // 92
    2_586_689_344_098, // 93
    2_751_535_313_042, // 94
    2_944_438_979_166, // 95
    3_178_053_830_348, // 96
    3_476_098_689_835, // 97
    3_891_820_298_111, // 98
    4_595_119_850_135, // 99
];

/// `FGD`.
#[derive(Debug, Clone, Copy)]
pub struct Fgd;

impl Score for Fgd {
    fn name(&self) -> PluginName {
        "FGD"
    }
    fn kind(&self) -> ScoreKind {
        ScoreKind::Cost
    }
    /// `floor(100 * sigmoid((F before - F after) / 1000))`. The coarseness is part of the policy: about 40
    /// milli-GPU of fragment tie, and the first node wins.
    fn score(&self, placement: &Scoring<'_>) -> i64 {
        let (mix, models) = (placement.state.mix(), placement.state.models());
        let gain = fragment(mix, models, placement.before) - fragment(mix, models, placement.after);
        published_points(sigmoid_points(gain, mix.weight()))
    }
    fn same_on_twins(&self, _class: &Class) -> bool {
        true
    }
    fn epoch(&self, state: &State) -> u64 {
        state.mix().version()
    }
}

/// `floor(100 * sigmoid(gain / (1000 * weight)))`, exactly.
fn sigmoid_points(gain: i128, weight: u64) -> i64 {
    let scale = i128::from(weight.max(1)) * 1000;
    // The logistic function is symmetric: 100 s(-x) = 100 - 100 s(x).
    let above = |k: usize, x: i128| x * 1_000_000_000_000 >= i128::from(LOGIT[k]) * scale;
    if gain >= 0 {
        50 + i64::try_from((0..LOGIT.len()).take_while(|k| above(*k, gain)).count()).unwrap_or(0)
    } else {
        // Strictly below the threshold of k means at most k - 1.
        let beyond = |k: usize| -gain * 1_000_000_000_000 > i128::from(LOGIT[k]) * scale;
        49 - i64::try_from((0..LOGIT.len()).take_while(|k| beyond(*k)).count()).unwrap_or(0)
    }
}

/// The expected fragment of a node, F, in milli-GPU times [`Mix::weight`]: for each typical shape the idle
/// GPU that it could not use, weighted by how common it is. `O(typical shapes * cards)`.
pub fn fragment(mix: &Mix, models: &Models, node: &Headroom) -> i128 {
    let idle = i64::from(node.idle().0);
    let mut sum: i128 = 0;
    for typical in mix.typical() {
        let lost = useless(&typical.shape, models, node, idle);
        sum += i128::from(lost) * i128::from(typical.count);
    }
    sum
}

/// Idle GPU of the node that `shape` could not use: all of it if the shape does not fit there (or needs no
/// GPU); else what idles on cards that are too small for it or of another model.
fn useless(shape: &Shape, models: &Models, node: &Headroom, idle: i64) -> i64 {
    let (cards, size): (u32, SizeOn) = match shape.gpu {
        GpuShape::None | GpuShape::Fixed(_) => return idle,
        GpuShape::Cards(count) => (count, SizeOn::Card),
        GpuShape::Share { memory, compute, count } => (count, SizeOn::Share(memory, compute)),
    };
    if shape.cpu > node.cpu {
        return idle;
    }
    let wanted = models.matching(shape.pattern);
    let (mut fitting, mut small) = (0_u32, 0_i64);
    for card in &node.cards {
        if wanted.contains(card.model) && card.idle >= size.on(card) && card.idle.0 > 0 {
            fitting += 1;
        } else {
            small += i64::from(card.idle.0);
        }
    }
    if fitting < cards { idle } else { small }
}

#[derive(Debug, Clone, Copy)]
enum SizeOn {
    Card,
    Share(ShareMemory, Percent),
}

impl SizeOn {
    fn on(self, card: &CardRoom) -> MilliGpu {
        match self {
            Self::Card => MilliGpu::CARD,
            // A fraction's size is its own number, whatever the card.
            Self::Share(ShareMemory::Fraction(part), compute) => part.max(MilliGpu(compute.0 * 10)),
            Self::Share(ShareMemory::Mib(memory), compute) => share_size(memory, compute, card.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_of_the_logistic_function() {
        // x = gain / 1000 with weight 1; expected floor(100 / (1 + e^-x)).
        for (gain, expected) in [
            (0, 50),
            (1, 50),
            (40, 50),
            (41, 51),
            (500, 62),
            (1000, 73),
            (8000, 99),
            (-1, 49),
            (-40, 49),
            (-41, 48),
            (-500, 37),
            (-1000, 26),
            (-8000, 0),
        ] {
            assert_eq!(sigmoid_points(gain, 1), expected, "{gain}");
            assert_eq!(sigmoid_points(gain * 7, 7), expected, "{gain}, weight 7");
        }
    }
}
