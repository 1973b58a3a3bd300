//! `nodes.csv`: sn, cpu_milli, memory_mib, gpu, model.

use std::path::Path;

use gpu_scheduler_engine::model::{CardSpec, Mib, Node, Quantity};

use super::error::{Table, TraceError};

/// Memory of a card by model, where the model is named. The masked models G2 and G3 and anything unknown
/// count as 32 GiB: shares of this trace are parts of a card, so the number decides nothing.
const CARD_MEMORY: [(&str, u64); 5] =
    [("T4", 16 << 10), ("P100", 16 << 10), ("V100M16", 16 << 10), ("V100M32", 32 << 10), ("A10", 24 << 10)];
const UNKNOWN_CARD_MEMORY: u64 = 32 << 10;

/// A node of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// Name.
    pub name: String,
    /// Milli-cores.
    pub cpu: i64,
    /// MiB of host memory.
    pub memory: i64,
    /// Cards.
    pub gpus: u32,
    /// Their model.
    pub model: String,
}

impl TraceNode {
    /// The node as the engine takes it. The trace states no limit on pods, so there is none.
    pub fn to_node(&self) -> Node {
        let mut node = Node { name: self.name.clone(), ..Node::default() };
        let card_memory =
            CARD_MEMORY.iter().find(|(m, _)| *m == self.model).map_or(UNKNOWN_CARD_MEMORY, |(_, mib)| *mib);
        node.allocatable = [
            ("cpu", Quantity::millis(self.cpu)),
            ("memory", Quantity::units(self.memory << 20)),
            ("pods", Quantity::units(i64::from(u32::MAX))),
            ("nvidia.com/gpu", Quantity::units(i64::from(self.gpus))),
        ]
        .map(|(name, amount)| (name.to_owned(), amount))
        .into();
        let card = |index| {
            CardSpec::new(CardSpec::made_up_uuid(&self.name, index), index, &self.model, Some(Mib(card_memory)))
        };
        node.cards = (0..self.gpus).map(card).collect();
        node
    }
}

/// Reads the nodes, sorted by name.
///
/// # Errors
/// Where the file cannot be read, or a value makes no sense.
pub fn read_nodes(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    let table = Table::open(path, &["sn", "cpu_milli", "memory_mib", "gpu", "model"], &[])?;
    let mut nodes = table.rows(|row| {
        if row.text("sn").is_empty() {
            return Err(row.bad("sn", "the node's name"));
        }
        Ok(TraceNode {
            name: row.text("sn").to_owned(),
            cpu: row.number("cpu_milli", 1 << 40)?.cast_signed(),
            memory: row.number("memory_mib", 1 << 40)?.cast_signed(),
            gpus: u32::try_from(row.number("gpu", 1024)?).unwrap_or(0),
            model: row.text("model").to_owned(),
        })
    })?;
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twice) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let what = format!("node {:?} is listed twice; remove one", twice[0].name);
        return Err(TraceError::Content { path: path.into(), what });
    }
    if nodes.iter().all(|n| n.gpus == 0) {
        return Err(TraceError::Content {
            path: path.into(),
            what: "no node has a GPU; nothing can be measured".into(),
        });
    }
    Ok(nodes)
}
