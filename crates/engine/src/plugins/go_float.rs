//! Arithmetic as Go's `float64` does it, where kube-scheduler's integer scores come out of a float: by integers alone,
//! so that it is the same everywhere, and to the last bit, since a point more or less is another node.

/// `int64(float64(factor) * (float64(part) / float64(whole)))`: the ratio rounded to 53 bits, then the product, then cut.
/// 0 unless all are positive.
pub(super) fn scaled(factor: i64, part: i64, whole: i64) -> i64 {
    let (Ok(factor), Ok(part), Ok(whole)) = (u128::try_from(factor), u128::try_from(part), u128::try_from(whole))
    else {
        return 0;
    };
    if factor == 0 || part == 0 || whole == 0 {
        return 0;
    }
    // The ratio's leading bit comes to stand at bit 52 or 53.
    let shift = 53 + bits(whole) - bits(part).min(53 + bits(whole));
    let (ratio, ratio_shift) = rounded(part << shift, whole, shift);
    let (product, product_shift) = rounded(factor * ratio, 1, ratio_shift);
    i64::try_from(product >> product_shift.min(127)).unwrap_or(i64::MAX)
}

/// `n / d`, which stands for `n / d / 2^shift`, rounded to 53 bits, half to even; with the shift that it stands for now.
fn rounded(n: u128, d: u128, shift: u32) -> (u128, u32) {
    let (mut quotient, remainder) = (n / d, n % d);
    let excess = bits(quotient).saturating_sub(53).min(shift);
    let (cut, sticky) = (quotient & ((1 << excess) - 1), remainder != 0);
    quotient >>= excess;
    let up = if excess == 0 {
        2 * remainder > d || (2 * remainder == d && quotient & 1 == 1)
    } else {
        let half = 1 << (excess - 1);
        cut > half || (cut == half && (sticky || quotient & 1 == 1))
    };
    (quotient + u128::from(up), shift - excess)
}

fn bits(n: u128) -> u32 {
    128 - n.leading_zeros()
}

/// `ln(n)` times 2^40, by repeated squaring: 40 bits after the point, the last ones not exact.
pub(super) fn ln(n: u64) -> i64 {
    const LN_2: u128 = 762_123_384_786; // ln 2 times 2^40
    let n = u128::from(n.max(1));
    let whole = bits(n) - 1;
    // In [1, 2), times 2^62.
    let mut x = (n << 62) >> whole;
    let mut log2 = u128::from(whole);
    for _ in 0..44 {
        x = (x * x) >> 62;
        log2 <<= 1;
        if x >= 1 << 63 {
            x >>= 1;
            log2 |= 1;
        }
    }
    i64::try_from((log2 * LN_2) >> 44).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_arithmetic, clippy::disallowed_types, reason = "what is held against floats")]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_float_does_it(factor in 1_i64..1 << 50, part in 1_i64..1 << 40, more in 0_i64..1 << 40) {
            let whole = part + more;
            prop_assert_eq!(scaled(factor, part, whole), (factor as f64 * (part as f64 / whole as f64)) as i64);
        }

        #[test]
        fn percent_as_a_float_does_it(part in 0_i64..5000, more in 1_i64..5000) {
            let whole = part + more;
            prop_assert_eq!(scaled(100, part, whole), (100.0 * (part as f64 / whole as f64)) as i64);
        }

        #[test]
        fn logarithms(n in 1_u64..1 << 40) {
            let exact = (n as f64).ln();
            prop_assert!((ln(n) as f64 / (1_u64 << 40) as f64 - exact).abs() < 1e-9);
        }
    }

    #[test]
    fn a_percent_less_than_by_integers() {
        assert_eq!((scaled(100, 29, 100), 100 * 29 / 100), (28, 29));
    }
}
