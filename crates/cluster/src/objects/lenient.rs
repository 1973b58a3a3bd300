//! Reading with the API server's tolerance: `null` is absent, a quantity may be a bare number.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The text of a quantity, not yet understood. YAML numbers count as their text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawQuantity(pub String);

/// Resource name to quantity.
pub type Quantities = BTreeMap<String, RawQuantity>;

impl<'de> Deserialize<'de> for RawQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Null => "0".to_owned(),
            // Kept as text: it fails where quantities are read, and only that one resource is lost then.
            other => other.to_string(),
        }))
    }
}

/// `null` is the type's default; for `deserialize_with`.
///
/// # Errors
/// The type's own.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// `null` is an empty list, and `null` entries are left out.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
    Ok(entries.unwrap_or_default().into_iter().flatten().collect())
}

/// As [`list`], where a list that is missing is not the same as an empty one.
pub(super) fn optional_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let entries: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
    Ok(entries.map(|entries| entries.into_iter().flatten().collect()))
}

/// `null` is an empty map, and `null` values are empty texts.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let entries: Option<BTreeMap<String, Option<String>>> = Option::deserialize(deserializer)?;
    Ok(entries.unwrap_or_default().into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}
