//! Cards are divided by the rules of their model, and stay so.
#![allow(unsafe_code, reason = "nvml-wrapper reads MIG and does not write it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::process::Command;
use std::ptr::null_mut;

use common::mig::{Divided, IN_USE, INSUFFICIENT_RESOURCES, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED};
use common::{Loaded, SUCCESS};
use gpu_scheduler_nvml_mock::mig::{self, Profile};
use gpu_scheduler_nvml_mock::{Gpu, Node, models};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlComputeInstanceProfileInfo_t,
    nvmlComputeInstanceProfileInfo_v2_t, nvmlGpuInstance_t, nvmlGpuInstanceProfileInfo_v2_t,
    nvmlGpuInstanceProfileInfo_v3_t,
};

const A100_40: &str = "gpus: {model: A100-SXM4-40GB, mig: {enabled: true}}";

/// Ids of the profiles of an A100: what instances are created by.
const ONE: u32 = 19;
const ONE_MEDIA: u32 = 20;
const TWO: u32 = 14;
const THREE: u32 = 9;
const FOUR: u32 = 5;
const SEVEN: u32 = 0;

type Layout = Vec<(&'static Profile, u32)>;

/// Every way to fill a card so that nothing more fits, worked out without the library's own rules.
fn maximal_layouts(profiles: &[&'static Profile]) -> Vec<Layout> {
    fn units(profile: &Profile, start: u32) -> u32 {
        ((1 << profile.size) - 1) << start
    }
    fn fits(layout: &Layout, (profile, start): (&'static Profile, u32)) -> bool {
        let taken = layout.iter().fold(0, |taken, (profile, start)| taken | units(profile, *start));
        let same = layout.iter().filter(|(other, _)| other.id == profile.id).count() as u32;
        taken & units(profile, start) == 0 && same < profile.instances
    }
    fn extend(places: &[(&'static Profile, u32)], from: usize, layout: &mut Layout, all: &mut Vec<Layout>) {
        if !places.iter().any(|place| fits(layout, *place)) {
            all.push(layout.clone());
        }
        for (index, place) in places.iter().enumerate().skip(from) {
            if fits(layout, *place) {
                layout.push(*place);
                extend(places, index + 1, layout, all);
                layout.pop();
            }
        }
    }
    let places: Vec<_> =
        profiles.iter().flat_map(|profile| profile.starts.iter().map(|start| (*profile, *start))).collect();
    let mut all = Vec::new();
    extend(&places, 0, &mut Vec::new(), &mut all);
    all
}

/// The profiles without those that differ in their engines alone.
fn plain(table: &'static mig::Table) -> Vec<&'static Profile> {
    table.profiles.iter().filter(|profile| profile.name.ends_with("gb")).collect()
}

#[test]
fn an_a100_has_as_many_maximal_layouts_as_are_published() {
    let plain = plain(mig::table("A100-40GB").unwrap());
    assert_eq!(maximal_layouts(&plain).len(), 78);
    let base: Vec<_> = plain.into_iter().filter(|profile| profile.name != "1g.10gb").collect();
    assert_eq!(maximal_layouts(&base).len(), 19);
}

/// A card of a table's model, in the mode.
fn divisible(table: &mig::Table) -> Loaded {
    let model = models::all().iter().find(|model| model.mig.is_some_and(|mig| mig.name == table.name)).unwrap();
    let mut gpu = Gpu::of(&model.model);
    gpu.mig.enabled = true;
    Loaded::new(&Node::with(vec![gpu]))
}

/// Fills a card in each of these ways. From one to the next only what differs is made anew.
fn fill(card: &Divided<'_>, table: &mig::Table, layouts: impl Iterator<Item = Layout>) {
    let mut made: Vec<((u32, u32), nvmlGpuInstance_t)> = Vec::new();
    for layout in layouts {
        let layout: Vec<_> = layout.iter().map(|(profile, start)| (profile.id, *start)).collect();
        let same = made.iter().zip(&layout).take_while(|((there, _), wanted)| there == *wanted).count();
        made.drain(same..).for_each(|(_, instance)| card.destroy(instance).unwrap());
        for place in &layout[same..] {
            made.push((*place, card.create(place.0, Some(place.1)).unwrap()));
        }
        for profile in &table.profiles {
            assert_eq!(card.remaining(profile.id), Ok(0), "{} {}", table.name, profile.name);
        }
    }
}

#[test]
fn every_model_has_its_profiles_and_is_filled_in_every_way() {
    for table in mig::tables() {
        let loaded = divisible(table);
        let card = Divided::of(&loaded, 0);
        for profile in &table.profiles {
            let info = card.profile(profile.number).unwrap();
            assert_eq!((info.id, info.sliceCount, info.instanceCount), (profile.id, profile.slices, profile.instances));
            assert_eq!((info.memorySizeMB, info.multiprocessorCount), (profile.memory.0, profile.multiprocessors));
            let expected: Vec<_> = profile.starts.iter().map(|start| (*start, profile.size)).collect();
            assert_eq!(card.placements(profile.id), expected, "{} {}", table.name, profile.name);
        }
        let layouts = maximal_layouts(&plain(table));
        assert!(layouts.len() > 1, "{}", table.name);
        fill(&card, table, layouts.into_iter());
    }
}

#[test]
fn the_rules_allow_every_layout_of_every_model() {
    for table in mig::tables() {
        let all: Vec<_> = table.profiles.iter().collect();
        for layout in maximal_layouts(&all) {
            let mut instances = mig::Instances::default();
            for (profile, start) in &layout {
                instances.create(profile, Some(*start)).unwrap();
            }
            let ids: BTreeSet<_> = instances.iter().map(|instance| instance.id).collect();
            assert_eq!(ids.len(), layout.len(), "{}: each has an id of its own", table.name);
            for profile in &table.profiles {
                assert_eq!(instances.remaining(profile), 0, "{} {}", table.name, profile.name);
            }
        }
        for profile in &table.profiles {
            let mut instances = mig::Instances::default();
            (0..profile.instances).for_each(|_| assert!(instances.create(profile, None).is_ok()));
            assert_eq!(instances.create(profile, None), Err(mig::Refusal::NoRoom), "{} {}", table.name, profile.name);
        }
    }
}

#[test]
fn the_usual_layouts_of_an_a100_need_no_placement() {
    let cases: [(&[u32], &[&str]); 5] = [
        (&[ONE; 7], &["1g.5gb"; 7]),
        (&[TWO; 3], &["2g.10gb"; 3]),
        (&[THREE, TWO], &["3g.20gb", "2g.10gb"]),
        (&[FOUR, TWO, ONE], &["4g.20gb", "2g.10gb", "1g.5gb"]),
        (&[SEVEN], &["7g.40gb"]),
    ];
    for (profiles, names) in cases {
        let loaded = Loaded::of(A100_40);
        let card = Divided::of(&loaded, 0);
        for profile in profiles {
            let instance = card.create(*profile, None).unwrap();
            let table = mig::table("A100-40GB").unwrap();
            let whole = table.by_id(*profile).unwrap().compute_profiles().last().unwrap();
            card.cut(instance, whole.id).unwrap();
        }
        let found: Vec<_> = card.devices().into_iter().map(|(name, _)| name).collect();
        let expected: Vec<_> = names.iter().map(|name| format!("NVIDIA A100-SXM4-40GB MIG {name}")).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let loaded = Loaded::of(A100_40);
    let card = Divided::of(&loaded, 0);
    card.create(THREE, Some(0)).unwrap();
    let cases = [
        ("it overlaps", FOUR, Some(0), INSUFFICIENT_RESOURCES),
        ("it overlaps", ONE, Some(3), INSUFFICIENT_RESOURCES),
        ("it overlaps wherever it is", FOUR, None, INSUFFICIENT_RESOURCES),
        ("it begins elsewhere", TWO, Some(5), INVALID_ARGUMENT),
        ("it begins elsewhere", ONE, Some(7), INVALID_ARGUMENT),
        ("1 is a number, not an id", 1, None, INVALID_ARGUMENT),
        ("nothing has this id", 77, None, INVALID_ARGUMENT),
    ];
    for (why, profile, start, error) in cases {
        assert_eq!(card.create(profile, start), Err(error), "{why}: {profile} at {start:?}");
    }
    card.create(ONE_MEDIA, None).unwrap();
    assert_eq!(card.create(ONE_MEDIA, None), Err(INSUFFICIENT_RESOURCES), "one of it is all there is");
    assert_eq!(card.remaining(ONE_MEDIA), Ok(0));
    assert_eq!(card.remaining(ONE), Ok(2));
    assert!(card.create(ONE, None).is_ok());
}

#[test]
fn the_number_of_a_profile_is_not_its_id() {
    let loaded = Loaded::of(A100_40);
    let card = Divided::of(&loaded, 0);
    let ids = (0..18).map(|number| card.profile(number).map(|info| info.id));
    let expected = [
        Ok(ONE),
        Ok(TWO),
        Ok(THREE),
        Ok(FOUR),
        Ok(SEVEN),
        Err(NOT_SUPPORTED),
        Err(NOT_SUPPORTED),
        Ok(ONE_MEDIA),
        Err(NOT_SUPPORTED),
        Ok(15),
    ];
    assert!(ids.eq(expected.into_iter().chain([Err(NOT_SUPPORTED); 8])));
    assert_eq!(card.profile(18).map(drop), Err(INVALID_ARGUMENT));
}

#[test]
fn profiles_have_names_in_their_later_editions() {
    let loaded = Loaded::of(A100_40);
    let device = loaded.handle(0);
    let name = |characters: &[std::ffi::c_char]| -> String {
        characters.iter().take_while(|character| **character != 0).map(|character| *character as u8 as char).collect()
    };
    // SAFETY: structures of numbers.
    let (mut second, mut third): (nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    second.version = size_of::<nvmlGpuInstanceProfileInfo_v2_t>() as u32 | 2 << 24;
    third.version = size_of::<nvmlGpuInstanceProfileInfo_v3_t>() as u32 | 3 << 24;
    let nvml = &loaded.nvml;
    assert_eq!(raw!(nvml, nvmlDeviceGetGpuInstanceProfileInfoV(device, 7, &raw mut second)), SUCCESS);
    assert_eq!(raw!(nvml, nvmlDeviceGetGpuInstanceProfileInfoV(device, 9, (&raw mut third).cast())), SUCCESS);
    assert_eq!((second.id, second.ofaCount, name(&second.name).as_str()), (20, 1, "MIG 1g.5gb+me"));
    assert_eq!((third.id, third.memorySizeMB, name(&third.name).as_str()), (15, 9856, "MIG 1g.10gb"));
    second.version = 2;
    assert_eq!(raw!(nvml, nvmlDeviceGetGpuInstanceProfileInfoV(device, 7, &raw mut second)), 25);
}

#[test]
fn a_gpu_instance_is_cut_into_compute_instances() {
    let loaded = Loaded::of(A100_40);
    let (nvml, card) = (&loaded.nvml, Divided::of(&loaded, 0));
    let instance = card.create(THREE, Some(4)).unwrap();
    let info = card.info(instance).unwrap();
    assert_eq!((info.id, info.profileId, info.placement.start, info.placement.size), (1, THREE, 4, 4));
    assert_eq!(info.device, card.device);
    assert!(card.devices().is_empty(), "a GPU instance alone is no device");

    let capacity = |profile| {
        let mut count = 99;
        let result = raw!(nvml, nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, profile, &raw mut count));
        assert_eq!(result, SUCCESS);
        count
    };
    assert_eq!([0, 1, 2].map(capacity), [3, 1, 1]);
    let one = nvmlComputeInstancePlacement_t { start: 2, size: 1 };
    let mut first = null_mut();
    let made =
        raw!(nvml, nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, 0, &raw const one, &raw mut first));
    assert_eq!(made, SUCCESS);
    assert_eq!([0, 1, 2].map(capacity), [2, 1, 0]);
    let second = card.cut(instance, 1).unwrap();
    assert_eq!(card.cut(instance, 0), Err(INSUFFICIENT_RESOURCES));
    assert_eq!(card.cut(instance, 3), Err(INVALID_ARGUMENT), "four of three slices");

    // SAFETY: structures of numbers and handles.
    let (mut found, mut profile): (nvmlComputeInstanceInfo_t, nvmlComputeInstanceProfileInfo_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    assert_eq!(raw!(nvml, nvmlComputeInstanceGetInfo_v2(second, &raw mut found)), SUCCESS);
    assert_eq!((found.id, found.profileId, found.placement.start, found.placement.size), (1, 1, 0, 2));
    assert_eq!((found.device, found.gpuInstance), (card.device, instance));
    let asked = raw!(nvml, nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 1, 0, &raw mut profile));
    assert_eq!((asked, profile.id, profile.instanceCount, profile.multiprocessorCount), (SUCCESS, 1, 1, 28));

    let mut same = null_mut();
    assert_eq!(raw!(nvml, nvmlGpuInstanceGetComputeInstanceById(instance, 1, &raw mut same)), SUCCESS);
    assert_eq!(same, second);
    let names: Vec<_> = card.devices().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb"]);

    assert_eq!(card.destroy(instance), Err(IN_USE));
    card.destroy_compute(first).unwrap();
    assert_eq!(card.destroy_compute(first), Err(INVALID_ARGUMENT), "it is gone");
    assert_eq!(card.cut(instance, 0).map(drop), Ok(()));
    let mut again = null_mut();
    assert_eq!(raw!(nvml, nvmlGpuInstanceGetComputeInstanceById(instance, 0, &raw mut again)), SUCCESS);
    assert_eq!(again, first, "the lowest id that is free");
}

#[test]
fn a_mig_device_tells_of_itself_and_of_its_card() {
    let loaded = Loaded::of(
        "
        gpus:
          - {model: A100-SXM4-40GB}
          - model: A100-SXM4-40GB
            mig:
              enabled: true
              instances: [{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 6, used: 321}]
            processes: [{pid: 5, memory: 700, gpu-instance: 2}, {pid: 6, memory: 9, gpu-instance: 9}]",
    );
    let gpu = loaded.gpu(1);
    assert_eq!(gpu.mig_device_count().unwrap(), 7);
    assert_eq!(loaded.gpu(0).mig_device_count().unwrap(), 0, "out of the mode there can be none");
    let [half, slice] = [0, 1].map(|index| gpu.mig_device_by_index(index).unwrap());
    assert!(matches!(gpu.mig_device_by_index(2), Err(NvmlError::NotFound)));
    assert!(half.mig_is_mig_device_handle().unwrap() && !gpu.mig_is_mig_device_handle().unwrap());
    assert_eq!(half.mig_parent_device().unwrap().uuid().unwrap(), gpu.uuid().unwrap());
    assert_eq!(slice.index().unwrap(), 1);
    assert!(half.uuid().unwrap().starts_with("MIG-"));
    let by_uuid = loaded.nvml.device_by_uuid(half.uuid().unwrap()).unwrap();
    assert_eq!(by_uuid.name().unwrap(), half.name().unwrap());

    let memory = |device: &nvml_wrapper::Device<'_>| {
        let memory = device.memory_info().unwrap();
        (memory.total >> 20, memory.used >> 20)
    };
    assert_eq!(memory(&half), (19968, 700), "what its processes hold");
    assert_eq!(memory(&slice), (4864, 321), "what is described");
    let attributes = half.attributes().unwrap();
    assert_eq!((attributes.multiprocessor_count, attributes.memory_size_mb), (42, 19968));
    assert_eq!((attributes.gpu_instance_slice_count, attributes.compute_instance_slice_count), (3, 3));
    assert_eq!((attributes.shared_copy_engine_count, attributes.shared_decoder_count), (3, 2));

    let pids = |device: &nvml_wrapper::Device<'_>| -> Vec<_> {
        let processes = device.running_compute_processes().unwrap();
        processes.iter().map(|each| (each.pid, each.gpu_instance_id, each.compute_instance_id)).collect()
    };
    assert_eq!(pids(&half), [(5, Some(2), Some(0))]);
    assert_eq!(pids(&slice), [(6, Some(9), Some(0))]);
    assert_eq!(pids(&gpu), [(5, Some(2), Some(0)), (6, Some(9), Some(0))]);

    for device in [&half, &gpu] {
        assert!(matches!(device.utilization_rates(), Err(NvmlError::NotSupported)), "nobody counts it in the mode");
    }
    assert!(matches!(half.power_usage(), Err(NvmlError::NotSupported)));
    assert!(gpu.power_usage().is_ok());
    let ids: Vec<_> = [&half, &slice]
        .map(|device| {
            let (mut instance, mut compute) = (99, 99);
            // SAFETY: the library outlives the handle.
            let handle = unsafe { device.handle() };
            assert_eq!(raw!(loaded.nvml, nvmlDeviceGetGpuInstanceId(handle, &raw mut instance)), SUCCESS);
            assert_eq!(raw!(loaded.nvml, nvmlDeviceGetComputeInstanceId(handle, &raw mut compute)), SUCCESS);
            (instance, compute)
        })
        .into();
    assert_eq!(ids, [(2, 0), (9, 0)]);
}

#[test]
fn what_somebody_uses_stays() {
    let busy = |processes: &str| {
        format!(
            "gpus: [{{model: A30, mig: {{enabled: true, instances: [{{profile: 2g.12gb, start: 0}}]}}, processes: [{processes}]}},
                    {{model: A30, processes: [{processes}]}}]"
        )
    };
    let loaded = Loaded::of(&busy("{pid: 7, memory: 10, gpu-instance: 2}"));
    let (divided, whole) = (Divided::of(&loaded, 0), Divided::of(&loaded, 1));
    let instance = divided.by_id(2).unwrap();
    let mut compute = null_mut();
    assert_eq!(raw!(loaded.nvml, nvmlGpuInstanceGetComputeInstanceById(instance, 0, &raw mut compute)), SUCCESS);
    assert_eq!(divided.destroy_compute(compute), Err(IN_USE));
    assert_eq!(whole.set_mode(1), (SUCCESS, IN_USE), "the answer is that it is pending");
    assert_eq!(whole.mode(), (0, 1));
    assert_eq!(whole.create(5, None), Err(NOT_SUPPORTED), "it is not in the mode yet");

    loaded.write(&busy(""));
    assert_eq!(divided.set_mode(0), (SUCCESS, IN_USE), "there are instances");
    assert_eq!(divided.set_mode(1), (SUCCESS, SUCCESS));
    divided.destroy_compute(compute).unwrap();
    divided.destroy(instance).unwrap();
    assert_eq!(divided.by_id(2), Err(NOT_FOUND));
    assert_eq!(divided.info(instance).map(drop), Err(INVALID_ARGUMENT));
    assert_eq!(divided.set_mode(0), (SUCCESS, SUCCESS));
    assert_eq!(divided.mode(), (0, 0));
    assert_eq!(whole.set_mode(1), (SUCCESS, SUCCESS));
    assert_eq!(whole.mode(), (1, 1));
    assert_eq!(whole.set_mode(2).0, INVALID_ARGUMENT);

    let without = Loaded::of("gpus: {model: T4}");
    assert_eq!(Divided::of(&without, 0).set_mode(1).0, NOT_SUPPORTED);
    assert!(matches!(without.gpu(0).mig_mode(), Err(NvmlError::NotSupported)));
}

/// Set for the process that looks at what the first one left.
const DESCRIPTION: &str = "NVML_MOCK_NODE";

#[test]
fn what_was_changed_outlives_the_process_and_not_the_reboot() {
    let loaded = Loaded::of("gpus: [{model: A100-SXM4-40GB}, {model: A100-SXM4-40GB}]");
    let card = Divided::of(&loaded, 0);
    assert_eq!(card.set_mode(1), (SUCCESS, SUCCESS));
    let instance = card.create(TWO, Some(2)).unwrap();
    card.cut(instance, 1).unwrap();
    let (device, prohibited) = (loaded.handle(1), 2);
    assert_eq!(raw!(loaded.nvml, nvmlDeviceSetComputeMode(device, prohibited)), SUCCESS);
    let [(name, uuid)] = <[_; 1]>::try_from(card.devices()).unwrap();
    assert_eq!(name, "NVIDIA A100-SXM4-40GB MIG 2g.10gb");

    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_second_process", "--ignored", "--nocapture"])
        .env(DESCRIPTION, loaded.installation.description())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains(&format!("found {uuid} Prohibited\n")), "{printed}");
    assert!(card.devices().is_empty(), "what the second process destroyed is gone for the first");
    assert_eq!(card.remaining(ONE), Ok(7));

    loaded.installation.reboot().unwrap();
    assert_eq!(card.mode(), (0, 0));
    assert_eq!(loaded.gpu(1).compute_mode().unwrap(), nvml_wrapper::enum_wrappers::device::ComputeMode::Default);
}

#[test]
#[ignore = "only with a description that another test names"]
fn a_second_process() {
    let library = gpu_scheduler_nvml_mock::library().unwrap();
    let nvml = nvml_wrapper::Nvml::builder().lib_path(library.as_os_str()).init().unwrap();
    let device = nvml.device_by_index(0).unwrap().mig_device_by_index(0).unwrap();
    let mode = nvml.device_by_index(1).unwrap().compute_mode().unwrap();
    println!("found {} {mode:?}", device.uuid().unwrap());

    // SAFETY: the library outlives the handle.
    let gpu = unsafe { nvml.device_by_index(0).unwrap().handle() };
    let (mut instance, mut compute) = (null_mut(), null_mut());
    assert_eq!(raw!(nvml, nvmlDeviceGetGpuInstanceById(gpu, 6, &raw mut instance)), SUCCESS);
    assert_eq!(raw!(nvml, nvmlGpuInstanceGetComputeInstanceById(instance, 0, &raw mut compute)), SUCCESS);
    assert_eq!(raw!(nvml, nvmlComputeInstanceDestroy(compute)), SUCCESS);
    assert_eq!(raw!(nvml, nvmlGpuInstanceDestroy(instance)), SUCCESS);
}

#[test]
fn a_device_that_is_made_again_is_the_same() {
    let loaded = Loaded::of(A100_40);
    let card = Divided::of(&loaded, 0);
    let make = |start| {
        let instance = card.create(ONE, Some(start)).unwrap();
        let compute = card.cut(instance, 0).unwrap();
        let uuid = card.devices()[0].1.clone();
        card.destroy_compute(compute).unwrap();
        card.destroy(instance).unwrap();
        uuid
    };
    assert_eq!(make(3), make(3));
    assert_ne!(make(3), make(4));
}

#[test]
fn instances_are_listed_by_profile() {
    let loaded = Loaded::of(A100_40);
    let (nvml, card) = (&loaded.nvml, Divided::of(&loaded, 0));
    let made = [card.create(ONE, Some(6)), card.create(ONE, Some(0)), card.create(TWO, Some(2))].map(Result::unwrap);
    let list = |profile| {
        let (mut room, mut count) = ([null_mut(); 7], 99);
        let device = card.device;
        let result = raw!(nvml, nvmlDeviceGetGpuInstances(device, profile, room.as_mut_ptr(), &raw mut count));
        assert_eq!(result, SUCCESS);
        room[..count as usize].to_vec()
    };
    assert_eq!(list(ONE), [made[0], made[1]]);
    assert_eq!(list(TWO), [made[2]]);
    assert!(list(FOUR).is_empty());
}

#[test]
fn compute_profiles_have_names_in_their_later_editions() {
    let loaded = Loaded::of(A100_40);
    let card = Divided::of(&loaded, 0);
    let instance = card.create(THREE, None).unwrap();
    // SAFETY: a structure of numbers.
    let mut info: nvmlComputeInstanceProfileInfo_v2_t = unsafe { std::mem::zeroed() };
    info.version = size_of::<nvmlComputeInstanceProfileInfo_v2_t>() as u32 | 2 << 24;
    for (number, expected) in [(0, c"MIG 1c.3g.20gb"), (2, c"MIG 3g.20gb")] {
        let answer =
            raw!(loaded.nvml, nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, number, 0, &raw mut info));
        // SAFETY: the field ends with a zero.
        let name = unsafe { CStr::from_ptr(info.name.as_ptr()) };
        assert_eq!((answer, info.id, name), (SUCCESS, number, expected));
    }
    let shared_only = raw!(loaded.nvml, nvmlGpuInstanceGetComputeInstanceProfileInfoV(instance, 0, 1, &raw mut info));
    assert_eq!(shared_only, INVALID_ARGUMENT);
}

#[test]
fn performance_monitors_know_the_instances() {
    let loaded = Loaded::of(
        "
        gpus:
          model: H100-SXM5-80GB
          gpm: {2: 50.0}
          mig: {enabled: true, instances: [{profile: 3g.40gb, start: 0, gpm: {2: 80.0}}, {profile: 1g.10gb, start: 4}]}",
    );
    let gpu = loaded.gpu(0);
    for (instance, expected) in [(2, 80.0), (7, 50.0)] {
        let samples = [(); 2].map(|()| gpu.gpm_mig_sample(instance).unwrap());
        let metrics =
            nvml_wrapper::gpm::gpm_metrics_get(&loaded.nvml, &samples[0], &samples[1], &[GpmMetricId::SmUtil]).unwrap();
        let values: Vec<_> = metrics.into_iter().map(|metric| metric.unwrap().value).collect();
        assert_eq!(values, [expected], "{instance}");
    }
    assert!(matches!(gpu.gpm_mig_sample(1), Err(NvmlError::InvalidArg)));
}
