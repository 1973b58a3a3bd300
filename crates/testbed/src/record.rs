//! Allocation records as text: `[main: 0 1; side: 2:8192MiB+30%]`. What `bind` prints, `bound` reads.

use gpu_scheduler_engine::model::{
    Allocation, CardSpec, ContainerAllocation, DeviceGrant, GrantKind, Mib, Partition, Percent,
};

use crate::words::{mib, parse};

/// Writes a record; cards are named by their index.
pub(crate) fn print(allocation: &Allocation) -> String {
    let containers: Vec<String> = allocation.containers.iter().map(print_container).collect();
    format!("[{}]", containers.join("; "))
}

fn print_container(container: &ContainerAllocation) -> String {
    let mut text = format!("{}:", container.name);
    for device in &container.devices {
        text.push(' ');
        text.push_str(&print_device(container.kind, device));
    }
    text
}

/// A container with devices of several kinds states none: then the numbers tell.
fn print_device(kind: Option<GrantKind>, device: &DeviceGrant) -> String {
    let index = device.index;
    match (kind, &device.mig) {
        (_, Some(slice)) => format!("{index}/{slice}"),
        (Some(GrantKind::Mig), None) => format!("{index}/?"),
        (Some(GrantKind::Whole), None) => index.to_string(),
        (Some(GrantKind::Seat), None) => format!("{index}:seat"),
        (None, None) if device.compute == Percent::ALL => index.to_string(),
        (Some(GrantKind::Share) | None, None) if device.compute == Percent(0) => {
            format!("{index}:{}MiB", device.memory.0)
        }
        (Some(GrantKind::Share) | None, None) => format!("{index}:{}MiB+{}%", device.memory.0, device.compute.0),
    }
}

/// Reads a record. `0` is a card, `0=GPU-x` one with a UUID of its own, `0:8Gi+30%` a share, `0:seat` a
/// seat, `0/MIG-a` a slice. Without a UUID the card is the one of that index among `cards`.
pub(crate) fn read(text: &str, node: &str, cards: &[CardSpec]) -> Result<Allocation, String> {
    let inner = text.trim_start_matches('[').trim_end_matches(']').trim();
    let containers = inner.split(';').map(str::trim).filter(|c| !c.is_empty());
    let containers = containers.map(|container| {
        let (name, devices) =
            container.split_once(": ").ok_or_else(|| format!("{container:?} is no container; write NAME: DEVICES"))?;
        let devices: Vec<_> =
            devices.split_whitespace().map(|d| read_device(d, node, cards)).collect::<Result<_, String>>()?;
        let first = devices.first().map(|(kind, _)| *kind);
        let kind = first.filter(|kind| devices.iter().all(|(k, _)| k == kind));
        Ok(ContainerAllocation {
            name: name.to_owned(),
            kind,
            devices: devices.into_iter().map(|(_, device)| device).collect(),
        })
    });
    Ok(Allocation { containers: containers.collect::<Result<_, String>>()? })
}

fn read_device(text: &str, node: &str, cards: &[CardSpec]) -> Result<(GrantKind, DeviceGrant), String> {
    let end = text.find([':', '/', '=']).unwrap_or(text.len());
    let index: u32 = parse("device", &text[..end], "a card's index first")?;
    let (uuid, rest) = match text[end..].strip_prefix('=') {
        Some(named) => named.split_at(named.find([':', '/']).unwrap_or(named.len())),
        None => ("", &text[end..]),
    };
    let card = cards.iter().find(|c| c.index == index);
    let uuid = match uuid {
        "" => card.map_or_else(|| CardSpec::made_up_uuid(node, index), |c| c.uuid.clone()),
        // The name that stands for a card of which nobody told the UUID.
        "made-up" => CardSpec::made_up_uuid(node, index),
        named => named.to_owned(),
    };
    let total = card.and_then(|c| c.memory).unwrap_or_default();
    let grant = |memory, compute, mig| DeviceGrant { uuid, index, memory, compute, mig };
    Ok(match rest.split_at(rest.len().min(1)) {
        (":", "seat") => (GrantKind::Seat, grant(total, Percent(0), None)),
        (":", share) => {
            let (memory, compute) = share.split_once('+').unwrap_or((share, "0%"));
            let compute = parse("device", compute.trim_end_matches('%'), "percent after +")?;
            let memory = memory.strip_suffix("MiB").unwrap_or(memory);
            (GrantKind::Share, grant(Mib(mib(memory)?), Percent(compute), None))
        }
        ("/", mig) => {
            let profile = card.and_then(|c| slice(c, mig)).and_then(|p| Partition::nominal(&p.profile));
            let memory = Mib(profile.map_or(0, |(_, gb)| gb * 1024));
            (GrantKind::Mig, grant(memory, Percent(0), Some(mig.to_owned())))
        }
        _ => (GrantKind::Whole, grant(total, Percent::ALL, None)),
    })
}

fn slice<'a>(card: &'a CardSpec, uuid: &str) -> Option<&'a Partition> {
    use gpu_scheduler_engine::model::Partitioning;
    let Partitioning::Mig(slices) = &card.partitioning else { return None };
    slices.iter().find(|p| p.uuid == uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let cards = [CardSpec::new("GPU-0", 0, "T4", Some(Mib(15360))), CardSpec::new("GPU-1", 1, "T4", None)];
        for text in [
            "[main: 0 1]",
            "[a: 0:8192MiB+30%; b: 0:512MiB 1:512MiB]",
            "[m: 1:seat]",
            "[m: 0/MIG-a 0/MIG-b]",
            "[m: 0 1/MIG-a]",
            "[]",
        ] {
            assert_eq!(print(&read(text, "n1", &cards).unwrap()), text);
        }
        let read = read("[m: 3=GPU-x 0=made-up:8Gi]", "n1", &cards).unwrap();
        assert_eq!(read.containers[0].devices[0].uuid, "GPU-x");
        assert_eq!(read.containers[0].devices[1].uuid, "n1/gpu-0");
    }
}
