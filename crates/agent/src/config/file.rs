//! The file's shape. The command line and the environment are written in it too, so that one can be laid over the other.

use std::path::{Path, PathBuf};

use gpu_scheduler_cluster::config::{ConfigError as FileError, ConfigProblem, Span, read_yaml};
use gpu_scheduler_cluster::objects::nullable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::{ConfigError, words};
use super::values::{AllocationPolicy, DeviceIdStrategy, DeviceListStrategy, DiscoveryStrategy, MigStrategy, Version};

/// What one place says: the file, the environment or the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Layer {
    /// `version`; missing means `v1`.
    pub version: Option<Version>,
    /// `flags`.
    #[serde(deserialize_with = "nullable")]
    pub flags: Flags,
    /// `resources`: read and not heeded, as NVIDIA's plugin does.
    pub resources: Option<Value>,
    /// `sharing`.
    #[serde(deserialize_with = "nullable")]
    pub sharing: FileSharing,
    /// `imex`.
    #[serde(deserialize_with = "nullable")]
    pub imex: ImexFile,
}

/// `flags`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names are the file's own and explained in docs/agent-config.md")]
pub struct Flags {
    pub mig_strategy: Option<MigStrategy>,
    pub fail_on_init_error: Option<bool>,
    pub mps_root: Option<PathBuf>,
    pub nvidia_driver_root: Option<PathBuf>,
    pub nvidia_dev_root: Option<PathBuf>,
    pub gdrcopy_enabled: Option<bool>,
    pub gds_enabled: Option<bool>,
    pub mofed_enabled: Option<bool>,
    #[serde(rename = "useNodeFeatureAPI")]
    pub use_node_feature_api: Option<bool>,
    pub device_discovery_strategy: Option<DiscoveryStrategy>,
    #[serde(deserialize_with = "nullable")]
    pub plugin: PluginFlags,
    #[serde(deserialize_with = "nullable")]
    pub gfd: GfdFlags,
}

/// `flags.plugin`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names are the file's own and explained in docs/agent-config.md")]
pub struct PluginFlags {
    pub pass_device_specs: Option<bool>,
    pub device_list_strategy: Option<OneOrMany>,
    #[serde(rename = "deviceIDStrategy")]
    pub device_id_strategy: Option<DeviceIdStrategy>,
    pub cdi_annotation_prefix: Option<String>,
    #[serde(rename = "nvidiaCTKPath")]
    pub nvidia_ctk_path: Option<PathBuf>,
    pub container_driver_root: Option<PathBuf>,
    pub shared_devices_allocation_policy: Option<AllocationPolicy>,
}

/// `flags.gfd`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the names are the file's own and explained in docs/agent-config.md")]
pub struct GfdFlags {
    pub oneshot: Option<bool>,
    pub no_timestamp: Option<bool>,
    pub sleep_interval: Option<Span>,
    pub output_file: Option<PathBuf>,
    pub machine_type_file: Option<PathBuf>,
}

/// One strategy, or a list of some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected one or a list of envvar, volume-mounts, cdi-annotations, cdi-cri")]
pub enum OneOrMany {
    /// One.
    One(DeviceListStrategy),
    /// Some.
    Many(Vec<DeviceListStrategy>),
}

/// `sharing`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSharing {
    /// `timeSlicing`.
    pub time_slicing: Option<SharedFile>,
    /// `mps`.
    pub mps: Option<SharedFile>,
}

/// `sharing.timeSlicing` and `sharing.mps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are the file's own and explained in docs/agent-config.md")]
pub struct SharedFile {
    #[serde(default)]
    pub rename_by_default: Option<bool>,
    #[serde(default)]
    pub fail_requests_greater_than_one: Option<bool>,
    pub resources: Vec<Replicated>,
}

/// An entry of `resources` in there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are the file's own and explained in docs/agent-config.md")]
pub struct Replicated {
    pub name: String,
    #[serde(default)]
    pub rename: Option<String>,
    #[serde(default)]
    pub devices: Option<Devices>,
    pub replicas: i64,
}

/// Which devices are replicated: `all`, a count, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected all, a count above zero, or a list of indices and UUIDs")]
pub enum Devices {
    /// So many.
    Count(i64),
    /// `all`.
    Text(String),
    /// These.
    List(Vec<Value>),
}

/// `imex`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImexFile {
    /// `channelIDs`: empty, or 0 alone.
    #[serde(rename = "channelIDs")]
    pub channel_ids: Option<Vec<i64>>,
    /// `required`.
    pub required: Option<bool>,
}

/// Lays `over` over `under`, field by field.
macro_rules! overlay {
    ($under:expr, $over:expr; $($field:ident).+ $(, $($more:ident).+)*) => {
        if $over.$($field).+.is_some() {
            $under.$($field).+ = $over.$($field).+;
        }
        $(overlay!($under, $over; $($more).+);)*
    };
}

impl Layer {
    /// What is said here, and `over` where that says something.
    pub fn overlaid_by(mut self, over: Self) -> Self {
        overlay!(self, over; version, resources, sharing.time_slicing, sharing.mps, imex.channel_ids, imex.required,
            flags.mig_strategy, flags.fail_on_init_error, flags.mps_root, flags.nvidia_driver_root, flags.nvidia_dev_root,
            flags.gdrcopy_enabled, flags.gds_enabled, flags.mofed_enabled, flags.use_node_feature_api,
            flags.device_discovery_strategy, flags.plugin.pass_device_specs, flags.plugin.device_list_strategy,
            flags.plugin.device_id_strategy, flags.plugin.cdi_annotation_prefix, flags.plugin.nvidia_ctk_path,
            flags.plugin.container_driver_root, flags.plugin.shared_devices_allocation_policy, flags.gfd.oneshot,
            flags.gfd.no_timestamp, flags.gfd.sleep_interval, flags.gfd.output_file, flags.gfd.machine_type_file);
        self
    }

    /// Reads a file, YAML or JSON.
    ///
    /// # Errors
    /// If it cannot be read or is not of the file's shape.
    pub fn load(path: &Path) -> Result<(Self, Vec<ConfigProblem>), ConfigError> {
        let unreadable = |source| FileError::Io { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let at = |problem: ConfigProblem| problem.in_file(Some(path));
        let (layer, warnings) = Self::parse(&text).map_err(at)?;
        Ok((layer, warnings.into_iter().map(at).collect()))
    }

    /// Reads the text of a file, and says which fields it has that nobody knows. An empty text says nothing at all.
    ///
    /// # Errors
    /// If it is not of the file's shape.
    pub fn parse(text: &str) -> Result<(Self, Vec<ConfigProblem>), ConfigProblem> {
        let layer = match read_yaml::<Option<Self>>(text, words) {
            Ok(layer) => layer.unwrap_or_default(),
            Err(_) if text.lines().all(is_blank) => Self::default(),
            Err(problem) => return Err(problem),
        };
        let options = serde_saphyr::options! { with_snippet: false };
        let written: Value = serde_saphyr::from_str_with_options(text, options).unwrap_or(Value::Null);
        let known = serde_json::to_value(&layer).expect("a layer is text, numbers and lists");
        let mut warnings = Vec::new();
        unknown(&written, &known, "", &mut warnings);
        Ok((layer, warnings))
    }
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#') || line == "---"
}

/// Names in `written` that the reader has no place for. What was read is written out with all its names, so whatever is
/// missing there was passed over.
fn unknown(written: &Value, known: &Value, at: &str, warnings: &mut Vec<ConfigProblem>) {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            for (name, value) in written {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                match known.get(name) {
                    Some(known) => unknown(value, known, &path, warnings),
                    None => warnings
                        .push(ConfigProblem::of_field(path, "nobody knows this field; it has no effect, take it out")),
                }
            }
        }
        (Value::Array(written), Value::Array(known)) => {
            for (index, (value, known)) in written.iter().zip(known).enumerate() {
                unknown(value, known, &format!("{at}[{index}]"), warnings);
            }
        }
        _ => {}
    }
}
