//! The volume plugins, against the rules and texts of kube-scheduler 1.37.

mod common;

use common::storage::{
    DRIVER, HOSTNAME, ZONE, bound_claim, claim, claim_name, claimed, class, disk, equals, only_on, using, volume,
};
use common::{Run, bound, labelled, node, pod};
use gpu_scheduler_engine::model::{
    AccessMode, BindingMode, ClaimRef, CsiDriver, CsiNode, LabelSelector, Node, Pod, PodVolume, Quantity,
    StorageCapacity, StorageClass, StorageKey, StorageObject, Volume, VolumeAttachment, VolumeClaim, VolumePlan,
};
use gpu_scheduler_engine::{Action, Config, Engine, Event, Outcome, Policy, PreBindStep};

use BindingMode::{Immediate, WaitForFirstConsumer};

const IN_USE: &str =
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
const NO_DISK: &str = "node(s) had no available disk";
const TOO_MANY: &str = "node(s) exceed max volume count";
const UNREACHABLE: &str = "node(s) didn't match PersistentVolume's node affinity";
const NONE_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "node(s) did not have enough free storage";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const WRONG_ZONE: &str = "node(s) had no available volume zone";

fn host(name: &str) -> Node {
    labelled(labelled(node(name), HOSTNAME, name), ZONE, "z0")
}

fn run(nodes: &[&str], storage: impl IntoIterator<Item = StorageObject>) -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes(nodes.iter().map(|n| host(n)));
    tell(&mut run, storage);
    run
}

fn tell(run: &mut Run, storage: impl IntoIterator<Item = StorageObject>) {
    for object in storage {
        run.engine.handle(run.now, Event::StorageApplied(Box::new(object)));
    }
}

fn of_claim(claim: VolumeClaim) -> StorageObject {
    StorageObject::Claim(claim)
}
fn of_volume(volume: Volume) -> StorageObject {
    StorageObject::Volume(volume)
}
fn wait_class() -> StorageObject {
    StorageObject::Class(class("wait", DRIVER, WaitForFirstConsumer))
}
fn static_class() -> StorageObject {
    StorageObject::Class(class("none", "kubernetes.io/no-provisioner", WaitForFirstConsumer))
}
fn csi_node(node: &str, limit: Option<i64>) -> StorageObject {
    let drivers = [(DRIVER.into(), limit)].into();
    StorageObject::CsiNode(CsiNode { name: node.into(), drivers, migrated: [].into() })
}

/// A claim and its volume, bound to each other.
fn pair(name: &str) -> [StorageObject; 2] {
    let volume_name = format!("pv-{name}");
    let claim = bound_claim(claim(name, "wait", 1), &volume_name);
    [of_volume(claimed(volume(&volume_name, "wait", 1), &claim)), of_claim(claim)]
}

/// Places the pod, or says which reasons the nodes give.
fn outcome(run: &mut Run, pod: Pod) -> Result<String, String> {
    let uid = pod.uid.to_string();
    run.pods([pod]).settle();
    run.node_of(&uid).ok_or_else(|| {
        let message = run.message(&uid);
        let (_, reasons) = message.split_once("available: ").unwrap_or(("", &message));
        reasons.trim_end_matches('.').to_owned()
    })
}

fn says(count: u32, reason: &str) -> Result<String, String> {
    Err(format!("{count} {reason}"))
}

fn on(node: &str) -> Result<String, String> {
    Ok(node.to_owned())
}

// ---- VolumeRestrictions ----------------------------------------------------------------------------

#[test]
fn disks_are_shared_for_reading_only() {
    for (first, second, refused) in [(true, true, false), (true, false, true), (false, true, true)] {
        let mut run = run(&["n1"], []);
        let with = |name: &str, disk| Pod { volumes: vec![disk], ..pod(name) };
        run.pods([bound(with("a", disk("d", first)), "n1", None)]);
        let expected = if refused { says(1, NO_DISK) } else { on("n1") };
        assert_eq!(outcome(&mut run, with("b", disk("d", second))), expected, "{first} {second}");
        if refused {
            assert_eq!(run.permanent("b", "n1"), Some(false));
        }
        assert_eq!(outcome(&mut run, with("c", disk("other", false))), on("n1"));
        run.delete("a").settle();
        assert_eq!(run.node_of("b").as_deref(), Some("n1"), "woken by whoever left");
    }
}

#[test]
fn a_claim_for_one_pod_is_used_once_in_the_cluster() {
    let mut objects = pair("c");
    let StorageObject::Claim(claim) = &mut objects[1] else { panic!("a claim") };
    claim.access_modes = [AccessMode::ReadWriteOncePod].into();
    let mut run = run(&["n1", "n2"], objects);
    run.pods([bound(using(pod("a"), &["c"]), "n1", None)]);
    assert_eq!(outcome(&mut run, using(pod("b"), &["c"])), says(2, IN_USE));
    assert_eq!((run.permanent("b", "n1"), run.permanent("b", "n2")), (Some(false), Some(false)));
    // Its user's node is full otherwise: only far away something changes.
    run.delete("a").settle();
    assert!(run.node_of("b").is_some(), "the claim is free");
}

#[test]
fn whoever_uses_a_claim_for_one_pod_can_be_preempted() {
    let mut objects = pair("c");
    let StorageObject::Claim(claim) = &mut objects[1] else { panic!("a claim") };
    claim.access_modes = [AccessMode::ReadWriteOncePod].into();
    let mut run = run(&["n1", "n2"], objects);
    run.pods([bound(using(pod("a"), &["c"]), "n2", None)]);
    run.pods([Pod { priority: 10, ..using(pod("b"), &["c"]) }]);
    let evicted: Vec<_> = run.rest().into_iter().filter(|a| matches!(a, Action::Evict { .. })).collect();
    let [Action::Evict { uid, node, .. }] = evicted.as_slice() else { panic!("{evicted:?}") };
    assert_eq!((uid.to_string().as_str(), &**node), ("a", "n2"));
}

#[test]
fn a_missing_claim_is_waited_for() {
    let mut run = run(&["n1"], []);
    let missing = Err("persistentvolumeclaim \"c\" not found".to_owned());
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), missing);
    tell(&mut run, pair("c"));
    run.settle();
    assert_eq!(run.node_of("a").as_deref(), Some("n1"));
}

// ---- NodeVolumeLimits ------------------------------------------------------------------------------

#[test]
fn a_node_attaches_so_many_volumes() {
    let mut objects: Vec<StorageObject> = ["a", "b", "c"].iter().flat_map(|c| pair(c)).collect();
    objects.push(csi_node("n1", Some(2)));
    let mut run = run(&["n1"], objects);
    run.pods([bound(using(pod("1"), &["a"]), "n1", None)]);
    assert_eq!(outcome(&mut run, using(pod("2"), &["b", "c"])), says(1, TOO_MANY));
    assert_eq!(run.permanent("2", "n1"), Some(false));
    assert_eq!(outcome(&mut run, using(pod("3"), &["a", "b"])), on("n1"), "one of them is there already");
    tell(&mut run, [csi_node("n1", Some(3))]);
    run.settle();
    assert_eq!(run.node_of("2").as_deref(), Some("n1"), "woken by a larger limit");
}

#[test]
fn attachments_count_until_they_are_gone() {
    let attachment = VolumeAttachment {
        name: "at".into(),
        attacher: DRIVER.into(),
        node: "n1".into(),
        volume: Some("pv-gone".into()),
    };
    let mut objects: Vec<StorageObject> = ["a", "gone"].iter().flat_map(|c| pair(c)).collect();
    objects.extend([csi_node("n1", Some(1)), StorageObject::Attachment(attachment)]);
    let mut run = run(&["n1"], objects);
    assert_eq!(outcome(&mut run, using(pod("1"), &["a"])), says(1, TOO_MANY));
    run.engine.handle(run.now, Event::StorageDeleted(StorageKey::Attachment("at".into())));
    run.settle();
    assert_eq!(run.node_of("1").as_deref(), Some("n1"));
}

#[test]
fn a_driver_may_be_needed_on_the_node() {
    let driver = |needed_on_node| {
        StorageObject::CsiDriver(CsiDriver { name: DRIVER.into(), storage_capacity: false, needed_on_node })
    };
    let mut run = run(&["n1"], pair("a").into_iter().chain([driver(true)]));
    let missing = says(1, "disks.example.com CSI driver is not installed on the node");
    assert_eq!(outcome(&mut run, using(pod("1"), &["a"])), missing);
    tell(&mut run, [csi_node("n1", None)]);
    run.settle();
    assert_eq!(run.node_of("1").as_deref(), Some("n1"));
}

// ---- VolumeBinding ---------------------------------------------------------------------------------

#[test]
fn claims_that_no_pod_can_use_yet() {
    let fresh = || claim("c", "wait", 1);
    let cases: [(VolumeClaim, &str); 6] = [
        (claim("c", "now", 1), "pod has unbound immediate PersistentVolumeClaims"),
        (claim("c", "unknown", 1), "pod has unbound immediate PersistentVolumeClaims"),
        (VolumeClaim { volume: Some("v".into()), ..fresh() }, "pod has unbound immediate PersistentVolumeClaims"),
        (VolumeClaim { terminating: true, ..fresh() }, "persistentvolumeclaim \"c\" is being deleted"),
        (
            VolumeClaim { lost: true, volume: Some("v".into()), ..fresh() },
            "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"",
        ),
        (bound_claim(fresh(), "v"), "persistentvolume \"v\" not found"),
    ];
    for (claim, reason) in cases {
        let now = StorageObject::Class(class("now", DRIVER, Immediate));
        let mut run = run(&["n1", "n2"], [wait_class(), now, of_claim(claim)]);
        assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), Err(reason.to_owned()));
        assert_eq!(run.permanent("a", "n1"), Some(true), "{reason}");
    }
}

#[test]
fn ephemeral_volumes_wait_for_their_claims() {
    let mut run = run(&["n1"], [wait_class()]);
    let user = Pod { volumes: vec![PodVolume::Ephemeral("a-scratch".into())], ..pod("a") };
    let waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"a-scratch\"";
    assert_eq!(outcome(&mut run, user), Err(waits.to_owned()));
    tell(&mut run, [of_claim(claim("a-scratch", "wait", 1))]);
    run.settle();
    let other = "PVC default/a-scratch was not created for pod default/a (pod is not owner)";
    assert_eq!(run.message("a"), format!("0/1 nodes are available: {other}."));
    tell(&mut run, [of_claim(VolumeClaim { owner: Some("a".into()), ..claim("a-scratch", "wait", 1) })]);
    run.settle();
    assert_eq!(run.node_of("a").as_deref(), Some("n1"));
}

#[test]
fn bound_volumes_have_to_be_reachable() {
    let claim = bound_claim(claim("c", "wait", 1), "v");
    let reachable = only_on(claimed(volume("v", "wait", 1), &claim), HOSTNAME, "n2");
    let mut run = run(&["n1", "n2"], [of_volume(reachable.clone()), of_claim(claim)]);
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), on("n2"));
    run.engine.handle(run.now, Event::NodeDeleted { name: "n2".into() });
    assert_eq!(outcome(&mut run, using(pod("b"), &["c"])), says(1, UNREACHABLE));
    assert_eq!(run.permanent("b", "n1"), Some(true));
    tell(&mut run, [of_volume(only_on(reachable, HOSTNAME, "n1"))]);
    run.settle();
    assert_eq!(run.node_of("b").as_deref(), Some("n1"));
}

#[test]
fn a_bound_volume_that_is_gone_is_no_reason_of_a_zone() {
    // With VolumeZone out of the way, each node says it.
    let profile = Policy::Spread.profile();
    let out = gpu_scheduler_engine::framework::Disabled::Named("VolumeZone");
    let profile = profile.disabling(gpu_scheduler_engine::framework::ExtensionPoint::Filter, out).expect("it is known");
    let mut run = Run::profile(profile);
    run.nodes([host("n1")]);
    tell(&mut run, [of_claim(bound_claim(claim("c", "wait", 1), "gone"))]);
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), says(1, NO_VOLUME));
}

fn plan_of(run: &mut Run) -> (String, VolumePlan) {
    let prepared = run.rest().into_iter().find_map(|action| match action {
        Action::PreBind { node, step: PreBindStep::BindVolumes(plan), .. } => Some((node.to_string(), plan)),
        _ => None,
    });
    prepared.expect("volumes are to be bound")
}

#[test]
fn the_smallest_volume_that_will_do_is_taken() {
    let wide = AccessMode::ReadWriteMany;
    let labelled = |mut v: Volume| {
        v.labels.insert("kind".into(), "ssd".into());
        v
    };
    let cases: [(&str, VolumeClaim, Vec<Volume>, Option<&str>); 9] = [
        (
            "size",
            claim("c", "none", 2),
            vec![volume("v1", "none", 4), volume("v2", "none", 3), volume("v3", "none", 1)],
            Some("v2"),
        ),
        ("names decide", claim("c", "none", 1), vec![volume("v2", "none", 1), volume("v1", "none", 1)], Some("v1")),
        ("another class", claim("c", "none", 1), vec![volume("v1", "wait", 1)], None),
        (
            "modes",
            VolumeClaim { access_modes: [wide].into(), ..claim("c", "none", 1) },
            vec![volume("v1", "none", 1)],
            None,
        ),
        ("block", VolumeClaim { block: true, ..claim("c", "none", 1) }, vec![volume("v1", "none", 1)], None),
        ("phase", claim("c", "none", 1), vec![Volume { available: false, ..volume("v1", "none", 1) }], None),
        ("going", claim("c", "none", 1), vec![Volume { terminating: true, ..volume("v1", "none", 1) }], None),
        ("reach", claim("c", "none", 1), vec![only_on(volume("v1", "none", 1), HOSTNAME, "n9")], None),
        (
            "selector",
            VolumeClaim {
                selector: Some(LabelSelector { requirements: vec![equals("kind", "ssd")] }),
                ..claim("c", "none", 1)
            },
            vec![volume("v1", "none", 1), labelled(volume("v2", "none", 5))],
            Some("v2"),
        ),
    ];
    for (what, claim, volumes, expected) in cases {
        let mut run =
            run(&["n1"], [static_class(), of_claim(claim)].into_iter().chain(volumes.into_iter().map(of_volume)));
        run.pods([using(pod("a"), &["c"])]);
        match expected {
            Some(expected) => {
                let (_, plan) = plan_of(&mut run);
                assert_eq!(plan.bindings, [(claim_name("c"), expected.into())], "{what}");
            }
            None => {
                run.settle();
                assert!(run.message("a").contains(NONE_TO_BIND), "{what}: {}", run.message("a"));
                assert_eq!(run.permanent("a", "n1"), Some(true), "{what}");
            }
        }
    }
}

#[test]
fn small_claims_choose_first_and_no_volume_twice() {
    let objects = [
        static_class(),
        of_claim(claim("large", "none", 3)),
        of_claim(claim("small", "none", 1)),
        of_volume(volume("v1", "none", 4)),
        of_volume(volume("v2", "none", 5)),
    ];
    let mut run = run(&["n1"], objects);
    run.pods([using(pod("a"), &["large", "small"])]);
    let (_, plan) = plan_of(&mut run);
    assert_eq!(plan.bindings, [(claim_name("small"), "v1".into()), (claim_name("large"), "v2".into())]);
}

#[test]
fn a_volume_kept_for_the_claim_is_the_only_one() {
    let kept = |on: &str| {
        let reference = ClaimRef { name: claim_name("c"), uid: None };
        only_on(Volume { claim: Some(reference), available: false, ..volume("v9", "none", 9) }, HOSTNAME, on)
    };
    for (place, expected) in [("n1", Some("v9")), ("n2", None)] {
        let objects = [
            static_class(),
            of_claim(claim("c", "none", 1)),
            of_volume(volume("v1", "none", 1)),
            of_volume(kept(place)),
        ];
        let mut run = run(&["n1"], objects);
        run.pods([using(pod("a"), &["c"])]);
        match expected {
            Some(name) => assert_eq!(plan_of(&mut run).1.bindings, [(claim_name("c"), name.into())]),
            None => assert!(run.settle().is_empty() && run.message("a").contains(NONE_TO_BIND)),
        }
    }
}

#[test]
fn volumes_are_made_where_the_class_allows() {
    let zoned = |zone: &str| {
        let allowed_topologies = vec![LabelSelector { requirements: vec![equals(ZONE, zone)] }];
        StorageObject::Class(StorageClass { allowed_topologies, ..class("wait", DRIVER, WaitForFirstConsumer) })
    };
    let mut run = run(&["n1"], [zoned("z1"), of_claim(claim("c", "wait", 1))]);
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), says(1, NONE_TO_BIND));
    tell(&mut run, [zoned("z0")]);
    let (node, plan) = plan_of(&mut run);
    assert_eq!((node.as_str(), plan.provisions), ("n1", vec![claim_name("c")]));
}

#[test]
fn a_selected_node_pins_the_claim() {
    let selected = VolumeClaim { selected_node: Some("n2".into()), ..claim("c", "wait", 1) };
    let mut run = run(&["n1", "n2"], [wait_class(), of_claim(selected), of_volume(volume("v", "wait", 1))]);
    run.pods([using(pod("a"), &["c"])]);
    let (node, plan) = plan_of(&mut run);
    assert_eq!((node.as_str(), plan.provisions, plan.bindings), ("n2", vec![claim_name("c")], Vec::new()));
    let mut run = self::run(
        &["n1"],
        [wait_class(), of_claim(VolumeClaim { selected_node: Some("n2".into()), ..claim("c", "wait", 1) })],
    );
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), says(1, NONE_TO_BIND));
}

fn capacity(name: &str, topology: &str, gib: i64) -> StorageObject {
    StorageObject::Capacity(StorageCapacity {
        namespace: "default".into(),
        name: name.into(),
        class: "wait".into(),
        topology: Some(LabelSelector { requirements: vec![equals(HOSTNAME, topology)] }),
        capacity: Some(Quantity::units(gib << 30)),
        largest_volume: None,
    })
}

fn tracking() -> StorageObject {
    StorageObject::CsiDriver(CsiDriver { name: DRIVER.into(), storage_capacity: true, needed_on_node: false })
}

#[test]
fn volumes_are_made_where_there_is_space() {
    let mut run = run(&["n1"], [wait_class(), tracking(), of_claim(claim("c", "wait", 5)), capacity("x", "n1", 4)]);
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), says(1, NO_SPACE));
    assert_eq!(run.permanent("a", "n1"), Some(true));
    tell(&mut run, [capacity("x", "n1", 5)]);
    assert_eq!(plan_of(&mut run).0, "n1");
}

#[test]
fn where_most_space_is_left_is_best() {
    let objects = [
        wait_class(),
        tracking(),
        of_claim(claim("c", "wait", 5)),
        capacity("x", "n1", 10),
        capacity("y", "n2", 50),
        StorageObject::Claim(claim("later", "now", 1)),
    ];
    let mut run = run(&["n1", "n2"], objects);
    // A gate keeps it waiting, so that its scores can be read.
    run.pods([Pod { gates: vec!["wait".into()], ..using(pod("a"), &["c"]) }]);
    assert_eq!((run.score("a", "n1", "VolumeBinding"), run.score("a", "n2", "VolumeBinding")), (Some(50), Some(90)));
    run.pods([using(pod("a"), &["c"])]);
    assert_eq!(plan_of(&mut run).0, "n2");
}

#[test]
fn what_is_planned_counts_for_the_next_pod_and_is_given_back() {
    let objects = [
        static_class(),
        of_claim(claim("c1", "none", 1)),
        of_claim(claim("c2", "none", 1)),
        of_volume(volume("v", "none", 1)),
    ];
    let mut run = run(&["n1"], objects);
    run.pods([using(pod("a"), &["c1"]), using(pod("b"), &["c2"])]);
    let actions = run.rest();
    let tickets: Vec<_> = actions
        .iter()
        .filter_map(|a| match a {
            Action::PreBind { ticket, uid, .. } => Some((*ticket, uid.to_string())),
            _ => None,
        })
        .collect();
    let [(ticket, uid)] = tickets.as_slice() else { panic!("only one gets the volume: {actions:?}") };
    assert_eq!((uid.as_str(), run.node_of("b")), ("a", None));
    // It fails, and backs off: now the other one has it.
    run.answer(*ticket, Outcome::Failed("no".into()));
    let bound: Vec<_> = run.settle().into_iter().map(|(uid, _)| uid).collect();
    assert_eq!(bound, ["b"]);
}

#[test]
fn what_is_planned_outlives_a_snapshot_and_ends_when_it_is_seen() {
    let config = || Config::with_policy(Policy::Spread);
    let objects = [static_class(), of_claim(claim("c", "none", 1)), of_volume(volume("v", "none", 1))];
    let mut run = run(&["n1"], objects);
    run.pods([using(pod("a"), &["c"])]).settle();
    let plan = |engine: &Engine| engine.state().pod_of(&"a".into()).expect("known").plan.is_some();
    assert!(plan(&run.engine), "bound, but the volume does not say so yet");
    let text = serde_json::to_string(&run.engine.snapshot()).expect("JSON");
    let mut engine = Engine::restore(config(), serde_json::from_str(&text).expect("its own")).expect("the same");
    assert!(plan(&engine));
    let done = bound_claim(claim("c", "none", 1), "v");
    let seen = claimed(volume("v", "none", 1), &done);
    engine.handle(run.now, Event::StorageApplied(Box::new(of_volume(seen))));
    assert!(!plan(&engine));
}

// ---- VolumeZone ------------------------------------------------------------------------------------

#[test]
fn volumes_stay_in_their_zones() {
    let beta = "failure-domain.beta.kubernetes.io/zone";
    for (key, value, nodes_key, expected) in [
        (ZONE, "z0", ZONE, true),
        (ZONE, "z1__z0", ZONE, true),
        (ZONE, "z1", ZONE, false),
        (beta, "z0", ZONE, true),
        (beta, "z1", ZONE, false),
        (beta, "z0", beta, true),
        (ZONE, "z0", beta, false),
        // One with an empty part means nothing.
        (ZONE, "z1__", ZONE, true),
    ] {
        let claim = bound_claim(claim("c", "wait", 1), "v");
        let mut volume = claimed(volume("v", "wait", 1), &claim);
        volume.labels.insert(key.into(), value.into());
        let mut run = Run::policy(Policy::Spread);
        run.nodes([labelled(node("n1"), nodes_key, "z0")]);
        tell(&mut run, [of_volume(volume), of_claim(claim)]);
        let expected = if expected { on("n1") } else { says(1, WRONG_ZONE) };
        assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), expected, "{key}={value} on {nodes_key}");
    }
}

#[test]
fn nodes_without_zones_take_all_volumes() {
    let claim = bound_claim(claim("c", "wait", 1), "v");
    let mut volume = claimed(volume("v", "wait", 1), &claim);
    volume.labels.insert(ZONE.into(), "z7".into());
    let mut run = Run::policy(Policy::Spread);
    run.nodes([node("n1")]);
    tell(&mut run, [of_volume(volume), of_claim(claim)]);
    assert_eq!(outcome(&mut run, using(pod("a"), &["c"])), on("n1"));
}
