use std::collections::BTreeMap;

use super::*;

fn read(text: &str) -> Result<Read, String> {
    let (layer, mut warnings) = Layer::parse(text).map_err(|problem| problem.to_string())?;
    let mut read = layer.settle().map_err(|problem| problem.to_string())?;
    warnings.append(&mut read.warnings);
    Ok(Read { warnings, ..read })
}

fn config(text: &str) -> Config {
    read(text).unwrap_or_else(|problem| panic!("{text}: {problem}")).config
}

#[test]
fn a_full_file_is_read() {
    let text = r#"
version: v1
flags:
  migStrategy: mixed
  failOnInitError: false
  nvidiaDriverRoot: /run/nvidia/driver
  gdsEnabled: true
  useNodeFeatureAPI: false
  deviceDiscoveryStrategy: nvml
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: index
    cdiAnnotationPrefix: cdi.example/
    sharedDevicesAllocationPolicy: packed
  gfd: {oneshot: true, noTimestamp: true, sleepInterval: 1m30s, outputFile: /tmp/gfd}
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {name: nvidia.com/gpu, replicas: 4}
    - {name: mig-1g.5gb, replicas: 2, devices: all}
imex: {channelIDs: [0], required: true}
"#;
    let Read { config, warnings } = read(text).expect("a file");
    assert_eq!(warnings, []);
    assert_eq!(config.mig_strategy, MigStrategy::Mixed);
    assert!(!config.fail_on_init_error && config.pass_device_specs && config.extras.gds && config.gfd.oneshot);
    assert_eq!(config.dev_root, PathBuf::from("/run/nvidia/driver"), "as the driver's root");
    assert_eq!(Vec::from_iter(config.device_list), [DeviceListStrategy::Envvar, DeviceListStrategy::CdiCri]);
    assert_eq!((config.device_id, config.policy), (DeviceIdStrategy::Index, AllocationPolicy::Packed));
    assert_eq!(config.gfd.sleep_interval.to_string(), "1m30s");
    assert_eq!(config.imex, Imex::First { required: true });
    let Sharing::TimeSlicing(replication) = config.sharing else { panic!("time slicing") };
    assert!(replication.rename && !replication.one_only);
    let replicas: Vec<_> = replication.resources.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(replicas, [("nvidia.com/gpu", 4), ("nvidia.com/mig-1g.5gb", 2)]);
}

#[test]
fn nothing_said_is_the_defaults() {
    for text in
        ["", "# nothing\n", "version: v1\n", "{}", "flags:\nsharing: {}\nimex: null\n", "flags: {plugin: , gfd: }"]
    {
        let read = read(text);
        assert_eq!(read, Ok(Read { config: Config::defaults(), warnings: vec![] }), "{text:?}");
    }
}

#[test]
fn what_is_refused() {
    let mps = "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
    for (text, expected) in [
        ("version: v2", "field version: unknown value \"v2\"; known are v1"),
        (
            "flags: {migStrategy: many}",
            "field flags.migStrategy: unknown value \"many\"; known are none, single, mixed",
        ),
        ("flags: {failOnInitError: maybe}", "field flags.failOnInitError: "),
        ("flags: {deviceDiscoveryStrategy: tegra}", "not supported; write auto or nvml"),
        ("flags: {plugin: {deviceListStrategy: nfs}}", "expected one or a list of envvar"),
        ("flags: {plugin: {deviceListStrategy: []}}", "field flags.plugin.deviceListStrategy: the list is empty"),
        ("flags: {gfd: {sleepInterval: 60}}", "field flags.gfd.sleepInterval: "),
        ("flags: {gfd: {sleepInterval: 0s}}", "it is zero; write a duration"),
        ("sharing: {timeSlicing: {resources: []}}", "field sharing.timeSlicing.resources: the list is empty"),
        ("sharing: {timeSlicing: {renameByDefault: true}}", "resources is missing; add it"),
        ("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu}]}}", "replicas is missing; add it"),
        ("sharing: {timeSlicing: {resources: [{replicas: 2}]}}", "name is missing; add it"),
        (
            "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}",
            "field sharing.timeSlicing.resources[0].replicas: 1 is not a number of replicas; write 2 or more",
        ),
        (
            "sharing: {mps: {resources: [{name: example.com/gpu, replicas: 2}]}}",
            "field sharing.mps.resources[0].name: ",
        ),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: 0}]}}",
            "resources[0].devices: 0 is not a count",
        ),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2, devices: some}]}}",
            "\"some\" is not a choice; write all",
        ),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 3}]}}",
            "field sharing.mps.resources[1].name: nvidia.com/gpu stands in the list twice",
        ),
        (
            &format!("{mps}\nflags: {{migStrategy: mixed}}"),
            "field sharing.mps: MPS does not go with migStrategy: mixed",
        ),
        (&format!("{mps}\nflags: {{mpsRoot: ''}}"), "field flags.mpsRoot: it is empty, and sharing.mps needs it"),
        ("imex: {channelIDs: [0, 1]}", "field imex.channelIDs: [0, 1] cannot be had; write [0]"),
        ("- a list", ""),
        ("version: v1\nversion: v1", "version stands here twice"),
    ] {
        let problem = read(text).expect_err(text);
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    let slices = |more: &str| format!("sharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: 2{more}}}]}}}}");
    for (text, field) in [
        ("resources: {gpus: [{pattern: '*', name: gpu}]}".to_owned(), "resources"),
        (slices(", devices: 2"), "sharing.timeSlicing.resources[0].devices"),
        (slices(", devices: ['0', GPU-1]"), "sharing.timeSlicing.resources[0].devices"),
        (slices(", rename: mine"), "sharing.timeSlicing.resources[0].rename"),
        (slices(", replica: 2"), "sharing.timeSlicing.resources[0].replica"),
        ("flags: {plugin: {deviceIdStrategy: uuid}}".to_owned(), "flags.plugin.deviceIdStrategy"),
        ("flag: {}".to_owned(), "flag"),
        (
            "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}, \
             timeSlicing: {resources: [{name: gpu, replicas: 4}]}}"
                .to_owned(),
            "sharing.timeSlicing",
        ),
    ] {
        let warnings = read(&text).unwrap_or_else(|problem| panic!("{text}: {problem}")).warnings;
        let fields: Vec<_> = warnings.iter().map(|warning| warning.field.as_str()).collect();
        assert_eq!(fields, [field], "{text}");
    }
}

#[test]
fn mps_counts_before_time_slicing_and_lets_a_container_have_one() {
    let text =
        "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}, timeSlicing: {resources: [{name: gpu, replicas: 4}]}}";
    let Sharing::Mps(replication) = config(text).sharing else { panic!("MPS") };
    assert!(replication.one_only);
    assert_eq!(Vec::from_iter(replication.resources.into_values()), [2]);
}

#[test]
fn the_command_line_counts_before_the_environment_and_that_before_the_file() {
    let (file, _) =
        Layer::parse("flags: {migStrategy: single, mpsRoot: /file, plugin: {passDeviceSpecs: true}}").unwrap();
    let table = BTreeMap::from([
        ("MIG_STRATEGY", "mixed"),
        ("MPS_ROOT", "/environment"),
        ("DEVICE_LIST_STRATEGY", "envvar,volume-mounts"),
        ("NVIDIA_DRIVER_ROOT", ""),
    ]);
    let environment = from_environment(|name| table.get(name).map(|value| (*value).to_owned())).unwrap();
    let mut command_line = Layer::default();
    command_line.flags.mig_strategy = Some(MigStrategy::None);
    let config = file.overlaid_by(environment).overlaid_by(command_line).settle().unwrap().config;
    assert_eq!(config.mig_strategy, MigStrategy::None);
    assert_eq!(config.mps_root, PathBuf::from("/environment"));
    assert!(config.pass_device_specs, "the file alone speaks of it");
    assert_eq!(config.device_list.len(), 2);
    assert_eq!(config.driver_root, PathBuf::from("/"), "an empty variable says nothing");
}

#[test]
fn variables_that_make_no_sense() {
    for (name, value) in [
        ("MIG_STRATEGY", "some"),
        ("FAIL_ON_INIT_ERROR", "maybe"),
        ("DEVICE_LIST_STRATEGY", "envvar,nfs"),
        ("IMEX_CHANNEL_IDS", "a"),
        ("GFD_SLEEP_INTERVAL", "60"),
    ] {
        let problem = from_environment(|asked| (asked == name).then(|| value.to_owned())).expect_err(name);
        assert_eq!(problem.field, name);
    }
}

#[test]
fn which_file_a_node_takes() {
    use Fallback::{Empty, Named, Single};
    let file = |name: &str| Ok(Choice::File(name.to_owned()));
    type Case<'a> = (Option<&'a str>, Option<&'a str>, &'a [&'a str], &'a [Fallback], Result<Choice, &'a str>);
    let cases: [Case<'_>; 10] = [
        (Some("a"), Some("b"), &["a", "b"], &[], file("a")),
        (None, Some("b"), &["a", "b"], &[], file("b")),
        (Some(""), None, &["a", "default"], &[Named, Single, Empty], file("default")),
        (None, None, &["a"], &[Named, Single, Empty], file("a")),
        (None, None, &["a", "b"], &[Named, Single, Empty], Ok(Choice::Nothing)),
        (None, None, &[], &[Empty], Ok(Choice::Nothing)),
        (None, None, &["a", "default"], &[Empty, Named], Ok(Choice::Nothing)),
        (Some("c"), None, &["a"], &[Empty], Err("the node's label names the configuration \"c\", and there is none")),
        (None, Some("c"), &["a"], &[Empty], Err("the default names the configuration \"c\"")),
        (None, None, &["a", "b"], &[Named, Single], Err("no fallback finds a configuration among a, b")),
    ];
    for (label, default, known, fallbacks, expected) in cases {
        let known: BTreeSet<String> = known.iter().map(|name| (*name).to_owned()).collect();
        let chosen = select(label, default, &known, fallbacks);
        match (&chosen, expected) {
            (Ok(chosen), Ok(expected)) => assert_eq!(*chosen, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (chosen, expected) => panic!("{label:?} {known:?}: {chosen:?}, not {expected:?}"),
        }
    }
}

#[test]
fn a_problem_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, "version: v1\nflags:\n  migStrategy: many\n").unwrap();
    let source = ConfigSource {
        files: ConfigFiles::One(path.clone()),
        environment: Layer::default(),
        command_line: Layer::default(),
    };
    let problem = source.read(None).expect_err("no strategy").to_string();
    assert!(problem.starts_with(&format!("{}, line 3, field flags.migStrategy: ", path.display())), "{problem}");
}

#[tokio::test]
async fn another_label_or_another_text_is_followed() {
    use std::sync::Arc;
    use tokio::sync::watch;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, strategy: &str| {
        // As a ConfigMap's mount does: whole, by renaming.
        let next = folder.path().join("..next");
        std::fs::write(&next, format!("flags: {{migStrategy: {strategy}}}\n")).unwrap();
        std::fs::rename(next, folder.path().join(name)).unwrap();
    };
    write("a", "single");
    write("b", "mixed");
    let source = ConfigSource {
        files: ConfigFiles::Folder { path: folder.path().to_owned(), default: Some("a".to_owned()), fallbacks: vec![] },
        environment: Layer::default(),
        command_line: Layer::default(),
    };
    let (label, labels) = watch::channel(None);
    let (sender, mut configs) = watch::channel(Arc::new(Config::defaults()));
    let following = tokio::spawn(source.follow(labels, sender));
    let mut next = async |expected: MigStrategy| {
        configs.wait_for(|config| config.mig_strategy == expected).await.expect("it is followed");
    };
    next(MigStrategy::Single).await;
    label.send_replace(Some("b".to_owned()));
    next(MigStrategy::Mixed).await;
    label.send_replace(Some("nowhere".to_owned()));
    write("b", "none");
    label.send_replace(Some("b".to_owned()));
    next(MigStrategy::None).await;
    write("b", "single");
    next(MigStrategy::Single).await;
    drop(label);
    following.await.unwrap().expect("it ends with the label");
}
