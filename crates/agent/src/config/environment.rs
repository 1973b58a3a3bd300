//! The environment, under the names of NVIDIA's plugin.

use std::str::FromStr;

use super::ConfigProblem;
use super::file::{Layer, OneOrMany};

/// What the environment says. `read` is [`std::env::var`] without its error, or a table; an empty value says nothing.
///
/// # Errors
/// The first variable whose value makes no sense.
pub fn from_environment(read: impl Fn(&str) -> Option<String>) -> Result<Layer, ConfigProblem> {
    let text = |name: &str| read(name).filter(|value| !value.is_empty());
    let mut layer = Layer::default();
    let flags = &mut layer.flags;
    flags.mig_strategy = value(&text, "MIG_STRATEGY")?;
    flags.fail_on_init_error = truth(&text, "FAIL_ON_INIT_ERROR")?;
    flags.mps_root = text("MPS_ROOT").map(Into::into);
    flags.nvidia_driver_root = text("NVIDIA_DRIVER_ROOT").map(Into::into);
    flags.nvidia_dev_root = text("NVIDIA_DEV_ROOT").map(Into::into);
    flags.gdrcopy_enabled = truth(&text, "GDRCOPY_ENABLED")?;
    flags.gds_enabled = truth(&text, "GDS_ENABLED")?;
    flags.mofed_enabled = truth(&text, "MOFED_ENABLED")?;
    flags.use_node_feature_api = truth(&text, "USE_NODE_FEATURE_API")?;
    flags.device_discovery_strategy = value(&text, "DEVICE_DISCOVERY_STRATEGY")?;
    let plugin = &mut flags.plugin;
    plugin.pass_device_specs = truth(&text, "PASS_DEVICE_SPECS")?;
    plugin.device_list_strategy = list(&text, "DEVICE_LIST_STRATEGY")?.map(OneOrMany::Many);
    plugin.device_id_strategy = value(&text, "DEVICE_ID_STRATEGY")?;
    plugin.cdi_annotation_prefix = text("CDI_ANNOTATION_PREFIX");
    plugin.nvidia_ctk_path = text("NVIDIA_CDI_HOOK_PATH").or_else(|| text("NVIDIA_CTK_PATH")).map(Into::into);
    plugin.container_driver_root = text("DRIVER_ROOT_CTR_PATH").map(Into::into);
    plugin.shared_devices_allocation_policy = value(&text, "SHARED_DEVICES_ALLOCATION_POLICY")?;
    let gfd = &mut flags.gfd;
    gfd.oneshot = truth(&text, "GFD_ONESHOT")?;
    gfd.no_timestamp = truth(&text, "GFD_NO_TIMESTAMP")?;
    gfd.sleep_interval = value(&text, "GFD_SLEEP_INTERVAL")?;
    gfd.output_file = text("GFD_OUTPUT_FILE").map(Into::into);
    gfd.machine_type_file = text("GFD_MACHINE_TYPE_FILE").map(Into::into);
    layer.imex.channel_ids = list(&text, "IMEX_CHANNEL_IDS")?;
    layer.imex.required = truth(&text, "IMEX_REQUIRED")?;
    Ok(layer)
}

fn value<T>(text: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<T>, ConfigProblem>
where
    T: FromStr<Err = String>,
{
    text(name).map(|value| value.parse()).transpose().map_err(|what| ConfigProblem::of_field(name, what))
}

/// Entries with commas between them.
fn list<T>(text: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<Vec<T>>, ConfigProblem>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let Some(value) = text(name) else { return Ok(None) };
    let entries: Result<Vec<T>, _> = value.split(',').map(|entry| entry.trim().parse()).collect();
    entries.map(Some).map_err(|error| ConfigProblem::of_field(name, format!("{value:?}: {error}")))
}

fn truth(text: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<bool>, ConfigProblem> {
    match text(name).as_deref() {
        None => Ok(None),
        Some("true" | "TRUE" | "True" | "t" | "T" | "1") => Ok(Some(true)),
        Some("false" | "FALSE" | "False" | "f" | "F" | "0") => Ok(Some(false)),
        Some(other) => {
            Err(ConfigProblem::of_field(name, format!("{other:?} is neither yes nor no; write true or false")))
        }
    }
}
