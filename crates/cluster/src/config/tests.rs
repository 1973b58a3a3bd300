use gpu_scheduler_engine::framework::ExtensionPoint;
use gpu_scheduler_engine::{Engine, Policy, plugins};
use proptest::prelude::*;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");
const TRACING: &str = include_str!("../../../../docs/tracing.md");
const HEAD: &str = "apiVersion: gpu-scheduler.io/v1alpha1\nkind: SchedulerConfiguration\n";

fn parse(rest: &str) -> Result<RunConfig, String> {
    RunConfig::parse(&format!("{HEAD}{rest}")).map_err(|problem| problem.to_string())
}

/// The YAML blocks of a document.
fn examples(document: &str) -> Vec<&str> {
    document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn an_empty_file_is_the_engines_default() {
    let config = parse("").unwrap();
    assert_eq!(config, RunConfig::default());
    assert_eq!(format!("{:?}", config.engine_config()), format!("{:?}", Config::default()));
    assert_eq!(config.leader_election.resource_namespace(), "kube-system");
    assert_eq!(config.bind_address.to_string(), "127.0.0.1:10259");
}

#[test]
fn the_documented_examples_are_read() {
    let examples = examples(DOCUMENT);
    assert!(examples.len() >= 2, "{}", examples.len());
    for example in examples.iter().chain(&self::examples(TRACING)) {
        if let Err(problem) = RunConfig::parse(example) {
            panic!("{problem}\n{example}");
        }
    }
    let full = examples[0];
    // The first example shows every field there is.
    let config = RunConfig::parse(full).unwrap();
    let json: serde_json::Value = serde_json::from_str(&config.to_json()).unwrap();
    for field in fields(&json) {
        assert!(full.contains(&format!("{field}:")), "{field} is not in the example");
    }
    let optional = ["tlsCertFile", "tlsPrivateKeyFile", "tracing", "journal"];
    for field in ["seed", "preFilter", "filter", "score", "enabled", "disabled", "weight"].into_iter().chain(optional) {
        assert!(full.contains(&format!("{field}:")), "{field} is not in the example");
    }
}

fn fields(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::Object(map) => {
            map.iter().flat_map(|(key, value)| std::iter::once(key.clone()).chain(fields(value))).collect()
        }
        serde_json::Value::Array(items) => items.iter().flat_map(fields).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_policy_and_plugin_is_documented() {
    let points = [ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::Score];
    let plugins = points.into_iter().flat_map(plugins::names);
    for name in Policy::ALL.map(Policy::name).into_iter().chain(plugins) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn plugins_are_merged_as_kube_scheduler_does() {
    let config = parse(
        "profiles:\n- policy: fgd\n  plugins:\n    score:\n      disabled: [{name: TaintToleration}]\n      \
         enabled: [{name: BestFit, weight: 3}, {name: FGD, weight: 2}, {name: TaintToleration}]\n    filter:\n      \
         disabled: [{name: '*'}]\n      enabled: [{name: NodeName}]\n",
    )
    .unwrap();
    let engine = config.engine_config();
    let profile = &engine.profiles[0].profile;
    // FGD stays in its place with a new weight; what was taken out and put back comes last.
    let scores = [("NodeAffinity", 2), ("FGD", 2), ("BestFit", 3), ("TaintToleration", 3)];
    // Those that look at the whole cluster are asked last.
    let late = [("VolumeBinding", 1), ("PodTopologySpread", 2), ("InterPodAffinity", 2), ("ImageLocality", 1)];
    assert_eq!(profile.plugins(ExtensionPoint::Score), [&scores[..], &late[..]].concat());
    let filters: Vec<_> = profile.plugins(ExtensionPoint::Filter).into_iter().map(|(name, _)| name).collect();
    assert_eq!(filters, ["GpuFit", "NodeName"]);
    // An engine takes it.
    let _ = Engine::new(engine);
}

#[test]
fn every_value_reaches_the_engine() {
    let config = parse(
        "foreignTolerance: 512Mi\nreportLease: 90s\nretryAfter: never\n\
         profiles: [{schedulerName: a, policy: random, seed: 7, preferenceWeight: 20}, {schedulerName: b}]\n",
    )
    .unwrap();
    let engine = config.engine_config();
    assert_eq!(engine.foreign_tolerance.0, 512);
    assert_eq!((engine.report_lease.0, engine.retry_after), (90_000, None));
    let names: Vec<_> = engine.profiles.iter().map(|profile| profile.scheduler.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(engine.profiles[0].profile.preference_weight().0, 20_000);
    assert!(format!("{:?}", engine.profiles[0].profile).contains("seed: 7"));
}

#[test]
fn the_own_namespace_fills_in() {
    let own = || Some("gpu-system".parse().unwrap());
    let config = RunConfig::parse_in(HEAD, own()).unwrap();
    assert_eq!(config.leader_election.resource_namespace(), "gpu-system");
    let text = format!("{HEAD}leaderElection: {{resourceNamespace: other}}\n");
    let config = RunConfig::parse_in(&text, own()).unwrap();
    assert_eq!(config.leader_election.resource_namespace(), "other");
}

#[test]
fn errors_name_the_place_and_the_way_out() {
    for (text, words) in [
        ("bindsInFlihgt: 3\n", &["line 3", "bindsInFlihgt", "did you mean \"bindsInFlight\""][..]),
        ("bindsInFlight: 0\n", &["line 3", "field bindsInFlight", "1 to 1024"]),
        ("bindsInFlight: many\n", &["line 3", "field bindsInFlight", "many", "1 to 1024"]),
        ("bindsInFlight: 1.5\n", &["line 3", "field bindsInFlight", "1 to 1024"]),
        ("leaderElection:\n  leaseDuration: 15\n", &["line 4", "leaderElection.leaseDuration", "15s"]),
        ("leaderElection: {leaseDuration: 10s}\n", &["leaderElection.leaseDuration", "renewDeadline 10s"]),
        ("leaderElection: {renewDeadline: 2s}\n", &["leaderElection.renewDeadline", "retryPeriod 2s"]),
        ("leaderElection: {retryPeriod: 0s}\n", &["leaderElection.retryPeriod", "zero"]),
        ("leaderElection: {resourceName: Gpu}\n", &["leaderElection.resourceName", "lower-case"]),
        ("profiles: []\n", &["field profiles", "empty"]),
        ("profiles:\n- policy: best_fit\n", &["line 4", "profiles[0].policy", "did you mean \"best-fit\""]),
        ("profiles: [{policy: fgd, seed: 1}]\n", &["profiles[0].seed", "policy: random"]),
        ("profiles: [{}, {}]\n", &["profiles[1].schedulerName", "profiles[0]"]),
        ("profiles: [{schedulerName: ''}]\n", &["profiles[0].schedulerName", "without spaces"]),
        ("profiles: [{preferenceWeight: -1}]\n", &["profiles[0].preferenceWeight", "0 to 1000"]),
        (
            "profiles:\n- plugins:\n    score:\n      enabled:\n      - name: FGD\n      - name: BestFti\n",
            &["line 8", "profiles[0].plugins.score.enabled[1].name", "did you mean \"BestFit\"", "GpuPacking"],
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: FGD}]}}}]\n",
            &["profiles[0].plugins.filter.enabled[0].name", "no filter plugin", "NodeResourcesFit"],
        ),
        (
            "profiles: [{plugins: {filter: {disabled: [{name: GpuFit}]}}}]\n",
            &["profiles[0].plugins.filter.disabled[0].name", "cannot be disabled"],
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: FGD}, {name: FGD}]}}}]\n",
            &["profiles[0].plugins.score.enabled[1].name", "twice"],
        ),
        ("profiles: [{plugins: {score: {enabled: [{name: FGD, weight: 0}]}}}]\n", &["weight", "1 to 1000"]),
        ("profiles: [{plugins: {reserve: {}}}]\n", &["plugins", "reserve", "preFilter"]),
        ("foreignTolerance: -1Gi\n", &["field foreignTolerance", "below zero"]),
        ("retryAfter: soon\n", &["field retryAfter", "never"]),
        ("retryAfter: 0s\n", &["field retryAfter", "zero"]),
        ("reportLease: 0s\n", &["field reportLease", "zero"]),
        ("bindAddress: ':10259'\n", &["field bindAddress", "0.0.0.0:10259"]),
        ("tlsCertFile: tls.crt\n", &["field tlsPrivateKeyFile", "missing", "tlsCertFile is there", "HTTPS"]),
        ("tlsPrivateKeyFile: tls.key\n", &["field tlsCertFile", "missing", "tlsPrivateKeyFile is there"]),
        ("tlsCertFile: ''\ntlsPrivateKeyFile: tls.key\n", &["field tlsCertFile", "empty"]),
        ("tracing: {endpoint: 'localhost:4317'}\n", &["field tracing", "samplingRatePerMillion is missing"]),
        ("tracing: {samplingRatePerMillion: 1}\n", &["field tracing", "endpoint is missing"]),
        (
            "tracing: {endpoint: 'https://otel:4317', samplingRatePerMillion: 1}\n",
            &["field tracing.endpoint", "https://otel:4317", "localhost:4317", "without a scheme"],
        ),
        (
            "tracing: {endpoint: 'otel:4317', samplingRatePerMillion: 1000001}\n",
            &["field tracing.samplingRatePerMillion", "0 to 1000000"],
        ),
        ("logging: {format: jsn}\n", &["field logging.format", "jsn", "did you mean \"json\""]),
        ("logging: {level: loud}\n", &["field logging.level", "loud", "debug"]),
        ("journal: {}\n", &["field journal", "directory is missing"]),
        ("journal: {directory: ''}\n", &["field journal.directory", "empty"]),
        ("journal: {directory: j, maxFileSize: 0}\n", &["field journal.maxFileSize", "64Mi"]),
        ("kind: SchedulerConfiguration\n", &["line 3: ", "kind", "twice"]),
        ("profiles: {{\n", &["line"]),
    ] {
        let error = parse(text).unwrap_err();
        for word in words {
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

#[test]
fn a_file_says_what_it_is() {
    for (text, words) in [
        ("", &["apiVersion"][..]),
        ("profiles: []\n", &["apiVersion: gpu-scheduler.io/v1alpha1"]),
        ("apiVersion: gpu-scheduler.io/v1alpha1\n", &["kind: SchedulerConfiguration"]),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
            &["field apiVersion", "gpu-scheduler.io/v1alpha1"],
        ),
    ] {
        let error = RunConfig::parse(text).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}

#[test]
fn a_file_is_named_in_its_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheduler.yaml");
    let error = RunConfig::load(Some(&path)).unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("scheduler.yaml"), "{error}");
    std::fs::write(&path, format!("{HEAD}logging: {{level: loud}}\n")).unwrap();
    let error = RunConfig::load(Some(&path)).unwrap_err().to_string();
    assert!(error.contains("scheduler.yaml, line 3, field logging.level: "), "{error}");
    std::fs::write(&path, HEAD).unwrap();
    assert_eq!(RunConfig::load(Some(&path)).unwrap().profiles, RunConfig::default().profiles);
}

fn plugin_set(point: ExtensionPoint) -> impl Strategy<Value = serde_json::Value> {
    let names = plugins::names(point);
    let disabled: Vec<&str> =
        names.iter().copied().filter(|name| !plugins::is_required(point, name)).chain(["*"]).collect();
    let enabled = proptest::sample::subsequence(names.clone(), 0..=names.len());
    let disabled = proptest::sample::subsequence(disabled.clone(), 0..=disabled.len());
    (enabled, disabled, 1..1000_u32).prop_map(move |(enabled, disabled, weight)| {
        let entry = |name: &&str| match point {
            ExtensionPoint::Score if weight % 2 == 0 => serde_json::json!({"name": name, "weight": weight}),
            _ => serde_json::json!({"name": name}),
        };
        let off: Vec<_> = disabled.iter().map(|name| serde_json::json!({"name": name})).collect();
        serde_json::json!({"enabled": enabled.iter().map(entry).collect::<Vec<_>>(), "disabled": off})
    })
}

prop_compose! {
    fn profile()(
        policy in 0..Policy::ALL.len(),
        seed in any::<Option<u64>>(),
        weight in 0..=1000_u32,
        pre_filter in plugin_set(ExtensionPoint::PreFilter),
        filter in plugin_set(ExtensionPoint::Filter),
        score in plugin_set(ExtensionPoint::Score),
    ) -> serde_json::Value {
        let policy = Policy::ALL[policy];
        let mut profile = serde_json::json!({
            "policy": policy.name(), "preferenceWeight": weight,
            "plugins": {"preFilter": pre_filter, "filter": filter, "score": score},
        });
        if let (Policy::Random { .. }, Some(seed)) = (policy, seed) {
            profile["seed"] = seed.into();
        }
        profile
    }
}

prop_compose! {
    fn document()(
        profiles in proptest::collection::vec(profile(), 1..3),
        elect in any::<bool>(),
        lease in 11..1000_u32,
        millis in 1..1_u64 << 40,
        mib in 0..1_u64 << 30,
        never in any::<bool>(),
        binds in 1..=1024_u32,
        port in any::<u16>(),
        level in 0..5_usize,
        journal in any::<Option<u16>>(),
        tls in any::<bool>(),
        tracing in proptest::option::of(0..=1_000_000_u32),
    ) -> String {
        let mut profiles = profiles;
        for (at, profile) in profiles.iter_mut().enumerate() {
            profile["schedulerName"] = format!("s{at}").into();
        }
        let mut document = serde_json::json!({
            "apiVersion": "gpu-scheduler.io/v1alpha1", "kind": "SchedulerConfiguration",
            "leaderElection": {"leaderElect": elect, "leaseDuration": format!("{lease}s")},
            "profiles": profiles,
            "foreignTolerance": format!("{mib}Mi"), "reportLease": format!("{millis}ms"),
            "retryAfter": if never { "never".to_owned() } else { format!("{millis}ms") },
            "bindsInFlight": binds, "bindAddress": format!("[::1]:{port}"),
            "logging": {"level": (["error", "warn", "info", "debug", "trace"][level])},
        });
        if let Some(n) = journal {
            document["journal"] = serde_json::json!({"directory": format!("/var/{n}: '#"), "maxFiles": n % 9 + 1});
        }
        if tls {
            document["tlsCertFile"] = "/tls/tls.crt".into();
            document["tlsPrivateKeyFile"] = "tls dir/tls.key".into();
        }
        if let Some(rate) = tracing {
            document["tracing"] = serde_json::json!({"endpoint": "[::1]:4317", "samplingRatePerMillion": rate});
        }
        document.to_string()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_out_is_read_as_the_same(document in document()) {
        let config = RunConfig::parse(&document).map_err(|e| TestCaseError::fail(format!("{e}\n{document}")))?;
        prop_assert_eq!(&RunConfig::parse(&config.to_json()).unwrap(), &config);
        prop_assert_eq!(&serde_json::from_str::<RunConfig>(&config.to_json()).unwrap(), &config);
        let yaml = serde_saphyr::to_string(&config).unwrap();
        prop_assert_eq!(&RunConfig::parse(&yaml).map_err(|e| TestCaseError::fail(format!("{e}\n{yaml}")))?, &config);
        let _ = Engine::new(config.engine_config());
    }

    #[test]
    fn no_text_panics(text in "[a-zA-Z0-9:{}\\[\\], \n-]{0,80}") {
        let _ = RunConfig::parse(&format!("{HEAD}{text}"));
    }
}

#[test]
fn the_shipped_configuration_is_read() {
    let shipped = include_str!("../../../../deploy/40-config.yaml");
    let with_https = shipped.replace("#https ", "");
    for (text, https) in [(shipped, false), (&with_https, true)] {
        let map: serde_json::Value = serde_saphyr::from_str(text).expect("YAML");
        let text = map["data"]["config.yaml"].as_str().expect("a file in it");
        let config = RunConfig::parse(text).expect("a configuration");
        assert_eq!(config.bind_address.0.port(), 10259);
        assert_eq!(config.tls_cert_file.is_some(), https);
    }
}
