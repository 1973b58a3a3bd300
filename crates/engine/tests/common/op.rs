//! What can happen to the world: small values that proptest draws and shrinks. They carry raw numbers; the
//! world reads them against what there is, so that every list of them makes sense.

use proptest::prelude::*;

/// How a node appears or changes.
#[derive(Debug, Clone, Copy)]
pub enum NodeChange {
    Cards(u8),
    Seats(u8),
    Mig(u8),
    NoMemoryLabel,
    Cordon,
    Taint,
    SmallCpu,
    OtherModel,
}

/// What an agent's report says of one node.
#[derive(Debug, Clone, Copy)]
pub struct ReportOp {
    /// Foreign memory on card 0, in thousandths of the card.
    pub foreign: u16,
    /// Memory that each holder uses, MiB.
    pub used: u16,
    pub unhealthy: bool,
    pub lost: bool,
    /// Whether UUIDs are real, or made up as before the agent ran.
    pub real: bool,
    /// How many seconds old it is.
    pub age: u16,
}

/// The record that somebody else's bind leaves.
#[derive(Debug, Clone, Copy)]
pub enum RecordKind {
    None,
    Right,
    Wrong,
    UnknownCard,
}

/// What happens to one object of storage.
#[derive(Debug, Clone, Copy)]
pub struct StorageOp {
    /// Claims, volumes, classes and so on.
    pub kind: u8,
    /// Which of them.
    pub n: u8,
    pub how: u8,
    pub size: u8,
}

/// One event of the world.
#[derive(Debug, Clone, Copy)]
pub enum Op {
    Node(u8, NodeChange),
    NodeDelete(u8),
    Report(u8, ReportOp),
    ReportDelete(u8),
    Submit {
        kind: u8,
        size: u8,
        priority: u8,
    },
    Foreign {
        kind: u8,
        size: u8,
        node: u8,
        record: RecordKind,
    },
    Update(u8, u8),
    Terminate(u8),
    Delete(u8),
    DeleteTwice(u8),
    /// Somebody else binds a pod of ours that waits or is in flight.
    Steal {
        pod: u8,
        node: u8,
        record: RecordKind,
    },
    Answer {
        which: u8,
        done: bool,
        watch_first: bool,
    },
    AnswerUnknown(u64),
    Storage(StorageOp),
    /// Something around pods and nodes changes: a namespace, a service, a budget, a pod group.
    Around(u8),
    Advance(u16),
    /// Polls at most so often, then lets more happen.
    Poll(u8),
    Rest,
}

fn node_change() -> impl Strategy<Value = NodeChange> {
    prop_oneof![
        6 => (0_u8..5).prop_map(NodeChange::Cards),
        1 => (2_u8..5).prop_map(NodeChange::Seats),
        1 => (1_u8..4).prop_map(NodeChange::Mig),
        1 => Just(NodeChange::NoMemoryLabel),
        1 => Just(NodeChange::Cordon),
        1 => Just(NodeChange::Taint),
        1 => Just(NodeChange::SmallCpu),
        1 => Just(NodeChange::OtherModel),
    ]
}

fn report() -> impl Strategy<Value = ReportOp> {
    let age = prop_oneof![3 => Just(0_u16), 1 => 0_u16..900];
    let foreign = prop_oneof![2 => Just(0_u16), 1 => 0_u16..1000];
    (foreign, 0_u16..4000, prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>(), age)
        .prop_map(|(foreign, used, unhealthy, lost, real, age)| ReportOp { foreign, used, unhealthy, lost, real, age })
}

fn record() -> impl Strategy<Value = RecordKind> {
    prop_oneof![Just(RecordKind::None), Just(RecordKind::Right), Just(RecordKind::Wrong), Just(RecordKind::UnknownCard)]
}

/// One event; pods come more often than they go, so that nodes fill up.
pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0_u8..4, node_change()).prop_map(|(n, c)| Op::Node(n, c)),
        1 => (0_u8..4).prop_map(Op::NodeDelete),
        3 => (0_u8..4, report()).prop_map(|(n, r)| Op::Report(n, r)),
        1 => (0_u8..4).prop_map(Op::ReportDelete),
        12 => (0_u8..26, any::<u8>(), 0_u8..3).prop_map(|(kind, size, priority)| Op::Submit { kind, size, priority }),
        3 => (0_u8..26, any::<u8>(), 0_u8..5, record())
            .prop_map(|(kind, size, node, record)| Op::Foreign { kind, size, node, record }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(pod, how)| Op::Update(pod, how)),
        2 => any::<u8>().prop_map(Op::Terminate),
        3 => any::<u8>().prop_map(Op::Delete),
        1 => any::<u8>().prop_map(Op::DeleteTwice),
        1 => (any::<u8>(), 0_u8..5, record()).prop_map(|(pod, node, record)| Op::Steal { pod, node, record }),
        10 => (any::<u8>(), prop::bool::weighted(0.85), any::<bool>())
            .prop_map(|(which, done, watch_first)| Op::Answer { which, done, watch_first }),
        1 => (1_000_000_u64..1_000_009).prop_map(Op::AnswerUnknown),
        8 => (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(kind, n, how, size)| Op::Storage(StorageOp { kind, n, how, size })),
        2 => any::<u8>().prop_map(Op::Around),
        3 => prop_oneof![0_u16..20, 0_u16..900].prop_map(Op::Advance),
        4 => (1_u8..4).prop_map(Op::Poll),
        6 => Just(Op::Rest),
    ]
}

/// A run of the world.
pub fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..most)
}
