//! The library itself: its life, its versions, its errors.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlReturn_enum_NVML_SUCCESS, nvmlReturn_t};

use super::call::{answer, exports};
use super::pointer::{Pointer, text};
use crate::describe::{Function, NvmlError};
use crate::driver::Driver;

#[expect(unsafe_code, reason = "a library in C has its names for itself")]
#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    answer(|| Driver::lock().initialise(Function::exported("nvmlInit_v2")))
}

/// The flags allow a node without cards, which this library always does.
#[expect(unsafe_code, reason = "a library in C has its names for itself")]
#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> nvmlReturn_t {
    answer(|| Driver::lock().initialise(Function::exported("nvmlInitWithFlags")))
}

#[expect(unsafe_code, reason = "a library in C has its names for itself")]
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    if result == nvmlReturn_enum_NVML_SUCCESS {
        return c"Success".as_ptr();
    }
    NvmlError::of(result).unwrap_or(NvmlError::Unknown).text().as_ptr()
}

exports! {
    fn nvmlShutdown() => |driver| {
        driver.shut_down();
        Ok(())
    };

    fn nvmlSystemGetDriverVersion(version: Pointer<c_char>, length: c_uint) => |driver| {
        text(version, length, &driver.machine()?.node.driver_version)
    };

    fn nvmlSystemGetNVMLVersion(version: Pointer<c_char>, length: c_uint) => |driver| {
        let node = &driver.machine()?.node;
        // The library's version is the driver's behind the major version of CUDA.
        text(version, length, &format!("{}.{}", node.cuda_version.major, node.driver_version))
    };

    fn nvmlSystemGetCudaDriverVersion_v2(version: Pointer<c_int>) => |driver| {
        let cuda = driver.machine()?.node.cuda_version;
        let number = cuda.major.saturating_mul(1000).saturating_add(cuda.minor.saturating_mul(10));
        version.set(c_int::try_from(number).map_err(|_| NvmlError::Unknown)?)
    };

    fn nvmlSystemGetProcessName(pid: c_uint, name: Pointer<c_char>, length: c_uint) => |driver| {
        let mut processes = driver.machine()?.cards.iter().flat_map(|card| &card.gpu.processes);
        let found = processes.find_map(|process| process.name.as_deref().filter(|_| process.pid == pid));
        name.check()?;
        let found = found.ok_or(NvmlError::NotFound)?;
        // A name that is too long is cut, not refused.
        let most = found.floor_char_boundary((length as usize).saturating_sub(1));
        text(name, length, &found[..most])
    };
}

/// What of this group can be made to fail, beside [`FUNCTIONS`].
pub(super) const LIFE: &[&str] = &["nvmlInit_v2", "nvmlInitWithFlags"];
