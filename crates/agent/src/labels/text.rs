//! Texts as label values.

/// Characters that a label value may have at most.
const MOST: usize = 63;

/// A model as `nvidia.com/gpu.product` has it: what is no letter, digit, `-`, `_` or `.` is left out, and words are
/// joined. `NVIDIA A100-SXM4-40GB` is `NVIDIA-A100-SXM4-40GB`.
///
/// ```
/// assert_eq!(gpu_scheduler_agent::labels::product("NVIDIA A100-SXM4-40GB"), "NVIDIA-A100-SXM4-40GB");
/// ```
pub fn product(name: &str) -> String {
    let kept: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ')).collect();
    kept.split_ascii_whitespace().collect::<Vec<_>>().join("-")
}

/// What Kubernetes takes of a value: 63 characters that begin and end with a letter or digit.
pub(super) fn value(text: &str) -> String {
    let cut: String = text.chars().take(MOST).collect();
    cut.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products() {
        for (name, expected) in [
            ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
            ("Tesla T4", "Tesla-T4"),
            ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
            ("NVIDIA RTX(TM)  6000", "NVIDIA-RTXTM-6000"),
            ("", ""),
        ] {
            assert_eq!(product(name), expected);
        }
    }

    #[test]
    fn values() {
        for (text, expected) in [
            ("DGXA100", "DGXA100"),
            ("To-Be-Filled-By-O.E.M.", "To-Be-Filled-By-O.E.M"),
            ("-x-", "x"),
            (&"a".repeat(70), &"a".repeat(63)),
            (&format!("{}-bc", "a".repeat(62)), &"a".repeat(62)),
            ("", ""),
        ] {
            assert_eq!(value(text), expected);
        }
    }
}
