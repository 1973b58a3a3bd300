//! The library keeps to C's side of the contract, whatever it is given.
#![allow(unsafe_code, reason = "the library is called as C does it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use common::mig::INVALID_ARGUMENT;
use common::{Loaded, SUCCESS};
use gpu_scheduler_nvml_mock::describe::{Function, NvmlError};
use gpu_scheduler_nvml_mock::{Gpu, Installation, Node};
use libloading::Library;
use nvml_wrapper_sys::bindings::{nvmlMemory_v2_t, nvmlProcessInfo_t};

/// What users of NVML need at least: all that the safe wrapper, NVIDIA's device plugin and its exporter call.
const NEEDED: &str = "
    nvmlInit_v2 nvmlInitWithFlags nvmlShutdown nvmlSystemGetDriverVersion nvmlSystemGetNVMLVersion
    nvmlSystemGetCudaDriverVersion_v2 nvmlSystemGetProcessName
    nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByUUID nvmlDeviceGetHandleByPciBusId_v2
    nvmlDeviceGetIndex nvmlDeviceGetUUID nvmlDeviceGetName nvmlDeviceGetMinorNumber nvmlDeviceGetPciInfo_v3
    nvmlDeviceGetSerial nvmlDeviceGetBrand nvmlDeviceGetArchitecture nvmlDeviceGetCudaComputeCapability
    nvmlDeviceGetNumaNodeId
    nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetMemoryInfo nvmlDeviceGetBAR1MemoryInfo nvmlDeviceGetUtilizationRates
    nvmlDeviceGetEncoderUtilization nvmlDeviceGetDecoderUtilization nvmlDeviceGetTemperature nvmlDeviceGetPowerUsage
    nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetTotalEnergyConsumption nvmlDeviceGetClockInfo
    nvmlDeviceGetPcieReplayCounter nvmlDeviceGetPcieThroughput nvmlDeviceGetFieldValues nvmlDeviceGetTotalEccErrors
    nvmlDeviceGetRemappedRows nvmlDeviceGetRetiredPagesPendingStatus nvmlDeviceGetCurrentClocksThrottleReasons
    nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses_v3
    nvmlDeviceGetMPSComputeRunningProcesses_v3 nvmlDeviceGetProcessUtilization
    nvmlDeviceGetComputeMode nvmlDeviceSetComputeMode nvmlDeviceGetPersistenceMode
    nvmlDeviceGetTopologyCommonAncestor nvmlDeviceGetP2PStatus nvmlDeviceGetNvLinkState
    nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlDeviceGetNvLinkRemoteDeviceType nvmlDeviceGetGpuFabricInfo
    nvmlDeviceGetGpuFabricInfoV
    nvmlDeviceGetMigMode nvmlDeviceGetMaxMigDeviceCount nvmlDeviceGetMigDeviceHandleByIndex
    nvmlDeviceIsMigDeviceHandle nvmlDeviceGetDeviceHandleFromMigDeviceHandle nvmlDeviceGetGpuInstanceId
    nvmlDeviceGetComputeInstanceId nvmlDeviceGetAttributes_v2 nvmlDeviceGetGpuInstanceProfileInfo
    nvmlDeviceGetGpuInstanceProfileInfoV nvmlDeviceGetGpuInstancePossiblePlacements_v2
    nvmlDeviceGetGpuInstanceRemainingCapacity nvmlDeviceGetGpuInstances nvmlDeviceGetGpuInstanceById
    nvmlGpuInstanceGetInfo nvmlGpuInstanceGetComputeInstanceProfileInfo nvmlGpuInstanceGetComputeInstances
    nvmlGpuInstanceGetComputeInstanceById nvmlComputeInstanceGetInfo_v2
    nvmlDeviceSetMigMode nvmlDeviceCreateGpuInstance nvmlDeviceCreateGpuInstanceWithPlacement
    nvmlGpuInstanceDestroy nvmlGpuInstanceCreateComputeInstance
    nvmlGpuInstanceCreateComputeInstanceWithPlacement nvmlComputeInstanceDestroy
    nvmlEventSetCreate nvmlDeviceGetSupportedEventTypes nvmlDeviceRegisterEvents nvmlEventSetWait_v2 nvmlEventSetFree
    nvmlGpmQueryDeviceSupport nvmlGpmSampleAlloc nvmlGpmSampleFree nvmlGpmSampleGet nvmlGpmMigSampleGet
    nvmlGpmMetricsGet
";

/// Calls a function with nothing behind its first argument.
fn call(library: &Library, function: Function, first: usize) -> u32 {
    call_with(library, function, first, 0)
}

/// Calls a function with numbers only. On the systems of NVIDIA's drivers these go where pointers would, and what a function
/// does not take it does not see.
fn call_with(library: &Library, function: Function, first: usize, others: usize) -> u32 {
    // SAFETY: the library is ours and takes null for every pointer; what is not null leads to room for any structure.
    unsafe {
        let symbol = library
            .get::<unsafe extern "C" fn(usize, usize, usize, usize, usize) -> u32>(function.name().as_bytes())
            .unwrap();
        symbol(first, others, others, others, others)
    }
}

fn named(name: &str) -> Function {
    Function::named(name).unwrap_or_else(|| panic!("{name} is not exported"))
}

/// All functions but those that begin and end.
fn asking() -> impl Iterator<Item = Function> {
    let life = ["nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown"];
    Function::all().filter(move |function| !life.contains(&function.name()))
}

fn open(installation: &Installation) -> Library {
    // SAFETY: it runs nothing when it is loaded.
    unsafe { Library::new(installation.library()).unwrap() }
}

#[test]
fn every_function_that_users_need_is_there() {
    for name in NEEDED.split_whitespace() {
        named(name);
    }
}

#[test]
fn every_function_knows_its_name_and_refuses_null() {
    let mut node = Node::with(vec![Gpu::of("H100-SXM5-80GB")]);
    let installation = Installation::new(&node).unwrap();
    let library = open(&installation);
    let uninitialized = NvmlError::Uninitialized.code();
    for function in asking() {
        assert_eq!(call(&library, function, 0), uninitialized, "{function} before nvmlInit");
    }
    assert_eq!(call(&library, named("nvmlShutdown"), 0), uninitialized);

    assert_eq!(call(&library, named("nvmlInit_v2"), 0), SUCCESS);
    for function in asking() {
        assert_eq!(call(&library, function, 0), INVALID_ARGUMENT, "{function} of nothing");
    }

    node.fail = asking().map(|function| (function, NvmlError::NotReady)).collect();
    installation.write(&node).unwrap();
    for function in asking() {
        assert_eq!(call(&library, function, 0), NvmlError::NotReady.code(), "{function} is made to fail");
    }
    assert_eq!(call(&library, named("nvmlShutdown"), 0), SUCCESS);
}

#[test]
fn every_function_of_a_card_fails_on_that_card_and_refuses_null() {
    let mut node = Node::with(vec![Gpu::of("H100-SXM5-80GB")]);
    node.gpus[0].mig.enabled = true;
    let loaded = Loaded::new(&node);
    let library = open(&loaded.installation);
    let device = loaded.handle(0).addr();
    let of_a_card = || {
        // These find a card and take none.
        let others = ["nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleBy"];
        let gpm = ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet"];
        asking().map(Function::name).filter(move |name| {
            (name.starts_with("nvmlDevice") && !others.iter().any(|other| name.starts_with(other)))
                || gpm.contains(name)
        })
    };
    assert!(of_a_card().count() > 60);
    for name in of_a_card().filter(|name| *name != "nvmlDeviceSetComputeMode") {
        let answer = call(&library, named(name), device);
        let refused = [NvmlError::InvalidArgument, NvmlError::NotSupported].map(NvmlError::code);
        assert!(refused.contains(&answer), "{name} with null: {answer}");
    }

    node.gpus[0].fail = asking().map(|function| (function, NvmlError::ResetRequired)).collect();
    loaded.installation.write(&node).unwrap();
    let mut room = vec![0_u64; 8192];
    for name in of_a_card() {
        let answer = call_with(&library, named(name), device, room.as_mut_ptr().addr());
        assert_eq!(answer, NvmlError::ResetRequired.code(), "{name}");
    }
}

#[test]
fn errors_have_texts() {
    let installation = Installation::new(&Node::with(Vec::new())).unwrap();
    let library = open(&installation);
    let text = |code| {
        // SAFETY: the symbol is of this type, and its texts are as long as the library is loaded.
        unsafe {
            let symbol = library.get::<unsafe extern "C" fn(u32) -> *const c_char>(b"nvmlErrorString").unwrap();
            CStr::from_ptr(symbol(code)).to_str().unwrap()
        }
    };
    for (code, expected) in
        [(0, "Success"), (3, "Not Supported"), (15, "GPU is lost"), (999, "Unknown Error"), (77, "Unknown Error")]
    {
        assert_eq!(text(code), expected, "{code}");
    }
}

#[test]
fn texts_fit_or_are_refused() {
    let loaded = Loaded::of("gpus: {model: T4, uuid: GPU-01234567}");
    let device = loaded.handle(0);
    for (length, expected) in [(0, 7), (12, 7), (13, SUCCESS), (16, SUCCESS)] {
        let mut buffer = [c_char::MAX; 16];
        let answer = raw!(loaded.nvml, nvmlDeviceGetUUID(device, buffer.as_mut_ptr(), length));
        assert_eq!(answer, expected, "{length}");
        let written = if expected == SUCCESS { 13 } else { 0 };
        assert!(buffer[written..].iter().all(|character| *character == c_char::MAX), "{length}: nothing behind it");
        if expected == SUCCESS {
            // SAFETY: it was filled in.
            assert_eq!(unsafe { CStr::from_ptr(buffer.as_ptr()) }, c"GPU-01234567");
        }
    }
}

#[test]
fn lists_say_how_long_they_are() {
    let loaded = Loaded::of("gpus: {model: T4, processes: [{pid: 1}, {pid: 2}]}");
    let device = loaded.handle(0);
    let none = nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 };
    for (room, expected, pids) in [(0, 7, [0; 3]), (1, 7, [0; 3]), (2, SUCCESS, [1, 2, 0]), (3, SUCCESS, [1, 2, 0])] {
        let (mut infos, mut count) = ([none; 3], room);
        let answer =
            raw!(loaded.nvml, nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, infos.as_mut_ptr()));
        assert_eq!((answer, count, infos.map(|info| info.pid)), (expected, 2, pids), "{room}");
    }
    let mut count = 0;
    let asked = raw!(loaded.nvml, nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, null_mut()));
    assert_eq!((asked, count), (7, 2), "without any room");
}

#[test]
fn structures_of_another_version_are_refused() {
    let loaded = Loaded::of("gpus: {model: T4}");
    let device = loaded.handle(0);
    let right = size_of::<nvmlMemory_v2_t>() as u32 | 2 << 24;
    for (version, expected) in [(right, SUCCESS), (2, 25), (right + 1, 25), (right ^ 1 << 24, 25)] {
        let mut info = nvmlMemory_v2_t { version, total: 0, reserved: 0, free: 0, used: 0 };
        assert_eq!(raw!(loaded.nvml, nvmlDeviceGetMemoryInfo_v2(device, &raw mut info)), expected, "{version:#x}");
    }
}

#[test]
fn handles_that_nobody_gave_out_are_refused() {
    let loaded = Loaded::of("gpus: [{model: T4}, {model: T4}]");
    let good = loaded.handle(1).addr();
    let library = open(&loaded.installation);
    let index = named("nvmlDeviceGetIndex");
    for wrong in [1, 8, good + 1, good + 1024, usize::MAX] {
        assert_eq!(call(&library, index, wrong), INVALID_ARGUMENT, "{wrong:#x}");
    }
    let mut set = null_mut();
    assert_eq!(raw!(loaded.nvml, nvmlEventSetCreate(&raw mut set)), SUCCESS);
    assert_eq!(call(&library, index, set.addr()), INVALID_ARGUMENT, "a handle of another kind");
    assert_eq!(loaded.handle(1).addr(), good, "the same card has always the same handle");
    assert_eq!(raw!(loaded.nvml, nvmlEventSetFree(set)), SUCCESS);
    assert_eq!(raw!(loaded.nvml, nvmlEventSetFree(set)), INVALID_ARGUMENT, "it is gone");
}

#[test]
fn clients_count() {
    let loaded = Loaded::of("gpus: {model: T4}");
    let library = open(&loaded.installation);
    let [init, shutdown] = ["nvmlInit_v2", "nvmlShutdown"].map(named);
    let device = loaded.handle(0);
    let mut minor = 9;
    let mut ask = || raw!(loaded.nvml, nvmlDeviceGetMinorNumber(device, &raw mut minor));
    assert_eq!(call(&library, init, 0), SUCCESS);
    assert_eq!(call(&library, shutdown, 0), SUCCESS);
    assert_eq!(ask(), SUCCESS, "the first client is still there");
    assert_eq!(call(&library, shutdown, 0), SUCCESS);
    assert_eq!(ask(), 1);
    assert_eq!(call(&library, init, 0), SUCCESS);
    assert_eq!(ask(), SUCCESS, "handles outlive it");
}

#[test]
fn many_threads_may_ask_while_the_node_changes() {
    let node = |count| Node::with(vec![Gpu { count, ..Gpu::of("T4") }]);
    let loaded = Loaded::new(&node(1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut asked = 0;
                    while !done.load(Ordering::Relaxed) || asked == 0 {
                        let count = loaded.nvml.device_count().unwrap();
                        assert!((1..=4).contains(&count));
                        assert_eq!(loaded.gpu(0).name().unwrap(), "Tesla T4");
                        asked += 1;
                    }
                })
            })
            .collect();
        for round in 0..40 {
            loaded.installation.write(&node(1 + round % 4)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        asking.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
