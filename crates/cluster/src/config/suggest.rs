//! "Did you mean": the known name that is nearest to what was written.

/// The nearest of `known`, if it is near enough to be what was meant; case does not count.
pub(super) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    // A third of the letters wrong is another word, not a typo.
    let enough = (written.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|name| (distance(&written, &name.to_lowercase()), name));
    distances.filter(|(distance, _)| *distance <= enough).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// A sentence for the end of a message, empty if nothing is near: `; did you mean "x"?`.
pub(super) fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

/// Letters to insert, remove, replace, or swap with the next one (optimal string alignment). `O(a * b)`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = rows[i][j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("fgd", "fdg", 1)] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_typo_is_near_and_another_word_is_not() {
        let known = ["shadow-price", "fgd", "best-fit"];
        for (written, expected) in [
            ("shadowprice", Some("shadow-price")),
            ("FGD", Some("fgd")),
            ("bestfit", Some("best-fit")),
            ("fdg", Some("fgd")),
            ("magic", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), expected, "{written}");
        }
    }
}
