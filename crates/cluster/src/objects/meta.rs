//! What every object has.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::lenient::{list, nullable, texts};

/// `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Name; empty where it is missing.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Namespace.
    pub namespace: Option<String>,
    /// UID.
    pub uid: Option<String>,
    /// Version, for whoever watches.
    pub resource_version: Option<String>,
    /// Version of the spec.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
    /// RFC 3339.
    pub creation_timestamp: Option<String>,
    /// RFC 3339; set once the object is being deleted.
    pub deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(deserialize_with = "texts")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "texts")]
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    #[serde(deserialize_with = "list")]
    pub owner_references: Vec<OwnerReference>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's name.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// The owner's UID.
    #[serde(deserialize_with = "nullable")]
    pub uid: String,
    /// The owner's kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    /// Whether it is the owner that manages the object.
    #[serde(deserialize_with = "nullable")]
    pub controller: bool,
}
