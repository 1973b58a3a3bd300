//! Lists of quantities.

use gpu_scheduler_engine::model::{Quantity, RequestError, ResourceList};

use crate::objects::{Quantities, RawQuantity};
use crate::problem::Finding;

/// What an amount should look like.
const EXPECTED: &str = "write an amount of zero or more, such as 500m, 2 or 16Gi";

/// An amount that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// Path of the list and name of the resource.
    pub field: String,
    /// What stands there.
    pub value: String,
    /// Why it is no good.
    pub why: String,
}

impl Unreadable {
    /// As a finding; the resource was left out.
    pub(crate) fn finding(&self) -> Finding {
        Finding::new(&self.field, format!("{}, and it was left out", self.why), EXPECTED)
    }

    /// As the reason for which a pod cannot be placed: what it asks is not known.
    pub(crate) fn request_error(&self) -> RequestError {
        RequestError::Value { place: self.field.clone(), value: self.value.clone(), expected: EXPECTED.to_owned() }
    }
}

/// Reads one amount. It is an error, in words, if it cannot be read or is below zero.
pub(crate) fn read(raw: &RawQuantity) -> Result<Quantity, String> {
    match raw.0.parse::<Quantity>() {
        Ok(amount) if amount.is_negative() => Err(format!("{:?} is below zero", raw.0)),
        Ok(amount) => Ok(amount),
        // The advice comes with the finding; the parser's own would repeat it.
        Err(error) => Err(error.to_string().split(';').next().unwrap_or_default().to_owned()),
    }
}

/// Reads the resources of `list` that `keep` wants. What cannot be read goes to `bad`.
pub(crate) fn read_list(
    list: &Quantities,
    field: &str,
    keep: impl Fn(&str) -> bool,
    bad: &mut Vec<Unreadable>,
) -> ResourceList {
    let mut amounts = ResourceList::new();
    for (name, raw) in list.iter().filter(|(name, _)| keep(name)) {
        match read(raw) {
            Ok(amount) => {
                amounts.insert(name.clone(), amount);
            }
            Err(why) => bad.push(Unreadable { field: format!("{field}.{name}"), value: raw.0.clone(), why }),
        }
    }
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (text, milli) in
            [("2", Some(2000)), ("0.5", Some(500)), ("0", Some(0)), ("-1", None), ("a", None), ("", None)]
        {
            let read = read(&RawQuantity(text.to_owned())).ok().map(Quantity::milli_value);
            assert_eq!(read, milli, "{text}");
        }
    }

    #[test]
    fn a_bad_one_costs_only_itself() {
        let list: Quantities =
            serde_json::from_str(r#"{"cpu":2,"memory":"1Gi","x/y":[1],"z":null,"n":-3}"#).expect("JSON");
        let mut bad = Vec::new();
        let amounts = read_list(&list, "status.capacity", |name| name != "memory", &mut bad);
        assert_eq!(amounts.keys().collect::<Vec<_>>(), ["cpu", "z"]);
        let fields: Vec<_> = bad.iter().map(|b| b.field.as_str()).collect();
        assert_eq!(fields, ["status.capacity.n", "status.capacity.x/y"]);
        assert!(bad[0].finding().to_string().starts_with("\"-3\" is below zero, and it was left out; write"));
    }
}
