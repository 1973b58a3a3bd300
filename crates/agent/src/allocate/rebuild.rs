//! Entries of the books from what kubelet lists.

use gpu_scheduler_engine::model::Timestamp;

use super::View;
use super::candidates::expected;
use super::place::usual;
use crate::checkpoint::{Entry, HeldDevice, Holder};
use crate::inventory::DeviceUuid;
use crate::pods::NodePod;
use crate::resources::{DeviceId, Resource, ResourceName};

fn resource<'a>(view: &View<'a>, name: &ResourceName) -> Option<&'a Resource> {
    view.offer.resources.iter().find(|resource| resource.name == *name)
}

/// What a container holds that kubelet lists with these ids; `None` if the resource is not offered (any more). Shares
/// take what the pod's record grants them.
pub(crate) fn entry_of(
    view: &View<'_>,
    name: &ResourceName,
    ids: &[DeviceId],
    pod: Option<&NodePod>,
    holder: Holder,
    at: Timestamp,
) -> Option<Entry> {
    let resource = resource(view, name)?;
    let record = pod.and_then(|pod| expected(view, resource, pod, &holder.container)).unwrap_or_default();
    let device = |(at, id): (usize, &DeviceId)| {
        let unit = resource.unit(id)?;
        let granted = record.iter().find(|it| it.device == id.device).or_else(|| record.get(at));
        let memory = granted.map_or_else(|| usual(view, resource, unit).memory, |it| it.memory);
        Some(HeldDevice { id: id.clone(), card: unit.card.clone(), memory })
    };
    let devices: Vec<_> = ids.iter().enumerate().filter_map(device).collect();
    let entry = Entry { resource: name.clone(), hold: resource.hold, devices, holder: Some(holder), at };
    (!entry.devices.is_empty()).then_some(entry)
}

/// The devices that a pod's record gives a container of this resource, sorted; `None` where it says none.
pub(crate) fn recorded_devices(
    view: &View<'_>,
    name: &ResourceName,
    pod: &NodePod,
    container: &str,
) -> Option<Vec<DeviceUuid>> {
    let expected = expected(view, resource(view, name)?, pod, container)?;
    let mut devices: Vec<_> = expected.into_iter().map(|it| it.device).collect();
    devices.sort();
    Some(devices)
}
