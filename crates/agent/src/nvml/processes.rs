//! The processes on a card, each once.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::Mib;
use nvml_wrapper::Device;
use nvml_wrapper_sys::bindings::nvmlProcessInfo_t;

use super::fault::Calls;
use super::raw::{self, ProcessList};
use super::sample::Process;

/// What the driver says of memory that it cannot tell.
const UNTOLD: u64 = u64::MAX;

/// All processes; `None` if the list of those that compute cannot be had.
pub(super) fn processes(device: &Device<'_>, calls: &mut Calls<'_>) -> Option<Vec<Process>> {
    let mut found = Vec::new();
    for (list, call) in ProcessList::ALL {
        match calls.value(call, || raw::processes(device, list)) {
            Some(processes) => found.extend(processes.into_iter().map(process)),
            None if list == ProcessList::Compute => return None,
            None => {}
        }
    }
    Some(once(found))
}

fn process(raw: nvmlProcessInfo_t) -> Process {
    let id = |id: u32| Some(id).filter(|id| *id != u32::MAX);
    Process {
        pid: raw.pid,
        gpu_instance: id(raw.gpuInstanceId),
        compute_instance: id(raw.computeInstanceId),
        used: Some(raw.usedGpuMemory).filter(|bytes| *bytes != UNTOLD).map(|bytes| Mib(bytes >> 20)),
    }
}

/// A process that both computes and draws is in two lists, with the same memory in each. One that is on two parts of a
/// card uses memory of both.
fn once(listed: Vec<Process>) -> Vec<Process> {
    let mut known: BTreeMap<(u32, Option<u32>, Option<u32>), Process> = BTreeMap::new();
    for process in listed {
        let key = (process.pid, process.gpu_instance, process.compute_instance);
        let entry = known.entry(key).or_insert(process);
        entry.used = entry.used.max(process.used);
    }
    known.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_once() {
        let of = |pid, gpu_instance, used: Option<u64>| Process {
            pid,
            gpu_instance,
            compute_instance: None,
            used: used.map(Mib),
        };
        for (listed, expected) in [
            (vec![of(1, None, Some(5)), of(1, None, Some(5))], vec![of(1, None, Some(5))]),
            (vec![of(1, None, None), of(1, None, Some(5))], vec![of(1, None, Some(5))]),
            (
                vec![of(1, Some(1), Some(5)), of(1, Some(2), Some(6))],
                vec![of(1, Some(1), Some(5)), of(1, Some(2), Some(6))],
            ),
            (vec![of(2, None, Some(1)), of(1, None, None)], vec![of(1, None, None), of(2, None, Some(1))]),
            (vec![], vec![]),
        ] {
            assert_eq!(once(listed.clone()), expected, "{listed:?}");
        }
    }
}
