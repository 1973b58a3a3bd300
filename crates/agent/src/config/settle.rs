//! From what was said to what is in effect.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gpu_scheduler_cluster::config::Span;

use super::ConfigProblem;
use super::file::{ImexFile, Layer, OneOrMany};
use super::values::{AllocationPolicy, DeviceIdStrategy, DeviceListStrategy, DiscoveryStrategy, MigStrategy};
use super::{Config, Extras, Gfd, Imex, Read, Sharing, sharing};

impl Layer {
    /// Fills in the defaults and checks what no single field shows to be wrong.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn settle(self) -> Result<Read, ConfigProblem> {
        let mut warnings = Vec::new();
        if self.resources.is_some() {
            let what = "resources of one's own have no effect: names follow from the devices; leave the part out";
            warnings.push(ConfigProblem::of_field("resources", what));
        }
        let sharing = sharing::settle(self.sharing, &mut warnings)?;
        let flags = self.flags;
        let (plugin, gfd) = (flags.plugin, flags.gfd);
        if flags.device_discovery_strategy == Some(DiscoveryStrategy::Tegra) {
            let what = "devices of Tegra are not supported; write auto or nvml";
            return Err(ConfigProblem::of_field("flags.deviceDiscoveryStrategy", what));
        }
        let driver_root = flags.nvidia_driver_root.unwrap_or_else(|| PathBuf::from("/"));
        let dev_root = flags.nvidia_dev_root.filter(|root| !root.as_os_str().is_empty());
        let config = Config {
            mig_strategy: flags.mig_strategy.unwrap_or_default(),
            fail_on_init_error: flags.fail_on_init_error.unwrap_or(true),
            mps_root: flags.mps_root.unwrap_or_else(|| PathBuf::from("/run/nvidia/mps")),
            dev_root: dev_root.unwrap_or_else(|| driver_root.clone()),
            driver_root,
            device_list: device_list(plugin.device_list_strategy)?,
            device_id: plugin.device_id_strategy.unwrap_or(DeviceIdStrategy::Uuid),
            pass_device_specs: plugin.pass_device_specs.unwrap_or(false),
            cdi_annotation_prefix: plugin.cdi_annotation_prefix.unwrap_or_else(|| "cdi.k8s.io/".to_owned()),
            nvidia_ctk_path: plugin.nvidia_ctk_path.unwrap_or_else(|| PathBuf::from("/usr/bin/nvidia-ctk")),
            container_driver_root: plugin.container_driver_root.unwrap_or_else(|| PathBuf::from("/driver-root")),
            policy: plugin.shared_devices_allocation_policy.unwrap_or(AllocationPolicy::Distributed),
            extras: Extras {
                gdrcopy: flags.gdrcopy_enabled.unwrap_or(false),
                gds: flags.gds_enabled.unwrap_or(false),
                mofed: flags.mofed_enabled.unwrap_or(false),
            },
            gfd: Gfd {
                oneshot: gfd.oneshot.unwrap_or(false),
                no_timestamp: gfd.no_timestamp.unwrap_or(false),
                sleep_interval: gfd.sleep_interval.unwrap_or(Span::from_secs(60)),
                output_file: gfd.output_file.filter(|file| !file.as_os_str().is_empty()),
                machine_type_file: gfd.machine_type_file.unwrap_or_else(|| "/sys/class/dmi/id/product_name".into()),
                use_node_feature_api: flags.use_node_feature_api.unwrap_or(true),
            },
            sharing,
            imex: imex(&self.imex)?,
        };
        check(&config)?;
        Ok(Read { config, warnings })
    }
}

fn check(config: &Config) -> Result<(), ConfigProblem> {
    let fail = |field: &str, what: &str| Err(ConfigProblem::of_field(field, what));
    if config.gfd.sleep_interval == Span::from_secs(0) {
        return fail("flags.gfd.sleepInterval", "it is zero; write a duration such as 60s");
    }
    if matches!(config.sharing, Sharing::Mps(_)) {
        if config.mig_strategy == MigStrategy::Mixed {
            return fail(
                "sharing.mps",
                "MPS does not go with migStrategy: mixed; use timeSlicing, or another strategy",
            );
        }
        if config.mps_root.as_os_str().is_empty() {
            return fail("flags.mpsRoot", "it is empty, and sharing.mps needs it; write a folder of the host");
        }
    }
    Ok(())
}

fn device_list(written: Option<OneOrMany>) -> Result<BTreeSet<DeviceListStrategy>, ConfigProblem> {
    let list = match written {
        None => vec![DeviceListStrategy::Envvar],
        Some(OneOrMany::One(one)) => vec![one],
        Some(OneOrMany::Many(many)) => many,
    };
    if list.is_empty() {
        let what = "the list is empty; write a strategy, or leave it out for envvar";
        return Err(ConfigProblem::of_field("flags.plugin.deviceListStrategy", what));
    }
    Ok(list.into_iter().collect())
}

fn imex(written: &ImexFile) -> Result<Imex, ConfigProblem> {
    match written.channel_ids.as_deref().unwrap_or_default() {
        [] => Ok(Imex::None),
        [0] => Ok(Imex::First { required: written.required.unwrap_or(false) }),
        other => {
            let what = format!("{other:?} cannot be had; write [0], or leave the list empty");
            Err(ConfigProblem::of_field("imex.channelIDs", what))
        }
    }
}
