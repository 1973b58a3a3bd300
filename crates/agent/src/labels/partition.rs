//! Labels of a kind of MIG device.

use super::Labels;
use super::sharing::Sharing;
use crate::inventory::MigDevice;

/// Labels of `count` devices like `device`, which are offered as `resource`.
pub(super) fn add(
    labels: &mut Labels,
    resource: &str,
    model: &str,
    device: &MigDevice,
    count: usize,
    sharing: Sharing,
) {
    let profile = device.profile.as_resource();
    let [copy, decoder, encoder, jpeg, ofa] = device.engines;
    for (name, value) in [
        ("product", format!("{model}-MIG-{profile}{}", sharing.suffix())),
        ("count", count.to_string()),
        ("replicas", sharing.replicas.to_string()),
        ("sharing-strategy", sharing.strategy.as_str().to_owned()),
        ("memory", device.memory.0.to_string()),
        ("multiprocessors", device.multiprocessors.to_string()),
        ("slices.gi", device.slices.0.to_string()),
        ("slices.ci", device.slices.1.to_string()),
        ("engines.copy", copy.to_string()),
        ("engines.decoder", decoder.to_string()),
        ("engines.encoder", encoder.to_string()),
        ("engines.jpeg", jpeg.to_string()),
        ("engines.ofa", ofa.to_string()),
    ] {
        labels.insert(format!("{resource}.{name}"), value);
    }
}
