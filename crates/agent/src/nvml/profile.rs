//! Names of MIG profiles.
//!
//! NVML numbers profiles twice: what is asked about is the number in [`ATTRIBUTES`], what an instance has is an id that
//! the card gives.

use crate::inventory::MigProfile;

/// What comes behind the memory in the name, by the number under which a profile is asked about.
const ATTRIBUTES: [&str; 18] = [
    "", "", "", "", "", "", "", // 1, 2, 3, 4, 7, 8 and 6 slices
    "+me", "+me", "", // REV1: with the media engines; REV2: one slice with twice the memory
    "+gfx", "+gfx", "+gfx", "-me", "-me", "+me.all", "+me.all", "+gfx",
];

/// How many numbers there are to ask about.
pub(super) const NUMBERS: u32 = ATTRIBUTES.len() as u32;

/// A profile of GPU instances, as a card describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GpuInstanceProfile {
    /// The number under which it was asked about.
    pub number: u32,
    /// The id that its instances have.
    pub id: u32,
}

/// Slices and memory of a MIG device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Slices of its GPU instance.
    pub gpu_slices: u32,
    /// Slices of its compute instance.
    pub compute_slices: u32,
    /// Its memory.
    pub memory_mib: u64,
    /// Memory of the card.
    pub card_bytes: u64,
}

/// The name as NVIDIA's tools have it: `1g.5gb`, `1g.10gb+me`, `1c.3g.20gb`.
pub(super) fn name(number: u32, size: Size) -> MigProfile {
    let Size { gpu_slices, compute_slices, .. } = size;
    let compute = if compute_slices == gpu_slices { String::new() } else { format!("{compute_slices}c.") };
    let attributes = ATTRIBUTES.get(number as usize).copied().unwrap_or_default();
    MigProfile(format!("{compute}{gpu_slices}g.{}gb{attributes}", nominal_gb(size)).into())
}

/// The memory that the name states: eighths of the card, rounded up, of its memory in whole GiB.
fn nominal_gb(size: Size) -> u64 {
    let Size { memory_mib, card_bytes, .. } = size;
    if card_bytes == 0 {
        return 0;
    }
    let eighths = (u128::from(memory_mib) << 23).div_ceil(u128::from(card_bytes));
    let card_gb = u128::from(card_bytes).div_ceil(1 << 30);
    u64::try_from((eighths * card_gb + 4) / 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        const A100_40: u64 = 40_960 << 20;
        const A100_80: u64 = 81_920 << 20;
        const H100: u64 = 81_559 << 20;
        const H200: u64 = 143_771 << 20;
        const A30: u64 = 24_576 << 20;
        for (number, gpu_slices, compute_slices, memory_mib, card_bytes, expected) in [
            (0, 1, 1, 4_864, A100_40, "1g.5gb"),
            (9, 1, 1, 9_856, A100_40, "1g.10gb"),
            (7, 1, 1, 4_864, A100_40, "1g.5gb+me"),
            (1, 2, 2, 9_856, A100_40, "2g.10gb"),
            (2, 3, 3, 19_968, A100_40, "3g.20gb"),
            (2, 3, 1, 19_968, A100_40, "1c.3g.20gb"),
            (4, 7, 7, 40_192, A100_40, "7g.40gb"),
            (0, 1, 1, 9_728, A100_80, "1g.10gb"),
            (0, 1, 1, 9_984, H100, "1g.10gb"),
            (9, 1, 1, 20_096, H100, "1g.20gb"),
            (0, 1, 1, 16_384, H200, "1g.18gb"),
            (2, 3, 3, 71_424, H200, "3g.71gb"),
            (0, 1, 1, 5_952, A30, "1g.6gb"),
            (3, 4, 4, 24_125, A30, "4g.24gb"),
            (15, 1, 1, 5_952, A30, "1g.6gb+me.all"),
            (13, 1, 1, 5_952, A30, "1g.6gb-me"),
            (99, 1, 1, 5_952, A30, "1g.6gb"),
            (0, 1, 1, 1, 0, "1g.0gb"),
        ] {
            let size = Size { gpu_slices, compute_slices, memory_mib, card_bytes };
            assert_eq!(&*name(number, size).0, expected);
        }
    }
}
