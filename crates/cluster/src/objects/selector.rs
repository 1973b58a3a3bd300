//! `metav1.LabelSelector`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lenient::{list, nullable, texts};

/// Which objects, by their labels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(deserialize_with = "texts")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels.
    #[serde(deserialize_with = "list")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// A requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    /// Label key.
    #[serde(deserialize_with = "nullable")]
    pub key: String,
    /// Operator, as text.
    #[serde(deserialize_with = "nullable")]
    pub operator: String,
    /// Values.
    #[serde(deserialize_with = "list")]
    pub values: Vec<String>,
}
