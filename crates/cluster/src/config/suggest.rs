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

/// Levenshtein's distance: letters to insert, remove or replace. `O(a * b)`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("fgd", "fdg", 2)] {
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
            ("magic", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), expected, "{written}");
        }
    }
}
