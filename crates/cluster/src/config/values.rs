//! Single values of a configuration, each with one way to be written.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use gpu_scheduler_engine::model::{Mib, Millis, Quantity};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MIB: u64 = 1 << 20;

/// Writes a value as the text that it is read from.
fn write_text<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads a value from its text.
fn read_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// Types that are read and written as text.
macro_rules! as_text {
    ($($name:ty),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                write_text(self, serializer)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                read_text(deserializer)
            }
        }
    )+};
}
as_text!(Span, RetryAfter, Memory, ObjectName, SchedulerName, BindAddress);

/// A length of time, whole milliseconds, written as Kubernetes does: `15s`, `1m30s`, `250ms`.
///
/// ```
/// use gpu_scheduler_cluster::config::Span;
/// assert_eq!("1m30s".parse::<Span>().unwrap().to_string(), "1m30s");
/// assert!("90".parse::<Span>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// Units and their milliseconds, largest first.
    const UNITS: [(&'static str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }
    /// As the engine counts it.
    pub fn millis(self) -> Millis {
        Millis(self.0)
    }
    /// As the standard library counts it.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl From<Millis> for Span {
    fn from(Millis(n): Millis) -> Self {
        Self(n)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a duration; write whole numbers with units, such as 15s, 1m30s or 250ms");
        let mut rest = text;
        let mut sum: u64 = 0;
        while !rest.is_empty() || text.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
            let (number, tail) = rest.split_at(digits);
            let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit);
            let (_, millis) = Self::UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
            let number: u64 = number.parse().map_err(|_| bad())?;
            sum = number.checked_mul(millis).and_then(|part| sum.checked_add(part)).ok_or_else(bad)?;
            rest = tail;
        }
        Ok(Self(sum))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        for (unit, millis) in Self::UNITS {
            if left >= millis {
                write!(f, "{}{unit}", left / millis)?;
                left %= millis;
            }
        }
        if self.0 == 0 { f.write_str("0s") } else { Ok(()) }
    }
}

/// When parked pods are tried again although nothing changed for them: a duration, or `never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryAfter {
    /// After this long.
    After(Span),
    /// Only when something changes.
    Never,
}

impl RetryAfter {
    /// As the engine takes it.
    pub fn millis(self) -> Option<Millis> {
        match self {
            Self::After(span) => Some(span.millis()),
            Self::Never => None,
        }
    }
}

impl From<Option<Millis>> for RetryAfter {
    fn from(after: Option<Millis>) -> Self {
        after.map_or(Self::Never, |millis| Self::After(millis.into()))
    }
}

impl FromStr for RetryAfter {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            _ => text.parse().map(Self::After).map_err(|why| format!("{why}, or never")),
        }
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(span) => span.fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

/// An amount of memory, written as a Kubernetes quantity in bytes, kept in MiB, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Memory(Mib);

impl Memory {
    /// So many MiB.
    pub const fn mib(n: u64) -> Self {
        Self(Mib(n))
    }
    /// In MiB.
    pub fn as_mib(self) -> Mib {
        self.0
    }
    /// In bytes.
    pub fn bytes(self) -> u64 {
        self.0.0.saturating_mul(MIB)
    }
}

impl FromStr for Memory {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.parse::<Quantity>().map_err(|error| error.to_string())?.value();
        let bytes = u64::try_from(bytes).map_err(|_| format!("{text:?} is below zero; write an amount such as 1Gi"))?;
        Ok(Self(Mib(bytes.div_ceil(MIB))))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            0 => f.write_str("0"),
            n if n.is_multiple_of(1024) => write!(f, "{}Gi", n / 1024),
            n => write!(f, "{n}Mi"),
        }
    }
}

/// A name of a namespace or of an object (RFC 1123 subdomain).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ObjectName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let label = |label: &str| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(inner)
                && bytes.last().is_some_and(inner)
                && bytes.iter().all(|b| inner(b) || *b == b'-')
        };
        if text.len() <= 253 && text.split('.').all(label) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("{text:?} is not a name that Kubernetes takes; write lower-case letters, digits, - and ."))
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `spec.schedulerName` of pods. Kubernetes takes any text there, so only what is surely a mistake is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchedulerName(String);

impl SchedulerName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SchedulerName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > 253 || text.contains(char::is_whitespace) {
            return Err(format!(
                "{text:?} is not a scheduler name; write a name without spaces, such as gpu-scheduler"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the server for health, metrics and questions listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindAddress(pub SocketAddr);

impl FromStr for BindAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            format!("{text:?} is not an address; write IP:PORT, such as 127.0.0.1:10259, 0.0.0.0:10259 or [::]:10259")
        })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Bounded<const MIN: u32, const MAX: u32>(u32);

impl<const MIN: u32, const MAX: u32> Bounded<MIN, MAX> {
    /// The number, if it is in the range.
    pub const fn new(n: u32) -> Option<Self> {
        if MIN <= n && n <= MAX { Some(Self(n)) } else { None }
    }
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InRange::<MIN, MAX>)
    }
}

/// Takes a number, and says of anything else what would do.
struct InRange<const MIN: u32, const MAX: u32>;

impl<'de, const MIN: u32, const MAX: u32> de::Visitor<'de> for InRange<MIN, MAX> {
    type Value = Bounded<MIN, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Self::Value, E> {
        let known = u32::try_from(n).ok().and_then(Bounded::new);
        known.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(n), &self))
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Self::Value, E> {
        let known = u32::try_from(n).ok().and_then(Bounded::new);
        known.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(n), &self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans() {
        for (text, millis, written) in [
            ("15s", Some(15_000), "15s"),
            ("1m30s", Some(90_000), "1m30s"),
            ("90s", Some(90_000), "1m30s"),
            ("1h", Some(3_600_000), "1h"),
            ("250ms", Some(250), "250ms"),
            ("0s", Some(0), "0s"),
            ("", None, ""),
            ("15", None, ""),
            ("s", None, ""),
            ("-1s", None, ""),
            ("1.5s", None, ""),
            ("1d", None, ""),
            ("99999999999999999999s", None, ""),
            ("18446744073709551615h", None, ""),
        ] {
            let read = text.parse::<Span>();
            assert_eq!(read.clone().ok().map(|s| s.0), millis, "{text}: {read:?}");
            if let Ok(span) = read {
                assert_eq!(span.to_string(), written);
            }
        }
    }

    #[test]
    fn memory_rounds_up_to_mib() {
        for (text, mib, written) in [("1Gi", 1024, "1Gi"), ("1500Mi", 1500, "1500Mi"), ("1", 1, "1Mi"), ("0", 0, "0")] {
            let memory: Memory = text.parse().unwrap();
            assert_eq!((memory.as_mib(), memory.to_string().as_str()), (Mib(mib), written));
        }
        assert!("-1Gi".parse::<Memory>().unwrap_err().contains("below zero"));
        assert!("1GB".parse::<Memory>().unwrap_err().contains("suffix"));
    }

    #[test]
    fn names() {
        for (name, good) in [("gpu-scheduler", true), ("a.b", true), ("", false), ("A", false), ("-a", false)] {
            assert_eq!(name.parse::<ObjectName>().is_ok(), good, "{name}");
        }
        for (name, good) in [("default-scheduler", true), ("My_Scheduler", true), ("", false), ("a b", false)] {
            assert_eq!(name.parse::<SchedulerName>().is_ok(), good, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(millis in 0..u64::MAX / 2, mib in 0..1_u64 << 40) {
            let span = Span(millis);
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
            let memory = Memory::mib(mib);
            prop_assert_eq!(memory.to_string().parse::<Memory>(), Ok(memory));
        }

        #[test]
        fn no_text_panics(text in "[0-9hms. -]{0,12}") {
            let _ = (text.parse::<RetryAfter>(), text.parse::<Memory>(), text.parse::<BindAddress>());
        }
    }
}
