use gpu_scheduler_engine::model::Ticket;
use gpu_scheduler_engine::{Config, PodPhase};
use serde_json::{Value, json};

use super::*;

mod reports;
mod volumes;

/// A driver, its time, and all that it asked for.
struct Bed {
    driver: Driver,
    now: Timestamp,
}

fn seen<T: serde::de::DeserializeOwned + Named>(object: Value) -> Seen<T> {
    match serde_json::from_value(object.clone()) {
        Ok(object) => Seen::Object(Box::new(object)),
        Err(error) => {
            let metadata = serde_json::from_value(object["metadata"].clone()).expect("metadata");
            Seen::Broken { metadata: Box::new(metadata), error: error.to_string() }
        }
    }
}

fn node(name: &str, cards: u32) -> Seen<objects::Node> {
    let amounts = json!({"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": cards.to_string()});
    let labels = json!({"nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.product": "A100"});
    seen(json!({"metadata": {"name": name, "uid": name, "labels": labels},
                "status": {"capacity": amounts, "allocatable": amounts}}))
}

fn pod_json(name: &str, memory: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "d", "uid": format!("uid-{name}")},
           "spec": {"schedulerName": "gpu-scheduler",
                    "containers": [{"name": "c", "resources": {"limits": {"gpu-scheduler/memory": memory}}}]}})
}

fn pod(name: &str, memory: &str) -> Seen<objects::Pod> {
    seen(pod_json(name, memory))
}

fn bound(name: &str, memory: &str, node: &str, record: Option<&str>) -> Seen<objects::Pod> {
    let mut pod = pod_json(name, memory);
    pod["spec"]["nodeName"] = json!(node);
    if let Some(record) = record {
        pod["metadata"]["annotations"] = json!({ (crate::allocation::ANNOTATION): record });
    }
    seen(pod)
}

impl Bed {
    /// A cluster of these nodes and pods, seen in full.
    fn new(nodes: Vec<Seen<objects::Node>>, pods: Vec<Seen<objects::Pod>>) -> Self {
        let driver = Driver::new(Recorded::new(Engine::new(Config::default()), None), Limits::default());
        let mut bed = Self { driver, now: Timestamp(1_000_000) };
        bed.list(Input::Nodes, nodes);
        bed.list(Input::Reports, Vec::new());
        bed.nothing_around();
        bed.list(Input::Pods, pods);
        bed
    }

    /// Nothing exists of the kinds that only say something about pods and nodes.
    fn nothing_around(&mut self) {
        use Around::*;
        for around in [
            Namespaces(Change::Absent),
            Services(Change::Absent),
            ReplicationControllers(Change::Absent),
            ReplicaSets(Change::Absent),
            StatefulSets(Change::Absent),
            DisruptionBudgets(Change::Absent),
            PodGroups(Change::Absent),
            Claims(Change::Absent),
            Volumes(Change::Absent),
            StorageClasses(Change::Absent),
            CsiNodes(Change::Absent),
            CsiDrivers(Change::Absent),
            Capacities(Change::Absent),
            Attachments(Change::Absent),
        ] {
            self.take(Input::Around(around));
        }
    }

    fn list<T>(&mut self, wrap: fn(Change<T>) -> Input, objects: Vec<Seen<T>>) {
        self.take(wrap(Change::Restarted));
        for object in objects {
            self.take(wrap(Change::Listed(object)));
        }
        self.take(wrap(Change::Synced));
    }

    fn take(&mut self, input: Input) {
        self.driver.handle(self.now, input);
    }

    fn apply(&mut self, pod: Seen<objects::Pod>) {
        self.take(Input::Pods(Change::Applied(pod)));
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + gpu_scheduler_engine::model::Millis(millis);
    }

    /// Everything that it asks for until it rests.
    fn effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..10_000 {
            match self.driver.poll(self.now) {
                Turn::Do(effect) => effects.push(effect),
                Turn::Busy => {}
                Turn::Rest => return effects,
            }
        }
        panic!("it does not come to rest: {effects:?}");
    }

    /// Its one effect, a bind.
    fn bind(&mut self) -> BindOrder {
        match self.effects().as_slice() {
            [Effect::Bind(order)] => order.clone(),
            other => panic!("expected one bind, got {other:?}"),
        }
    }

    fn answer(&mut self, ticket: Ticket, answer: BindAnswer) {
        self.take(Input::BindAnswered { ticket, answer });
    }

    fn read(&mut self, ticket: Ticket, answer: ReadAnswer) {
        self.take(Input::ReadBack { ticket, answer });
    }

    fn is_bound(&self, name: &str) -> bool {
        let uid = PodUid::from(format!("uid-{name}").as_str());
        matches!(self.driver.engine().explain(&uid).map(|e| e.phase), Some(PodPhase::Placed { bound: true, .. }))
    }
}

#[test]
fn nothing_is_decided_before_everything_was_seen() {
    let mut bed = Bed {
        driver: Driver::new(Recorded::new(Engine::new(Config::default()), None), Limits::default()),
        now: Timestamp(1),
    };
    bed.list(Input::Pods, vec![pod("a", "8Gi")]);
    bed.list(Input::Nodes, vec![node("n1", 1)]);
    assert_eq!(bed.effects(), []);
    assert_eq!(bed.driver.next_wakeup(), None);
    // A server that does not know the reports' kind has none.
    bed.take(Input::Reports(Change::Absent));
    assert_eq!(bed.effects(), []);
    bed.nothing_around();
    assert_eq!(bed.bind().pod.to_string(), "d/a");
}

#[test]
fn node_and_record_are_one_order() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "8Gi")]);
    let order = bed.bind();
    assert_eq!((&*order.node, &*order.uid.0), ("n1", "uid-a"));
    let record: Value = serde_json::from_str(order.record.as_deref().expect("a record")).expect("JSON");
    assert_eq!(record["containers"][0]["devices"][0]["uuid"], "n1/gpu-0");
    bed.answer(order.ticket, BindAnswer::Done);
    let [Effect::Announce(told)] = &bed.effects()[..] else { panic!("it is told once") };
    assert_eq!((told.attempts, told.profile.as_str()), (1, "gpu-scheduler"));
    assert!(bed.is_bound("a"));
}

#[test]
fn a_lost_answer_is_read_back_and_never_guessed() {
    let unknown = || BindAnswer::Unknown("504".into());
    let refused = || BindAnswer::Refused("already assigned".into());
    // Answers in turn, and whether the pod is bound at the end.
    for (reads, bound) in [
        (vec![ReadAnswer::On("n1".into())], true),
        (vec![ReadAnswer::Unknown("503".into()), ReadAnswer::On("n1".into())], true),
        (vec![ReadAnswer::On("n2".into())], false),
        (vec![ReadAnswer::Gone], false),
        // Nowhere: the same bind again, refused because the first one came through after all.
        (vec![ReadAnswer::Unbound, ReadAnswer::On("n1".into())], true),
    ] {
        let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "80Gi"), pod("b", "80Gi")]);
        let order = bed.effects().into_iter().find_map(|e| if let Effect::Bind(o) = e { Some(o) } else { None });
        let order = order.expect("a bind");
        bed.answer(order.ticket, unknown());
        for read in &reads {
            let effects = bed.effects();
            let asks = effects.iter().any(|e| matches!(e, Effect::ReadBack(o) if *o == order));
            assert!(asks, "{reads:?}: {effects:?}");
            bed.read(order.ticket, read.clone());
            let resting = bed.effects();
            assert!(!resting.iter().any(|e| matches!(e, Effect::Bind(o) if o.uid != order.uid)) || !bound);
            bed.pass(5_000);
            if *read == ReadAnswer::Unbound {
                assert_eq!(bed.effects(), [Effect::Bind(order.clone())], "the same order, to the letter");
                bed.answer(order.ticket, refused());
            }
        }
        assert_eq!(bed.is_bound("a"), bound, "{reads:?}");
        assert_eq!(bed.driver.binds_in_flight(), usize::from(!bound), "{reads:?}: b has its turn if a is out");
    }
}

#[test]
fn a_refused_bind_is_told_and_tried_again_later() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "8Gi")]);
    let order = bed.bind();
    bed.answer(order.ticket, BindAnswer::Refused("node is gone".into()));
    let effects = bed.effects();
    let [Effect::Say { condition, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((condition.reason.to_string().as_str(), &*condition.message), ("SchedulerError", "node is gone"));
    bed.pass(999);
    assert_eq!(bed.effects(), []);
    bed.pass(1);
    assert_ne!(bed.bind().ticket, order.ticket);
}

#[test]
fn a_new_list_sweeps_what_it_does_not_name() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "80Gi")]);
    let order = bed.bind();
    bed.answer(order.ticket, BindAnswer::Done);
    bed.effects();
    bed.apply(pod("b", "80Gi"));
    assert!(matches!(&bed.effects()[..], [Effect::Say { .. }]), "no room");
    // A list that breaks off says nothing.
    bed.take(Input::Pods(Change::Restarted));
    bed.take(Input::Pods(Change::Restarted));
    bed.take(Input::Pods(Change::Listed(pod("b", "80Gi"))));
    assert_eq!(bed.effects(), []);
    bed.take(Input::Pods(Change::Synced));
    assert_eq!(bed.bind().pod.to_string(), "d/b", "a went away while nobody watched");
    // The same for nodes.
    bed.list(Input::Nodes, vec![node("n2", 1)]);
    assert!(bed.driver.engine().state().node_named("n1").is_none_or(|n| n.facts().is_none()));
}

#[test]
fn an_object_that_comes_during_a_list_is_not_swept() {
    let mut bed = Bed::new(vec![node("n1", 1)], Vec::new());
    bed.take(Input::Pods(Change::Restarted));
    bed.apply(pod("a", "8Gi"));
    bed.take(Input::Pods(Change::Synced));
    assert_eq!(bed.bind().pod.to_string(), "d/a");
}

#[test]
fn a_broken_object_is_told_of_once_and_what_was_known_of_it_stays() {
    let mut bed = Bed::new(vec![node("n1", 1)], Vec::new());
    let broken = || {
        let mut pod = pod_json("a", "8Gi");
        pod["spec"]["containers"] = json!("none");
        seen::<objects::Pod>(pod)
    };
    bed.apply(bound("a", "80Gi", "n1", None));
    bed.effects();
    bed.apply(broken());
    let effects = bed.effects();
    let [Effect::Problem(problem)] = &effects[..] else { panic!("{effects:?}") };
    assert!(problem.to_string().starts_with("Pod d/a: it cannot be read and was skipped"), "{problem}");
    bed.apply(broken());
    assert_eq!(bed.effects(), [], "once");
    assert!(bed.is_bound("a"));
    // A list of a broken object is a list of it.
    bed.list(Input::Pods, vec![broken()]);
    assert!(bed.is_bound("a"));
    bed.apply(bound("a", "80Gi", "n1", None));
    bed.apply(broken());
    assert!(matches!(&bed.effects()[..], [Effect::Problem(_)]), "it was in order in between");
}

#[test]
fn binds_in_flight_are_bounded_and_a_drain_starts_none() {
    let pods = || (0..5).map(|i| pod(&format!("p{i}"), "1Gi")).collect();
    let mut bed = Bed::new(vec![node("n1", 8)], Vec::new());
    bed.driver.limits.binds_in_flight = 2;
    bed.list(Input::Pods, pods());
    let first: Vec<_> = bed.effects();
    assert_eq!(first.len(), 2);
    let Effect::Bind(order) = &first[0] else { panic!("{first:?}") };
    bed.answer(order.ticket, BindAnswer::Done);
    assert!(matches!(&bed.effects()[..], [Effect::Announce(_), Effect::Bind(_)]), "one out, one in");
    bed.driver.drain();
    let Effect::Bind(order) = &first[1] else { panic!("{first:?}") };
    bed.answer(order.ticket, BindAnswer::Done);
    assert!(matches!(&bed.effects()[..], [Effect::Announce(_)]));
    assert_eq!(bed.driver.binds_in_flight(), 1);
}

#[test]
fn what_a_pod_says_already_is_not_written_again() {
    let waiting = |message: &str| {
        let mut pod = pod_json("a", "100Gi");
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        pod["status"] = json!({"conditions": [condition]});
        seen::<objects::Pod>(pod)
    };
    let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "100Gi")]);
    let [Effect::Say { condition, .. }] = &bed.effects()[..] else { panic!("it says why") };
    assert!(!condition.again);
    // A restart: the same text stands there.
    let mut bed = Bed::new(vec![node("n1", 1)], vec![waiting(&condition.message)]);
    assert_eq!(bed.effects(), []);
    let mut bed = Bed::new(vec![node("n1", 1)], vec![waiting("something else")]);
    let [Effect::Say { condition, .. }] = &bed.effects()[..] else { panic!("it says why") };
    assert!(condition.again, "it waited before");
}

#[test]
fn a_deposed_leaders_late_bind_is_evicted_if_the_card_is_taken() {
    for (memory, evicted) in [("80Gi", true), ("8Gi", false)] {
        let mut bed = Bed::new(vec![node("n1", 1)], Vec::new());
        bed.apply(pod("a", memory));
        let order = bed.bind();
        let record = order.record.clone().expect("a record");
        bed.apply(pod("late", memory));
        bed.answer(order.ticket, BindAnswer::Done);
        let on_its_way = bed.effects().into_iter().find_map(|e| if let Effect::Bind(o) = e { Some(o) } else { None });
        if let Some(order) = on_its_way {
            bed.answer(order.ticket, BindAnswer::Refused("already assigned".into()));
        }
        bed.apply(bound("late", memory, "n1", Some(&record)));
        let effects = bed.effects();
        let gone = effects.iter().any(|e| matches!(e, Effect::Evict { pod, .. } if &*pod.name == "late"));
        assert_eq!(gone, evicted, "{memory}: {effects:?}");
        assert!(!effects.iter().any(|e| matches!(e, Effect::Evict { pod, .. } if &*pod.name == "a")));
    }
}

#[test]
fn another_schedulers_pod_costs_nobody_its_place() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "80Gi")]);
    let order = bed.bind();
    bed.answer(order.ticket, BindAnswer::Done);
    bed.effects();
    // Bound without a record, as another scheduler does.
    bed.apply(bound("foreign", "80Gi", "n1", None));
    assert!(!bed.effects().iter().any(|e| matches!(e, Effect::Evict { .. })));
}

#[test]
fn an_explanation_names_nodes_and_reasons() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "100Gi")]);
    bed.effects();
    let why = bed.driver.explain("d", "a").expect("it is known");
    assert_eq!((&why["phase"], &why["nodes"][0]["fits"]), (&json!("Unschedulable"), &json!(false)));
    assert!(why["nodes"][0]["reasons"][0].is_string(), "{why}");
    assert_eq!(bed.driver.explain("d", "nobody"), None);
}

#[test]
fn a_conflict_is_read_back_before_it_counts() {
    for (read, bound) in [(ReadAnswer::On("n1".into()), true), (ReadAnswer::Unbound, false), (ReadAnswer::Gone, false)]
    {
        let mut bed = Bed::new(vec![node("n1", 1)], vec![pod("a", "8Gi")]);
        let order = bed.bind();
        bed.answer(order.ticket, BindAnswer::Conflict("409".into()));
        assert_eq!(bed.effects(), [Effect::ReadBack(order.clone())]);
        bed.read(order.ticket, read.clone());
        assert_eq!((bed.is_bound("a"), bed.driver.binds_in_flight()), (bound, 0), "{read:?}");
    }
}

#[test]
fn a_bind_that_never_gets_an_answer_says_so_and_holds_up_nobody() {
    let mut bed = Bed::new(vec![node("n1", 2)], Vec::new());
    bed.driver.limits.binds_in_flight = 1;
    bed.list(Input::Pods, vec![pod("stuck", "80Gi")]);
    let order = bed.bind();
    bed.apply(pod("next", "80Gi"));
    let mut said = Vec::new();
    let mut next = None;
    for _ in 0..8 {
        bed.answer(order.ticket, BindAnswer::Unknown("500".into()));
        bed.effects();
        bed.read(order.ticket, ReadAnswer::Unbound);
        for effect in bed.effects() {
            match effect {
                Effect::Say { condition, .. } => said.push(condition.message.to_string()),
                Effect::Bind(order) => next = Some(order),
                other => panic!("{other:?}"),
            }
        }
        bed.pass(5_000);
        bed.effects();
    }
    assert_eq!(next.map(|o| o.pod.to_string()).as_deref(), Some("d/next"), "it has the slot while the other pauses");
    assert_eq!(
        said,
        ["binding to node n1 gets no answer that says whether it took effect, and is asked for again: 500"]
    );
}
