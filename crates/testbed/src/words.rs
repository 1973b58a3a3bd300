//! A line of a scenario as words: positional ones, `key=value` pairs and bare flags.

use std::str::FromStr;

/// Splits at spaces. Double quotes keep spaces, a `[…]` group is one word, `#` after a space ends the line.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quoted, mut grouped, mut started) = (false, false, false);
    for c in line.chars() {
        match c {
            '"' if !grouped => {
                quoted = !quoted;
                started = true;
            }
            '[' if !quoted && !started => {
                grouped = true;
                started = true;
                word.push(c);
            }
            ']' if grouped => {
                grouped = false;
                word.push(c);
            }
            '#' if !quoted && !grouped && !started => break,
            c if c.is_whitespace() && !quoted && !grouped => {
                if std::mem::take(&mut started) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                started = true;
                word.push(c);
            }
        }
    }
    if quoted || grouped {
        return Err(format!("a {} is not closed", if quoted { "quote" } else { "bracket" }));
    }
    if started {
        words.push(word);
    }
    Ok(words)
}

/// The words of one command, taken one by one; what is left over is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Args {
    positional: Vec<String>,
    pairs: Vec<(String, String)>,
}

impl Args {
    pub fn new(words: Vec<String>) -> Self {
        let mut args = Self::default();
        for word in words {
            match word.split_once('=') {
                Some((key, value)) if !word.starts_with('[') && !key.contains(' ') => {
                    args.pairs.push((key.to_owned(), value.to_owned()));
                }
                _ => args.positional.push(word),
            }
        }
        args
    }

    /// The next positional word.
    pub fn next(&mut self, what: &str) -> Result<String, String> {
        self.next_if_any().ok_or_else(|| format!("{what} is missing"))
    }

    /// The next positional word, if there is one.
    pub fn next_if_any(&mut self) -> Option<String> {
        (!self.positional.is_empty()).then(|| self.positional.remove(0))
    }

    /// All that is left, as a command of its own.
    pub fn rest(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Whether the bare word `name` is there.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.positional.iter().position(|w| w == name);
        at.map(|at| self.positional.remove(at)).is_some()
    }

    /// All values of `key`.
    pub fn take_all(&mut self, key: &str) -> Vec<String> {
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.pairs).into_iter().partition(|(k, _)| k == key);
        self.pairs = left;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// The only value of `key`.
    pub fn take(&mut self, key: &str) -> Result<Option<String>, String> {
        let mut values = self.take_all(key);
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(format!("{key}= is given more than once")),
        }
    }

    /// The only value of `key`, read as a `T`.
    pub fn parse<T: FromStr>(&mut self, key: &str, expected: &str) -> Result<Option<T>, String> {
        self.take(key)?.map(|value| parse(key, &value, expected)).transpose()
    }

    /// All pairs whose key starts with `prefix`, without it.
    pub fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let (taken, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pairs).into_iter().partition(|(k, _)| k.starts_with(prefix));
        self.pairs = left;
        taken.into_iter().map(|(key, value)| (key[prefix.len()..].to_owned(), value)).collect()
    }

    /// Fails if anything is left; `known` says what could stand here.
    pub fn finish(self, known: &str) -> Result<(), String> {
        let left = self.positional.into_iter().chain(self.pairs.into_iter().map(|(k, v)| format!("{k}={v}")));
        match left.collect::<Vec<_>>() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{:?} does not belong here; known are: {known}", left.join(" "))),
        }
    }
}

/// Reads `value` of `key`.
pub(crate) fn parse<T: FromStr>(key: &str, value: &str, expected: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key}={value} cannot be read; write {expected}"))
}

/// The parts of a comma-separated list; an empty text has none.
pub(crate) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// `key=value` pairs of a comma-separated list.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| match part.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("{part:?} is not a pair; write key=value")),
    };
    list(text).map(pair).collect()
}

/// A length of time or a point in time: `90s`, `11m`, `250ms`; in milliseconds.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let scale = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{text:?} is not a time; write 250ms, 90s, 11m or 2h")),
    };
    let number: u64 = text[..digits].parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    Ok(number.saturating_mul(scale))
}

/// GPU memory in MiB: `8Gi`, `512Mi`, or a bare number of MiB.
pub(crate) fn mib(text: &str) -> Result<u64, String> {
    let (number, scale) = match (text.strip_suffix("Gi"), text.strip_suffix("Mi")) {
        (Some(number), _) => (number, 1024),
        (_, Some(number)) => (number, 1),
        _ => (text, 1),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no GPU memory; write 8Gi, 512Mi or MiB"))?;
    Ok(number.saturating_mul(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_groups_and_comments() {
        let words = split(r#"bound a n1 [main: 0 1] text="two words" # rest"#).unwrap();
        assert_eq!(words, ["bound", "a", "n1", "[main: 0 1]", "text=two words"]);
        assert!(split("a [b").is_err() && split("a \"b").is_err());
    }

    #[test]
    fn what_is_left_over_is_an_error() {
        let mut args = Args::new(split("n1 cpu=4 gpu=2").unwrap());
        assert_eq!(args.next("a name").unwrap(), "n1");
        assert_eq!(args.parse::<u32>("cpu", "a number").unwrap(), Some(4));
        assert!(args.finish("cpu=").unwrap_err().contains("gpu=2"));
    }

    #[test]
    fn units() {
        assert_eq!((duration("11m"), duration("250ms")), (Ok(660_000), Ok(250)));
        assert!(duration("10").is_err() && duration("s").is_err());
        assert_eq!((mib("8Gi"), mib("81920")), (Ok(8192), Ok(81920)));
    }
}
