use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{GrantKind, Timestamp};

use super::*;
use crate::checkpoint::{HeldDevice, Holder};
use crate::config::Layer;
use crate::fixtures::written::{pod, started};
use crate::fixtures::{card, linked, node, partitioned};
use crate::inventory::{Card, Inventory};
use crate::resources::{DeviceId, Hold, Resource, SeatRules, offer};

/// A node, its pods and its books.
struct Scene {
    seen: Seen,
    offer: Offer,
    pods: Vec<NodePod>,
    entries: Vec<Entry>,
    policy: AllocationPolicy,
    one_only: bool,
    synced: bool,
}

fn scene(inventory: Inventory, config: &str, pods: &[NodePod]) -> Scene {
    let config = Layer::parse(config).unwrap().0.settle().unwrap().config;
    let offer = offer(&inventory, &config, SeatRules { per_card: 4, by_mps: false }).unwrap();
    Scene {
        seen: Seen { inventory, health: BTreeMap::new() },
        offer,
        pods: pods.to_vec(),
        entries: vec![],
        policy: config.policy,
        one_only: config.sharing.replication().is_some_and(|it| it.one_only),
        synced: true,
    }
}

fn cards(n: u32, pods: &[NodePod]) -> Scene {
    scene(node((0..n).map(card).collect()), "", pods)
}

impl Scene {
    fn view(&self) -> View<'_> {
        View {
            pods: &self.pods,
            synced: self.synced,
            entries: &self.entries,
            offer: &self.offer,
            seen: &self.seen,
            policy: self.policy,
            one_only: self.one_only,
        }
    }

    fn resource(&self, short: &str) -> &Resource {
        self.offer.resources.iter().find(|resource| resource.name.short() == short).expect("it is offered")
    }

    /// Gives these ids to a container, without asking.
    fn given(mut self, pod: &str, container: &str, resource: &str, ids: &str) -> Self {
        let resource = self.resource(resource);
        let (name, hold) = (resource.name.clone(), resource.hold);
        let holder = Holder {
            uid: Some(format!("uid-{pod}").as_str().into()),
            namespace: "default".into(),
            name: pod.into(),
            container: container.into(),
            init: container.starts_with("init"),
        };
        let held = |id: &DeviceId| HeldDevice {
            id: id.clone(),
            card: resource.unit(id).expect("it has it").card.clone(),
            memory: Mib(8192),
        };
        let devices = parse(ids).iter().map(held).collect();
        self.entries.push(Entry { resource: name, hold, devices, holder: Some(holder), at: Timestamp(0) });
        self
    }

    fn sick(mut self, device: &str) -> Self {
        let health = DeviceHealth::Unhealthy { reason: "XID 79".to_owned() };
        self.seen.health.insert(DeviceUuid::parse(device).unwrap(), health);
        self
    }

    /// What is preferred: ids in short, or `wait`.
    fn prefers(&self, resource: &str, available: &str, must: &str, size: usize, patience: Patience) -> String {
        let ask = Ask { resource: self.resource(resource), available: &parse(available), must: &parse(must), size };
        match prefer(&self.view(), &ask, patience) {
            Preference::Ids(ids) => short(ids.iter()),
            Preference::Wait => "wait".to_owned(),
        }
    }

    /// What becomes of a call: `pod/container`, `nobody`, `wait` or `refuse: why`, with the reasons of reports.
    fn decides(&self, resource: &str, ids: &str, patience: Patience) -> String {
        let texts: Vec<String> = parse(ids).iter().map(ToString::to_string).collect();
        match decide(&self.view(), self.resource(resource), &texts, patience) {
            Outcome::Give(give) => {
                let to = give.to.map_or("nobody".to_owned(), |to| format!("{}/{}", to.name, to.container));
                let reasons = give.reports.iter().map(|report| format!(" {}", report.reason())).collect::<String>();
                to + &reasons
            }
            Outcome::Wait => "wait".to_owned(),
            Outcome::Refuse { why, .. } => format!("refuse: {why}"),
        }
    }
}

/// `0 1::3 1/0` are card 0, seat 3 of card 1, and MIG device 0 of card 1.
fn parse(ids: &str) -> Vec<DeviceId> {
    let id = |text: &str| {
        let (device, seat) = text.split_once("::").map_or((text, String::new()), |(d, s)| (d, format!("::{s}")));
        let uuid = match device.split_once('/') {
            Some((card, part)) => format!("MIG-{card}-{part}{seat}"),
            None => format!("GPU-{device}{seat}"),
        };
        DeviceId::parse(&uuid).expect("an id")
    };
    ids.split_whitespace().map(id).collect()
}

fn short<'a>(ids: impl Iterator<Item = &'a DeviceId>) -> String {
    let mut ids: Vec<_> = ids.map(ToString::to_string).collect();
    ids.sort();
    let text = |id: &String| match id.strip_prefix("MIG-") {
        Some(rest) => rest.replacen('-', "/", 1),
        None => id.trim_start_matches("GPU-").to_owned(),
    };
    ids.iter().map(text).collect::<Vec<_>>().join(" ")
}

use Patience::{Left, Over};

#[test]
fn the_recorded_cards_are_preferred() {
    let two = cards(4, &[pod("a = main: gpu*2>3,1")]);
    assert_eq!(two.prefers("gpu", "0 1 2 3", "", 2, Left), "1 3");
    // Another number is another pod, which is not known yet.
    assert_eq!(two.prefers("gpu", "0 1 2 3", "", 1, Left), "wait");
    assert_eq!(two.prefers("gpu", "0 1 2 3", "", 1, Over), "0", "not one that the record keeps");
    assert_eq!(two.prefers("gpu", "0 1 2", "", 2, Over), "0 1", "its card 3 cannot be had, 1 can");
    assert_eq!(cards(2, &[started("a = main: gpu*1>1")]).prefers("gpu", "0", "", 1, Left), "wait", "it has started");
}

#[test]
fn of_several_pods_the_one_bound_first_is_asking() {
    let three = cards(4, &[pod("a = main: gpu*1>2"), pod("b = main: gpu*1>0"), pod("c = main: gpu*2>1,3")]);
    assert_eq!(three.prefers("gpu", "0 1 2 3", "", 1, Left), "2");
    assert_eq!(three.prefers("gpu", "0 1 3", "", 1, Left), "0", "a has what it wants, or cannot get it");
    assert_eq!(three.prefers("gpu", "0 1 2 3", "", 2, Left), "1 3");
    let after = three.given("a", "main", "gpu", "2");
    assert_eq!(after.prefers("gpu", "0 1 2 3", "", 1, Left), "0");
}

#[test]
fn containers_ask_one_after_the_other_and_init_containers_first() {
    let pods = [pod("a = ~init: gpu*2>0,1; main: gpu*1>0; side: gpu*1>1")];
    assert_eq!(cards(4, &pods).prefers("gpu", "0 1 2 3", "", 2, Left), "0 1");
    assert_eq!(cards(4, &pods).decides("gpu", "0 1", Left), "a/init");
    // kubelet gives the others what the init container left, in its own order, and does not ask what is preferred.
    let left = || cards(4, &pods).given("a", "init", "gpu", "0 1");
    assert_eq!(left().decides("gpu", "0", Left), "a/main");
    assert_eq!(left().decides("gpu", "1", Left), "a/main GPUAllocationMismatch");
    assert_eq!(left().given("a", "main", "gpu", "1").decides("gpu", "0", Left), "a/side GPUAllocationMismatch");
    let twice = left().given("a", "main", "gpu", "1").decides("gpu", "1", Over);
    assert!(twice.starts_with("refuse: GPU-1 is held by container main of pod default/a"), "{twice}");
}

#[test]
fn what_must_be_included_is() {
    let grows = [pod("b = main: gpu*3>5,6,7"), pod("a = ~init: gpu*1>0; main: gpu*3>0,1,2")];
    let scene = cards(8, &grows).given("a", "init", "gpu", "0");
    assert_eq!(scene.prefers("gpu", "0 1 2 3 4 5 6 7", "0", 3, Left), "0 1 2", "who left it behind is asking");
    assert_eq!(scene.prefers("gpu", "0 1 2", "0 1 2", 3, Left), "0 1 2");
    assert_eq!(scene.prefers("gpu", "0 1 2", "0 1 2", 2, Left), "0 1", "never more than asked");
    assert_eq!(cards(8, &[]).prefers("gpu", "3 4 5", "5", 2, Over), "4 5");
    assert_eq!(cards(8, &[]).prefers("gpu", "3 4", "", 3, Over), "3 4", "all there is");
}

#[test]
fn seats_are_on_the_recorded_cards_each_on_its_own() {
    let share = [pod("a = main: gpu.shared*2>1=8192,0=8192")];
    let all = "0::0 0::1 0::2 1::0 1::1 1::2 2::0";
    assert_eq!(cards(3, &share).prefers("gpu.shared", all, "", 2, Left), "0::0 1::0");
    assert_eq!(cards(3, &share).prefers("gpu.shared", "0::1 0::2 1::2 2::0", "", 2, Left), "0::1 1::2");
    assert_eq!(cards(3, &share).prefers("gpu.shared", all, "0::2", 2, Left), "0::2 1::0");
    assert_eq!(
        cards(3, &[]).prefers("gpu.shared", "0::0 0::1 1::3", "", 2, Over),
        "0::0 1::3",
        "never two on one card"
    );
    assert_eq!(cards(3, &share).decides("gpu.shared", "0::3 1::1", Left), "a/main", "which seat does not matter");
    assert_eq!(cards(3, &share).decides("gpu.shared", "0::3 0::1", Left), "wait");
    assert_eq!(cards(3, &share).decides("gpu.shared", "0::3 0::1", Over), "a/main GPUAllocationMismatch");
}

#[test]
fn a_pod_without_a_record_gets_what_nobody_holds() {
    let foreign = |others: &[NodePod]| [others, &[pod("f = main: gpu*1")]].concat();
    let scene = cards(4, &foreign(&[started("r = main: gpu*1>0"), pod("q = main: gpu*2>1,2")]));
    assert_eq!(scene.prefers("gpu", "0 1 2 3", "", 1, Left), "3", "and it waits for nobody");
    assert_eq!(scene.decides("gpu", "3", Left), "f/main GPUAllocationUnrecorded");
    assert_eq!(scene.decides("gpu", "1", Left), "wait", "q keeps it");
    let why = scene.decides("gpu", "1", Over);
    assert!(
        why.starts_with("refuse: GPU-1 is kept for container main of pod default/q, which was placed there"),
        "{why}"
    );
    // A record's pod that asks for the same comes first where its cards are exactly those asked for.
    let both = cards(4, &foreign(&[pod("q = main: gpu*1>2")]));
    assert_eq!(both.decides("gpu", "2", Left), "q/main");
    assert_eq!(both.decides("gpu", "3", Left), "f/main GPUAllocationUnrecorded");
    let shares = cards(3, &[pod("f = main: gpu.shared*1"), started("r = main: gpu.shared*1>1=8192")]);
    assert_eq!(shares.prefers("gpu.shared", "0::0 1::1 2::0", "", 1, Left), "1::1", "packed");
}

#[test]
fn a_call_that_nothing_explains_waits_and_is_then_answered() {
    let nobody = || cards(2, &[]);
    assert_eq!(nobody().decides("gpu", "0", Left), "wait");
    assert_eq!(nobody().decides("gpu", "0", Over), "nobody GPUAllocationUnexplained");
    let other = cards(2, &[pod("a = main: gpu*1>1")]);
    assert_eq!(other.decides("gpu", "0", Left), "wait", "another pod may be on its way");
    assert_eq!(other.decides("gpu", "0", Over), "a/main GPUAllocationMismatch");
    let held = cards(2, &[started("r = main: gpu*1>0")]);
    assert_eq!(held.decides("gpu", "0", Left), "wait", "it may have gone");
    // Whoever kubelet forgot gets again what it has.
    assert_eq!(held.decides("gpu", "0", Over), "r/main");
    assert_eq!(held.prefers("gpu", "0 1", "", 1, Over), "0");
    let share = cards(2, &[started("r = main: gpu.shared*1>0=8192")]);
    let why = share.decides("gpu", "0", Over);
    assert_eq!(
        why,
        "refuse: GPU-0 is kept for container main of pod default/r, which was placed there for a share; delete the pod, \
         and it is placed anew"
    );
}

#[test]
fn what_would_overcommit_a_card_is_refused() {
    let full = || cards(1, &[started("r = main: gpu.shared*1>0=60000"), pod("a = main: gpu.shared*1>0=30000")]);
    assert_eq!(full().decides("gpu.shared", "0::1", Left), "wait");
    let why = full().decides("gpu.shared", "0::1", Over);
    let expected =
        "refuse: 30000 MiB do not fit on GPU-0: of 81920 MiB, 60000 MiB are held by container main of pod default/r";
    assert!(why.starts_with(expected), "{why}");
    let fits = cards(1, &[started("r = main: gpu.shared*1>0=50000"), pod("a = main: gpu.shared*1>0=30000")]);
    assert_eq!(fits.decides("gpu.shared", "0::1", Left), "a/main");
    let whole = cards(1, &[started("r = main: gpu*1>0"), pod("a = main: gpu.shared*1>0=1")]);
    assert!(whole.decides("gpu.shared", "0::0", Over).starts_with("refuse: GPU-0 is kept for container main"));
    // Init containers run one after the other and give back what they had.
    let init = cards(
        1,
        &[
            started("r = ~one: gpu.shared*1>0=40000; ~two: gpu.shared*1>0=40000; main: gpu.shared*1>0=10000"),
            pod("a = main: gpu.shared*1>0=40000"),
        ],
    );
    assert_eq!(init.decides("gpu.shared", "0::0", Left), "a/main");
}

/// Four pods with two cards each; one is replaced at once.
#[test]
fn a_replacement_gets_exactly_the_freed_cards() {
    let others = ["b = main: gpu*2>2,3", "c = main: gpu*2>4,5", "d = main: gpu*2>6,7"].map(started);
    let scene =
        cards(8, &[others.to_vec(), vec![pod("e = main: gpu*2>1,0")]].concat()).given("a", "main", "gpu", "0 1");
    assert_eq!(scene.prefers("gpu", "0 1", "", 2, Left), "0 1");
    assert_eq!(scene.decides("gpu", "0 1", Left), "e/main");
}

#[test]
fn a_pod_that_has_gone_holds_nothing() {
    let gone = || cards(1, &[pod("b = main: gpu*1>0")]).given("a", "main", "gpu", "0");
    assert_eq!(gone().decides("gpu", "0", Left), "b/main", "kubelet says so, and no such pod lives");
    let unknown = Scene { synced: false, ..gone() };
    assert_eq!(unknown.decides("gpu", "0", Left), "wait", "the pods are not known yet");
    let seat = cards(1, &[pod("b = main: gpu.shared*1>0=10")]).given("a", "main", "gpu", "0");
    assert_eq!(seat.decides("gpu.shared", "0::0", Left), "wait", "kubelet says nothing of the whole card");
}

#[test]
fn two_that_could_be_asking() {
    let alike = cards(2, &[pod("a = main: gpu.shared*1>0=10"), pod("b = main: gpu.shared*1>0=10")]);
    assert_eq!(alike.decides("gpu.shared", "0::0", Left), "a/main", "they are the same");
    let differ = cards(2, &[pod("a = main: gpu.shared*1>0=10"), pod("b = main: gpu.shared*1>0=20")]);
    assert_eq!(differ.decides("gpu.shared", "0::0", Left), "a/main GPUAllocationAmbiguous");
    let second = differ.given("a", "main", "gpu.shared", "0::0");
    assert_eq!(second.decides("gpu.shared", "0::1", Left), "b/main", "both run");
    let apart = cards(2, &[pod("a = main: gpu*1>0"), pod("b = main: gpu*1>1")]);
    assert_eq!(apart.decides("gpu", "1", Left), "b/main", "the devices say who it is");
}

#[test]
fn what_is_unhealthy_goes_to_its_record_only() {
    let recorded = cards(2, &[pod("a = main: gpu*1>0")]).sick("GPU-0");
    assert_eq!(recorded.decides("gpu", "0", Left), "a/main GPUUnhealthy");
    let foreign = || cards(2, &[pod("f = main: gpu*1")]).sick("GPU-0");
    let why = foreign().decides("gpu", "0", Over);
    assert!(why.starts_with("refuse: GPU-0 is unhealthy (XID 79)"), "{why}");
    assert_eq!(foreign().prefers("gpu", "0 1", "", 1, Left), "1");
}

#[test]
fn slices_and_replicas() {
    let mixed = |pods: &[NodePod]| {
        scene(
            node(vec![card(0), partitioned(1, &["1g.10gb", "1g.10gb", "2g.20gb"])]),
            "flags: {migStrategy: mixed}",
            pods,
        )
    };
    let both = [pod("a = main: mig-1g.10gb*1>1/1 mig-2g.20gb*1>1/2")];
    assert_eq!(mixed(&both).prefers("mig-1g.10gb", "1/0 1/1", "", 1, Left), "1/1");
    assert_eq!(mixed(&both).decides("mig-1g.10gb", "1/1", Left), "a/main");
    assert_eq!(mixed(&both).given("a", "main", "mig-1g.10gb", "1/1").decides("mig-2g.20gb", "1/2", Left), "a/main");
    let held = mixed(&[started("r = main: mig-1g.10gb*1>1/0"), pod("f = main: mig-1g.10gb*1")]);
    assert_eq!(held.prefers("mig-1g.10gb", "1/0 1/1", "", 1, Left), "1/1");
    let slicing = |more: &str, pods: &[NodePod]| {
        let text = format!("sharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: 3}}]{more}}}}}");
        scene(node(vec![card(0), card(1)]), &text, pods)
    };
    let mut seat = pod("a = main: gpu*1>1");
    seat.record.as_mut().unwrap().containers[0].kind = Some(GrantKind::Seat);
    assert_eq!(slicing("", &[seat.clone()]).prefers("gpu", "0::0 1::1 1::2", "", 1, Left), "1::1");
    assert_eq!(slicing("", &[seat.clone()]).decides("gpu", "1::2", Left), "a/main");
    let two = [pod("f = main: gpu*2")];
    assert_eq!(slicing("", &two).prefers("gpu", "0::0 0::1 1::2", "", 2, Left), "0::0 1::2", "on two cards");
    let why = slicing(", failRequestsGreaterThanOne: true", &two).decides("gpu", "0::0 1::2", Left);
    assert!(why.starts_with("refuse: a container may have one nvidia.com/gpu"), "{why}");
    let begun = || slicing("", &[started("r = main: gpu*1"), pod("f = main: gpu*1")]).given("r", "main", "gpu", "0::0");
    assert_eq!(begun().prefers("gpu", "0::1 1::0", "", 1, Left), "1::0", "distributed");
    let packed = Scene { policy: AllocationPolicy::Packed, ..begun() };
    assert_eq!(packed.prefers("gpu", "0::1 1::0", "", 1, Left), "0::1");
}

#[test]
fn what_is_not_there_is_refused() {
    let scene = cards(1, &[]);
    for id in ["GPU-7", "GPU-0::0", "nvidia0", ""] {
        let outcome = decide(&scene.view(), scene.resource("gpu"), &[id.to_owned()], Left);
        let Outcome::Refuse { why, .. } = outcome else { panic!("{id}: {outcome:?}") };
        assert!(why.to_string().starts_with(&format!("nvidia.com/gpu has no device {id} on this node")), "{why}");
    }
}

#[test]
fn a_record_from_before_the_uuid_was_known_names_the_index() {
    let mut early = pod("a = main: gpu*1>1");
    early.record.as_mut().unwrap().containers[0].devices[0].uuid = "n1/gpu-1".to_owned();
    assert_eq!(cards(2, &[early]).prefers("gpu", "0 1", "", 1, Left), "1");
}

#[test]
fn close_cards_are_chosen_and_close_cards_are_left() {
    let set = |cards: &[Card], must: &[usize], n| links::closest(&cards.iter().collect::<Vec<_>>(), must, n);
    let mut pairs: Vec<Card> = (0..4).map(card).collect();
    linked(&mut pairs, 0, 3, 4);
    linked(&mut pairs, 1, 2, 2);
    assert_eq!(set(&pairs, &[], 2), [0, 3], "the most lanes");
    assert_eq!(set(&pairs, &[1], 2), [1, 2]);
    assert_eq!(set(&pairs, &[], 1), [1], "the pair with more lanes stays whole");
    let far: Vec<Card> = (2..6).map(card).collect();
    assert_eq!(set(&far, &[], 2), [0, 1], "one NUMA node");
    let mut switched: Vec<Card> = (0..4).map(card).collect();
    for at in [1, 3] {
        switched[at].links.push(crate::inventory::Link { peer: crate::inventory::LinkPeer::Switch, lanes: 18 });
    }
    assert_eq!(set(&switched, &[], 2), [1, 3], "an NVSwitch joins them");
    assert_eq!(set(&switched, &[], 9), [0, 1, 2, 3]);
    let many: Vec<Card> = (0..20).map(card).collect();
    assert_eq!(set(&many, &[5], 3), [4, 5, 6], "grown by what is close");
}

#[test]
fn what_is_given_has_the_amounts_of_its_record() {
    let scene = cards(2, &[pod("a = main: gpu.shared*2>0=10,1=20")]);
    let ids = ["GPU-1::0".to_owned(), "GPU-0::0".to_owned()];
    let Outcome::Give(give) = decide(&scene.view(), scene.resource("gpu.shared"), &ids, Left) else { panic!("given") };
    assert_eq!(give.devices.iter().map(|it| it.memory.0).collect::<Vec<_>>(), [20, 10]);
    assert_eq!(give.hold, Hold::Share);
    let entry = give.entry(Timestamp(7));
    assert_eq!(entry.devices.iter().map(|it| it.memory.0).collect::<Vec<_>>(), [20, 10]);
}
