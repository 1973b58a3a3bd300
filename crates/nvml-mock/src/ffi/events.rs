//! Tells of errors.

use std::ffi::{c_uint, c_ulonglong};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{self as nvml, nvmlEventData_t, nvmlEventSet_st, nvmlReturn_t};

use super::call::{Answer, answer, exports};
use super::enumerate::{DeviceHandle, handle_of};
use super::pointer::{Handle, Pointer};
use super::processes::NO_INSTANCE;
use crate::describe::{Function, NvmlError};
use crate::driver::{Driver, Event, SUPPORTED_EVENTS, Target, Watch};

/// What NVML calls a set of events.
type EventSetHandle = Handle<nvmlEventSet_st>;

fn data(driver: &mut Driver, event: Event) -> nvmlEventData_t {
    nvmlEventData_t {
        device: handle_of(driver, event.card).raw(),
        eventType: nvml::nvmlEventTypeXidCriticalError.into(),
        eventData: event.xid.xid,
        gpuInstanceId: event.xid.gpu_instance.unwrap_or(NO_INSTANCE),
        computeInstanceId: event.xid.compute_instance.unwrap_or(NO_INSTANCE),
    }
}

/// Looks once. If there is nothing, a watch that began before the look is what to wait on.
fn look(set: EventSetHandle, room: Pointer<nvmlEventData_t>) -> Result<Option<Watch>, NvmlError> {
    let mut driver = Driver::lock();
    let watch = driver.watch();
    driver.begin(Function::exported(WAIT))?;
    room.check()?;
    match driver.next_event(set.number())? {
        None => Ok(Some(watch)),
        Some(event) => {
            let data = data(&mut driver, event);
            room.set(data).map(|()| None)
        }
    }
}

/// Waits without the lock, so that others can ask meanwhile.
fn wait(set: EventSetHandle, room: Pointer<nvmlEventData_t>, most: Duration) -> Answer {
    let begun = Instant::now();
    while let Some(watch) = look(set, room)? {
        let left = most.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()).ok_or(NvmlError::Timeout)?;
        watch.wait(left);
    }
    Ok(())
}

const WAIT: &str = "nvmlEventSetWait_v2";

#[expect(unsafe_code, reason = "a library in C has its names for itself")]
#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetWait_v2(
    set: EventSetHandle,
    data: Pointer<nvmlEventData_t>,
    timeout: c_uint,
) -> nvmlReturn_t {
    answer(|| wait(set, data, Duration::from_millis(timeout.into())))
}

/// What of this group can be made to fail, beside [`FUNCTIONS`].
pub(super) const WAITING: &[&str] = &[WAIT];

exports! {
    fn nvmlEventSetCreate(set: Pointer<EventSetHandle>) => |driver| {
        set.check()?;
        let number = driver.sets.create();
        set.set(Handle::new(driver.handles.of(Target::EventSet(number))))
    };

    fn nvmlDeviceGetSupportedEventTypes(device: DeviceHandle, types: Pointer<c_ulonglong>) => |driver| {
        driver.gpu(device.number())?;
        types.set(SUPPORTED_EVENTS)
    };

    fn nvmlDeviceRegisterEvents(device: DeviceHandle, types: c_ulonglong, set: EventSetHandle) => |driver| {
        let card = driver.gpu(device.number())?;
        let set = driver.event_set(set.number())?;
        if types & !SUPPORTED_EVENTS != 0 {
            return Err(NvmlError::NotSupported);
        }
        let (card, there) = (card.uuid.clone(), card.gpu.xids.clone());
        driver.sets.register(set, &card, types, &there)
    };

    fn nvmlEventSetFree(set: EventSetHandle) => |driver| {
        let set = driver.event_set(set.number())?;
        driver.sets.free(set)
    };
}
