//! In which order pods arrive, and which node wins a tie.

use std::path::Path;

use super::error::{TraceError, read_text};
use super::{TraceNode, TracePod};
use crate::random::SplitMix;

/// An order of arrival and of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrivals {
    /// Rows of the pod file, repeats included.
    pub pods: Vec<usize>,
    /// Positions in the list of nodes (sorted by name), best rank first.
    pub nodes: Vec<usize>,
}

impl Arrivals {
    /// Reads an arrival file: line 1 holds row numbers of the pod file from 0; line 2 holds the rank of each
    /// node, nodes sorted by name.
    ///
    /// # Errors
    /// Where the file cannot be read, names a row that does not exist, or its ranks are no order.
    pub fn read(path: &Path, pods: &[TracePod], nodes: &[TraceNode]) -> Result<Self, TraceError> {
        let text = read_text(path)?;
        let content = |what: String| TraceError::Content { path: path.into(), what };
        let mut lines = text.lines();
        let mut numbers = |line: usize, of: &str| -> Result<Vec<usize>, TraceError> {
            let text = lines.next().ok_or_else(|| content(format!("line {line} is missing; it should hold {of}")))?;
            let parse = |word: &str| {
                word.parse::<usize>().map_err(|_| content(format!("line {line}: {word:?} is not one of {of}")))
            };
            text.split_ascii_whitespace().map(parse).collect()
        };
        let order = numbers(1, "the row numbers of arriving pods")?;
        let ranks = numbers(2, "the rank of each node")?;
        if let Some(row) = order.iter().find(|row| **row >= pods.len()) {
            return Err(content(format!(
                "line 1 names pod row {row}, but the pod file has rows 0 to {}",
                pods.len() - 1
            )));
        }
        if ranks.len() != nodes.len() {
            return Err(content(format!("line 2 ranks {} nodes, but the node file has {}", ranks.len(), nodes.len())));
        }
        let mut by_rank: Vec<usize> = (0..nodes.len()).collect();
        by_rank.sort_by_key(|node| ranks[*node]);
        if let Some(pair) = by_rank.windows(2).find(|pair| ranks[pair[0]] == ranks[pair[1]]) {
            return Err(content(format!("line 2 gives rank {} to two nodes", ranks[pair[0]])));
        }
        Ok(Self { pods: order, nodes: by_rank })
    }

    /// Draws an order from a seed: all pods once in random order, then random pods again until they ask for
    /// `inflate_permille` thousandths of all cards; a smaller demand is reached by leaving the last ones out.
    /// Nodes rank by name.
    pub fn draw(seed: u64, inflate_permille: u64, pods: &[TracePod], nodes: &[TraceNode]) -> Self {
        let mut random = SplitMix(seed);
        let capacity: u64 = nodes.iter().map(|n| 1000 * u64::from(n.gpus)).sum();
        let wanted = u128::from(capacity) * u128::from(inflate_permille) / 1000;
        let mut shuffled: Vec<usize> = (0..pods.len()).collect();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, random.below(at + 1));
        }
        let (mut order, mut asked) = (Vec::new(), 0_u128);
        let mut rows = shuffled.into_iter();
        while asked < wanted {
            let row = rows.next().unwrap_or_else(|| random.below(pods.len()));
            asked += u128::from(pods[row].gpu_milli());
            order.push(row);
        }
        Self { pods: order, nodes: (0..nodes.len()).collect() }
    }
}
