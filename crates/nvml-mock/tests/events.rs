//! Events arrive, each once.
#![allow(unsafe_code, reason = "nvml-wrapper drops the instances of an event")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::time::{Duration, Instant};

use common::{Loaded, SUCCESS};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;
use nvml_wrapper_sys::bindings::nvmlEventData_t;

const TIMEOUT: u32 = 10;
const NONE: u32 = u32::MAX;

/// Waits as C does: the error number and the instances that it happened on.
fn wait(loaded: &Loaded, set: &EventSet<'_>, timeout: u32) -> Result<(u64, u32, u32), u32> {
    // SAFETY: a structure of numbers; the set lives on.
    let (mut data, set): (nvmlEventData_t, _) = unsafe { (std::mem::zeroed(), set.handle()) };
    match raw!(loaded.nvml, nvmlEventSetWait_v2(set, &raw mut data, timeout)) {
        SUCCESS => Ok((data.eventData, data.gpuInstanceId, data.computeInstanceId)),
        error => Err(error),
    }
}

fn registered(loaded: &Loaded, gpu: u32) -> EventSet<'_> {
    let set = loaded.nvml.create_event_set().unwrap();
    loaded.gpu(gpu).register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap()
}

#[test]
fn each_event_arrives_once_and_only_if_it_is_new() {
    let loaded = Loaded::of("gpus: {model: T4, xids: [{id: 1, xid: 13}]}");
    let first = registered(&loaded, 0);
    assert_eq!(wait(&loaded, &first, 0), Err(TIMEOUT), "what was there before is not told");

    loaded.write("gpus: {model: T4, xids: [{id: 1, xid: 13}, {id: 2, xid: 31}, {id: 3, xid: 79}]}");
    let second = registered(&loaded, 0);
    assert_eq!(wait(&loaded, &first, 0), Ok((31, NONE, NONE)));
    assert_eq!(wait(&loaded, &first, 0), Ok((79, NONE, NONE)));
    assert_eq!(wait(&loaded, &first, 0), Err(TIMEOUT));
    assert_eq!(wait(&loaded, &second, 0), Err(TIMEOUT), "the second set came later");

    loaded.write("gpus: {model: T4, xids: [{id: 3, xid: 79}, {id: 4, xid: 48, gpu-instance: 2, compute-instance: 0}]}");
    for set in [&first, &second] {
        assert_eq!(wait(&loaded, set, 0), Ok((48, 2, 0)));
        assert_eq!(wait(&loaded, set, 0), Err(TIMEOUT));
    }
}

#[test]
fn a_waiting_call_wakes_when_the_event_appears() {
    let loaded = Loaded::of("gpus: [{model: T4}, {model: T4}]");
    let set = registered(&loaded, 1);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| loaded.write("gpus: [{model: T4}, {model: T4, lost: true, xids: [{id: 1, xid: 79}]}]"));
        // Whether the write is before the wait or within it, the event must arrive.
        let event = set.wait(60_000).unwrap();
        assert_eq!(event.event_type, EventTypes::CRITICAL_XID_ERROR);
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(matches!(loaded.nvml.device_by_index(1), Err(NvmlError::GpuLost)), "also of a lost card");
}

#[test]
fn others_can_ask_while_one_waits() {
    let loaded = Loaded::of("gpus: {model: T4}");
    let set = registered(&loaded, 0);
    std::thread::scope(|scope| {
        let asking = &loaded;
        let waiting = scope.spawn(move || wait(asking, &set, 60_000));
        assert_eq!(loaded.nvml.device_count().unwrap(), 1);
        loaded.write("gpus: {model: T4, xids: [{id: 1, xid: 43}]}");
        assert_eq!(waiting.join().unwrap(), Ok((43, NONE, NONE)));
    });
}

#[test]
fn a_set_hears_only_what_it_asked_for() {
    let loaded = Loaded::of("gpus: [{model: T4}, {model: T4}]");
    let none = loaded.nvml.create_event_set().unwrap();
    let other = registered(&loaded, 1);
    let ecc = loaded.nvml.create_event_set().unwrap();
    let ecc = loaded.gpu(0).register_events(EventTypes::DOUBLE_BIT_ECC_ERROR, ecc).unwrap();
    loaded.write("gpus: [{model: T4, xids: [{id: 1, xid: 31}]}, {model: T4}]");
    for set in [&none, &other, &ecc] {
        assert_eq!(wait(&loaded, set, 0), Err(TIMEOUT));
    }
    let supported = loaded.gpu(0).supported_event_types_strict().unwrap();
    assert!(supported.contains(EventTypes::CRITICAL_XID_ERROR | EventTypes::DOUBLE_BIT_ECC_ERROR));
    assert!(!supported.contains(EventTypes::CLOCK_CHANGE));
    assert!(loaded.gpu(0).register_events(EventTypes::CLOCK_CHANGE, none).is_err());
}
