//! What is measured is what was described, also when the description changes.
#![allow(unsafe_code, reason = "what nvml-wrapper does not cover is called as C does it")]

mod common;

use common::{Loaded, SUCCESS};
use gpu_scheduler_nvml_mock::Node;
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, ComputeMode, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor,
};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper_sys::bindings::{
    field_id, nvmlFieldValue_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
};

/// Every value is another, so that none can be taken for its neighbour.
const BUSY: &str = "
gpus:
  - model: H100-SXM5-80GB
    serial: '1234567890123'
    memory: {total: 80000, reserved: 500, used: 10000, bar1-used: 3}
    utilization: {gpu: 91, memory: 42, enc: 13, dec: 14, jpeg: 15, ofa: 16}
    temperature: 67
    memory-temperature: 71
    power: {usage: 512.345, limit: 650.0}
    energy: 123456789012
    clocks: {graphics: 1701, sm: 1702, memory: 2603, video: 1504}
    ecc: {enabled: true, volatile: {corrected: 21, uncorrected: 22}, aggregate: {corrected: 23, uncorrected: 24}}
    remapped-rows: {correctable: 31, uncorrectable: 32, pending: true, failed: false}
    throttle-reasons: [sw-power-cap, hw-thermal-slowdown]
    pci: {replays: 41, tx: 4200, rx: 4300}
    nvlink:
      - {remote: 1, tx: 1000, rx: 2000, replays: 5}
      - {remote: 1, active: false}
      - {count: 2, remote: switch, tx: 10, rx: 20}
    fabric: {state: completed, cluster: 0f0e0d0c-0b0a-0908-0706-050403020100, clique: 7}
    compute-mode: exclusive-process
    persistence: false
    gpm: {1: 77.5, 5: 33.25, 10: 44.125, 20: 1234.0}
    processes:
      - {pid: 101, name: python3, memory: 4096, utilization: {gpu: 60, memory: 20, enc: 2, dec: 3}}
      - {pid: 102, memory: 100, type: graphics}
      - {pid: 103, memory: 2048, type: mps}
      - {pid: 104, memory: 512}
  - model: H100-SXM5-80GB
";

fn link<'a>(gpu: &'a Device<'a>, link: u32) -> nvml_wrapper::nv_link::NvLink<'a, 'a> {
    gpu.link_wrapper_for(link)
}

#[test]
fn memory_engines_and_clocks_are_as_described() {
    let loaded = Loaded::of(BUSY);
    let gpu = loaded.gpu(0);
    assert_eq!(gpu.serial().unwrap(), "1234567890123");

    let memory = gpu.memory_info().unwrap();
    let mib = |bytes: u64| bytes >> 20;
    let found = (mib(memory.total), mib(memory.reserved), mib(memory.used), mib(memory.free));
    assert_eq!(found, (80000, 500, 10000, 69500));
    assert_eq!(mib(gpu.bar1_memory_info().unwrap().used), 3);

    let busy = gpu.utilization_rates().unwrap();
    assert_eq!((busy.gpu, busy.memory), (91, 42));
    assert_eq!(gpu.encoder_utilization().unwrap().utilization, 13);
    assert_eq!(gpu.decoder_utilization().unwrap().utilization, 14);
    for (expected, jpeg) in [(15, true), (16, false)] {
        let (mut percent, mut period) = (0, 0);
        let device = loaded.handle(0);
        let result = match jpeg {
            true => raw!(loaded.nvml, nvmlDeviceGetJpgUtilization(device, &raw mut percent, &raw mut period)),
            false => raw!(loaded.nvml, nvmlDeviceGetOfaUtilization(device, &raw mut percent, &raw mut period)),
        };
        assert_eq!((result, percent), (SUCCESS, expected));
    }

    let clocks = [Clock::Graphics, Clock::SM, Clock::Memory, Clock::Video].map(|clock| gpu.clock_info(clock).unwrap());
    assert_eq!(clocks, [1701, 1702, 2603, 1504]);
    assert_eq!(gpu.max_clock_info(Clock::SM).unwrap(), 1980);
    assert_eq!(gpu.compute_mode().unwrap(), ComputeMode::ExclusiveProcess);
    assert!(!gpu.is_in_persistent_mode().unwrap());
}

#[test]
fn power_heat_and_errors_are_as_described() {
    let loaded = Loaded::of(BUSY);
    let gpu = loaded.gpu(0);
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), 67);
    assert_eq!(gpu.power_usage().unwrap(), 512_345);
    assert_eq!(gpu.enforced_power_limit().unwrap(), 650_000);
    assert_eq!(gpu.total_energy_consumption().unwrap(), 123_456_789_012);
    assert_eq!(gpu.pcie_replay_counter().unwrap(), 41);
    assert_eq!(gpu.pcie_throughput(PcieUtilCounter::Send).unwrap(), 4200);
    assert_eq!(gpu.pcie_throughput(PcieUtilCounter::Receive).unwrap(), 4300);
    let reasons = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
    assert_eq!(gpu.current_throttle_reasons_strict().unwrap(), reasons);

    let errors = [
        (MemoryError::Corrected, EccCounter::Volatile),
        (MemoryError::Uncorrected, EccCounter::Volatile),
        (MemoryError::Corrected, EccCounter::Aggregate),
        (MemoryError::Uncorrected, EccCounter::Aggregate),
    ]
    .map(|(kind, counter)| gpu.total_ecc_errors(kind, counter).unwrap());
    assert_eq!(errors, [21, 22, 23, 24]);

    let mut rows = [0; 4];
    let [correctable, uncorrectable, pending, failed] = &mut rows;
    let device = loaded.handle(0);
    assert_eq!(
        raw!(loaded.nvml, nvmlDeviceGetRemappedRows(device, correctable, uncorrectable, pending, failed)),
        SUCCESS
    );
    assert_eq!(rows, [31, 32, 1, 0]);
    // Cards that replace rows retire no pages.
    assert!(matches!(gpu.are_pages_pending_retired(), Err(NvmlError::NotSupported)));
}

#[test]
fn field_values_are_as_described() {
    let loaded = Loaded::of(BUSY);
    let cases = [
        (field_id::NVML_FI_DEV_MEMORY_TEMP, Some(SampleValue::U32(71))),
        (field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, Some(SampleValue::U64(123_456_789_012))),
        (field_id::NVML_FI_DEV_NVLINK_LINK_COUNT, Some(SampleValue::U32(18))),
        // The wrapper asks with scope 0, which is the first link.
        (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, Some(SampleValue::U64(1000))),
        (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, Some(SampleValue::U64(2000))),
        (field_id::NVML_FI_DEV_REMAPPED_COR, Some(SampleValue::U32(31))),
        (field_id::NVML_FI_DEV_REMAPPED_UNC, Some(SampleValue::U32(32))),
        (field_id::NVML_FI_DEV_REMAPPED_PENDING, Some(SampleValue::U32(1))),
        (field_id::NVML_FI_DEV_REMAPPED_FAILURE, Some(SampleValue::U32(0))),
        (field_id::NVML_FI_DEV_ECC_DBE_AGG_TOTAL, Some(SampleValue::U64(24))),
        (field_id::NVML_FI_DEV_POWER_INSTANT, Some(SampleValue::U32(512_345))),
        (9999, None),
    ];
    let ids: Vec<_> = cases.iter().map(|(id, _)| FieldId(*id)).collect();
    let found = loaded.gpu(0).field_values_for(&ids).unwrap();
    for ((id, expected), sample) in cases.into_iter().zip(found) {
        let found = sample.and_then(|sample| sample.value);
        match expected {
            Some(expected) => assert_eq!(found.unwrap(), expected, "{id}"),
            None => assert!(matches!(found, Err(NvmlError::NotSupported)), "{id}"),
        }
    }
}

#[test]
fn links_are_counted_one_by_one_or_together() {
    let loaded = Loaded::of(BUSY);
    let cases = [(0, Some(1000)), (1, Some(0)), (2, Some(10)), (17, Some(0)), (18, None), (u32::MAX, Some(1020))];
    for (scope, expected) in cases {
        // SAFETY: a structure of numbers.
        let mut asked: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        asked.fieldId = field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX;
        asked.scopeId = scope;
        let device = loaded.handle(0);
        assert_eq!(raw!(loaded.nvml, nvmlDeviceGetFieldValues(device, 1, &raw mut asked)), SUCCESS);
        // SAFETY: any bits are a number.
        let value = unsafe { asked.value.ullVal };
        let found = (asked.nvmlReturn == SUCCESS).then_some(value);
        assert_eq!(found, expected, "{scope}");
    }

    let gpu = loaded.gpu(0);
    let up: Vec<_> = (0..18).map(|index| link(&gpu, index).is_active().unwrap()).collect();
    assert_eq!(up[..5], [true, false, true, true, false]);
    assert!(!up[5..].contains(&true));
    assert_eq!(link(&gpu, 0).remote_pci_info().unwrap().bus_id, loaded.gpu(1).pci_info().unwrap().bus_id);
    let (device, card, switch) = (loaded.handle(0), 0, 2);
    for (index, expected) in [(0, card), (2, switch)] {
        // The wrapper's own method drops the answer.
        let mut kind = u32::MAX;
        assert_eq!(raw!(loaded.nvml, nvmlDeviceGetNvLinkRemoteDeviceType(device, index, &raw mut kind)), SUCCESS);
        assert_eq!(kind, expected, "{index}");
    }
    assert!(matches!(link(&gpu, 1).remote_pci_info(), Err(NvmlError::NotSupported)));
}

#[test]
fn the_fabric_is_told_in_every_edition() {
    let loaded = Loaded::of(BUSY);
    let device = loaded.handle(0);
    let cluster: [u8; 16] = std::array::from_fn(|index| 15 - u8::try_from(index).unwrap());
    // SAFETY: structures of numbers.
    let (mut first, mut second, mut third): (nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
    assert_eq!(raw!(loaded.nvml, nvmlDeviceGetGpuFabricInfo(device, &raw mut first)), SUCCESS);
    assert_eq!((first.clusterUuid, first.cliqueId, first.state), (cluster, 7, 3));

    second.version = size_of::<nvmlGpuFabricInfo_v2_t>() as u32 | 2 << 24;
    assert_eq!(raw!(loaded.nvml, nvmlDeviceGetGpuFabricInfoV(device, (&raw mut second).cast())), SUCCESS);
    assert_eq!((second.clusterUuid, second.cliqueId, second.state), (cluster, 7, 3));

    third.version = size_of::<nvmlGpuFabricInfo_v3_t>() as u32 | 3 << 24;
    assert_eq!(raw!(loaded.nvml, nvmlDeviceGetGpuFabricInfoV(device, &raw mut third)), SUCCESS);
    assert_eq!((third.clusterUuid, third.cliqueId, third.state), (cluster, 7, 3));

    third.version = 1;
    let mismatch = 25;
    assert_eq!(raw!(loaded.nvml, nvmlDeviceGetGpuFabricInfoV(device, &raw mut third)), mismatch);
}

#[test]
fn processes_are_in_the_list_of_their_kind() {
    let loaded = Loaded::of(BUSY);
    let gpu = loaded.gpu(0);
    let pids = |processes: Vec<nvml_wrapper::struct_wrappers::device::ProcessInfo>| -> Vec<_> {
        processes
            .iter()
            .map(|process| {
                assert_eq!((process.gpu_instance_id, process.compute_instance_id), (None, None));
                let UsedGpuMemory::Used(bytes) = process.used_gpu_memory else { panic!("the memory is known") };
                (process.pid, bytes >> 20)
            })
            .collect()
    };
    assert_eq!(pids(gpu.running_compute_processes().unwrap()), [(101, 4096), (104, 512)]);
    assert_eq!(pids(gpu.running_graphics_processes().unwrap()), [(102, 100)]);
    assert_eq!(pids(gpu.mps_running_compute_processes().unwrap()), [(103, 2048)]);
    assert_eq!(loaded.nvml.sys_process_name(101, 64).unwrap(), "python3");

    let samples = gpu.process_utilization_stats(None).unwrap();
    let found: Vec<_> = samples
        .iter()
        .map(|sample| (sample.pid, sample.sm_util, sample.mem_util, sample.enc_util, sample.dec_util))
        .collect();
    assert_eq!(found, [(101, 60, 20, 2, 3)]);
}

#[test]
fn performance_monitors_are_of_hopper_and_later() {
    let loaded = Loaded::of(BUSY);
    let gpu = loaded.gpu(0);
    assert!(gpu.gpm_support().unwrap());
    let (before, after) = (gpu.gpm_sample().unwrap(), gpu.gpm_sample().unwrap());
    let metrics =
        [GpmMetricId::GraphicsUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil, GpmMetricId::SmOccupancy];
    let found = nvml_wrapper::gpm::gpm_metrics_get(&loaded.nvml, &before, &after, &metrics).unwrap();
    let values: Vec<_> = found.into_iter().map(|metric| metric.unwrap().value).collect();
    assert_eq!(values, [77.5, 33.25, 44.125, 0.0]);

    let older = Loaded::of("gpus: {model: A100-SXM4-40GB}");
    assert!(!older.gpu(0).gpm_support().unwrap());
    assert!(matches!(older.gpu(0).gpm_sample(), Err(NvmlError::NotSupported)));
}

#[test]
fn versions_are_as_described() {
    let loaded = Loaded::of("{driver-version: 550.54.15, cuda-version: '12.4', gpus: []}");
    assert_eq!(loaded.nvml.sys_driver_version().unwrap(), "550.54.15");
    assert_eq!(loaded.nvml.sys_cuda_driver_version().unwrap(), 12_040);
    assert_eq!(loaded.nvml.sys_nvml_version().unwrap(), "12.550.54.15");
    assert_eq!(loaded.nvml.device_count().unwrap(), 0);
}

#[test]
fn a_change_is_seen_by_the_next_call() {
    let loaded = Loaded::of("gpus: [{model: T4, temperature: 40}, {model: T4}]");
    let (gpu, second) = (loaded.gpu(0), loaded.gpu(1));
    // All of one length and within one tick of the file system's clock.
    for degrees in 41..60 {
        loaded.write(&format!("gpus: [{{model: T4, temperature: {degrees}}}, {{model: T4}}]"));
        assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), degrees);
    }
    loaded.write("gpus: [{model: T4, temperature: 60}]");
    assert_eq!(loaded.nvml.device_count().unwrap(), 1);
    assert!(matches!(second.uuid(), Err(NvmlError::GpuLost)), "a card that is gone is lost");
    loaded.write("gpus: [{model: T4}, {model: T4, temperature: 61}]");
    assert_eq!(second.temperature(TemperatureSensor::Gpu).unwrap(), 61, "its handle is good again");
}

#[test]
fn what_cannot_be_read_leaves_the_node_as_it_was() {
    let loaded = Loaded::of("gpus: {model: T4, temperature: 40}");
    let gpu = loaded.gpu(0);
    let description = loaded.installation.description();
    for broken in ["gpus: {model: T4, temperature", "gpus: {model: T5}", ""] {
        std::fs::write(&description, broken).unwrap();
        assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), 40, "{broken:?}");
    }
    std::fs::remove_file(&description).unwrap();
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), 40);
    loaded.write("gpus: {model: T4, temperature: 50}");
    assert_eq!(gpu.temperature(TemperatureSensor::Gpu).unwrap(), 50);
}

#[test]
fn single_calls_fail_as_described() {
    let loaded = Loaded::of(
        "
        fail: {nvmlSystemGetDriverVersion: LIB_RM_VERSION_MISMATCH, nvmlDeviceGetSerial: NO_PERMISSION}
        gpus:
          - {model: T4, power: {usage: 20.0}, fail: {nvmlDeviceGetPowerUsage: GPU_IS_LOST, nvmlDeviceGetUUID: UNKNOWN}}
          - {model: T4, power: {usage: 30.0}}",
    );
    let (sick, healthy) = (loaded.gpu(0), loaded.gpu(1));
    assert!(matches!(sick.power_usage(), Err(NvmlError::GpuLost)));
    assert!(matches!(sick.uuid(), Err(NvmlError::Unknown)));
    assert_eq!(sick.memory_info().unwrap().total >> 20, 15360, "other calls go on");
    assert_eq!(healthy.power_usage().unwrap(), 30_000, "other cards go on");
    assert!(matches!(healthy.serial(), Err(NvmlError::NoPermission)), "on the node it is for all cards");
    assert!(matches!(loaded.nvml.sys_driver_version(), Err(NvmlError::LibRmVersionMismatch)));

    loaded.write("gpus: [{model: T4, power: {usage: 20.0}}, {model: T4}]");
    assert_eq!(sick.power_usage().unwrap(), 20_000, "it heals with the description");
}

#[test]
fn a_lost_card_answers_nothing_else() {
    let loaded = Loaded::of("gpus: [{model: T4}, {model: T4}]");
    let gpu = loaded.gpu(0);
    loaded.write("gpus: [{model: T4, lost: true}, {model: T4}]");
    assert_eq!(loaded.nvml.device_count().unwrap(), 2);
    assert!(matches!(gpu.uuid(), Err(NvmlError::GpuLost)));
    assert!(matches!(gpu.memory_info(), Err(NvmlError::GpuLost)));
    assert!(matches!(loaded.nvml.device_by_index(0), Err(NvmlError::GpuLost)));
    assert_eq!(loaded.gpu(1).index().unwrap(), 1);
}

#[test]
fn a_node_whose_driver_is_gone_cannot_be_initialised() {
    let node = Node::parse("{gpus: [], fail: {nvmlInit_v2: DRIVER_NOT_LOADED}}").unwrap();
    let installation = gpu_scheduler_nvml_mock::Installation::new(&node).unwrap();
    let init = || nvml_wrapper::Nvml::builder().lib_path(installation.library().as_os_str()).init();
    assert!(matches!(init(), Err(NvmlError::DriverNotLoaded)));
    installation.write(&Node::parse("gpus: []").unwrap()).unwrap();
    assert_eq!(init().unwrap().device_count().unwrap(), 0);
}

#[test]
fn several_libraries_in_one_process_have_nodes_of_their_own() {
    let one = Loaded::of("{name: one, gpus: {model: T4}}");
    let other = Loaded::of("{name: other, gpus: {count: 2, model: A10}}");
    assert_eq!((one.nvml.device_count().unwrap(), other.nvml.device_count().unwrap()), (1, 2));
    assert_eq!(
        (one.gpu(0).name().unwrap().as_str(), other.gpu(0).name().unwrap().as_str()),
        ("Tesla T4", "NVIDIA A10")
    );
}
