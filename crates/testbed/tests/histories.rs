//! Random histories: whatever happens in whatever order, the invariants hold and the engine does not panic.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gpu_scheduler_testbed::{RunOptions, Scenario, run};

/// Histories to play; `HISTORIES=n` plays more.
const HISTORIES: u64 = 300;
/// Blocks of one history.
const BLOCKS: u64 = 25;

#[test]
fn histories() {
    let count = std::env::var("HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(HISTORIES);
    let mut kinds = BTreeSet::new();
    let mut failures = Vec::new();
    for seed in 0..count {
        let history = History::new(seed).write();
        if let Some(what) = failure(&history)
            && kinds.insert(kind(&what))
        {
            let smallest = shrink(history, &kind(&what));
            let what = failure(&smallest).unwrap_or(what);
            failures.push(format!("seed {seed}: {what}\n{}", text(&smallest)));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

type Blocks = Vec<Vec<String>>;

fn text(blocks: &Blocks) -> String {
    let blocks: Vec<String> = blocks.iter().map(|b| format!("{}\n----\n", b.join("\n"))).collect();
    format!("# A random history.\n\n{}", blocks.join("\n"))
}

/// What goes wrong, if anything. Commands that make no sense where they stand are no finding.
fn failure(blocks: &Blocks) -> Option<String> {
    let scenario = Scenario::parse("history", &text(blocks)).expect("histories are well written");
    let mut outputs = Vec::new();
    for steps_per_poll in [None, Some(1)] {
        match catch_unwind(AssertUnwindSafe(|| run(&scenario, RunOptions { steps_per_poll, skips_nonsense: true }))) {
            Ok(Ok(transcript)) => outputs.push(transcript),
            Ok(Err(e)) if e.what.starts_with("broken invariant") || e.what.starts_with("the engine") => {
                return Some(e.what);
            }
            Ok(Err(_)) => return None,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map_or("", |s| s);
                let text = if text.is_empty() { panic.downcast_ref::<&str>().unwrap_or(&"?") } else { text };
                return Some(format!("panic: {text}"));
            }
        }
    }
    (outputs[0] != outputs[1]).then(|| "steps per poll change the outcome".to_owned())
}

/// A finding without its names and numbers.
fn kind(what: &str) -> String {
    let words = what.split_whitespace().take_while(|w| !w.contains(';')).filter(|w| !w.contains(['/', '-', '_']));
    words.take(9).collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn shrink(mut blocks: Blocks, wanted: &str) -> Blocks {
    let same = |blocks: &Blocks| failure(blocks).is_some_and(|what| kind(&what) == wanted);
    loop {
        let mut smaller = None;
        'search: for at in (0..blocks.len()).rev() {
            for line in (0..blocks[at].len()).rev() {
                let mut trial = blocks.clone();
                trial[at].remove(line);
                // A command goes with the lines below it.
                while trial[at].get(line).is_some_and(|l| l.starts_with(' ')) && !blocks[at][line].starts_with(' ') {
                    trial[at].remove(line);
                }
                if trial[at].is_empty() {
                    trial.remove(at);
                }
                if same(&trial) {
                    smaller = Some(trial);
                    break 'search;
                }
            }
        }
        match smaller {
            Some(trial) => blocks = trial,
            None => return blocks,
        }
    }
}

/// Writes one history from a seed.
struct History {
    random: u64,
    pods: Vec<(String, bool)>,
    count: u32,
}

impl History {
    fn new(seed: u64) -> Self {
        Self { random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d, pods: Vec::new(), count: 0 }
    }

    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        // Xorshift: plain, and the same everywhere.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let at = self.below(of.len() as u64) as usize;
        of[at]
    }

    fn write(mut self) -> Blocks {
        let mut blocks = vec![self.node("n1"), self.node("n2")];
        for _ in 0..BLOCKS {
            let commands = 1 + self.below(4);
            let block: Vec<String> = (0..commands).flat_map(|_| self.command()).collect();
            if !block.is_empty() {
                blocks.push(block);
            }
        }
        blocks
    }

    fn command(&mut self) -> Vec<String> {
        let node = self.pick(&["n1", "n2"]);
        match self.below(20) {
            0..=5 => self.pod(),
            6 => self.foreign(node),
            7..=9 => self.end(),
            10 => self.node(node),
            11 | 12 => self.report(node),
            13 => vec![format!("{} {node}", self.pick(&["delete-node", "unreport"]))],
            14 => vec![self.pick(&["hold-binds", "release-binds", "settle"]).to_owned()],
            15 => vec![format!("advance {}", self.pick(&["1s", "3s", "12m"]))],
            16 => self.about("refuse POD no"),
            17 => {
                let update = self.pick(&["gate=x", "gate=", "priority=3", "model=T4", "model=*", "tolerate=k"]);
                self.about(&format!("update POD {update}"))
            }
            18 => {
                let mut then = self.about("delete POD");
                let first = self.about("on-bind POD");
                then.truncate(1);
                first.into_iter().zip(then).map(|(a, b)| format!("{a} {b}")).collect()
            }
            _ => self.about(one_of(&["confirm POD", "fail-bind POD no", "echo POD"], self.count)),
        }
    }

    fn about(&mut self, command: &str) -> Vec<String> {
        if self.pods.is_empty() {
            return Vec::new();
        }
        let at = self.below(self.pods.len() as u64) as usize;
        vec![command.replace("POD", &self.pods[at].0)]
    }

    fn node(&mut self, name: &str) -> Vec<String> {
        let gpus = 1 + self.below(3);
        let extra = if self.below(2) == 0 {
            ""
        } else {
            self.pick(&["cordoned", "taints=k:NoSchedule", "pods=3", "gpu-memory=unknown", "seats=2", "numa-nodes=2"])
        };
        let mut lines = vec![format!("node {name} gpus={gpus} {extra}")];
        match self.below(4) {
            0 => lines.push("  card 0 mig=1g.10gb@MIG-a,1g.10gb@MIG-b".into()),
            1 => lines.push("  card 0 model=T4 memory=15Gi".into()),
            _ => {}
        }
        lines
    }

    fn report(&mut self, node: &str) -> Vec<String> {
        let age = self.pick(&["", "", "age=12m"]);
        let topology = self.pick(&["", "", "best-effort", "restricted/pod", "single-numa-node"]);
        let topology = if topology.is_empty() { String::new() } else { format!("topology-manager={topology}") };
        let mut lines = vec![format!("report {node} {age} {topology}")];
        let holder = self.about("  card 0 holder=POD:20Gi");
        let change = self.pick(&["gone", "unhealthy=x", "foreign=5Gi", "uuid=GPU-new", "memory=unknown"]);
        match self.below(3) {
            0 => lines.push(format!("  card 0 {change}")),
            1 => lines.extend(holder),
            _ => {}
        }
        lines
    }

    fn need(&mut self) -> &'static str {
        self.pick(&[
            "gpus=1",
            "gpus=2",
            "memory=20Gi",
            "memory=50Gi compute=60",
            "memory=50%",
            "memory=10Gi cards=2",
            "mig-1g.10gb=1",
            "cpu=40",
            "gpus=1 cpu=2",
            "memory=1Gi port=80",
        ])
    }

    fn pod(&mut self) -> Vec<String> {
        self.count += 1;
        let (name, need) = (format!("p{}", self.count), self.need());
        let extra = self.pick(&["", "", "", "priority=5", "gate=x", "tolerate=*", "model=T4"]);
        self.pods.push((name.clone(), false));
        if self.below(5) > 0 {
            return vec![format!("pod {name} {need} {extra}")];
        }
        let other = self.need();
        let kind = self.pick(&["init", "sidecar", "container"]);
        vec![format!("pod {name} {extra}"), format!("  {kind} first {other}"), format!("  container main {need}")]
    }

    fn foreign(&mut self, node: &str) -> Vec<String> {
        self.count += 1;
        let (name, need) = (format!("f{}", self.count), self.need());
        self.pods.push((name.clone(), true));
        let record = self.pick(&[
            "",
            "",
            "[main: 0]",
            "[main: 0:20Gi]",
            "[main: 1:50Gi+60%]",
            "[main: 0=GPU-gone]",
            "[main: 0=made-up]",
            "[main: 0/MIG-a]",
            "[main: 0:seat]",
        ]);
        vec![format!("pod {name} {need} scheduler=other"), format!("bound {name} {node} {record}")]
    }

    fn end(&mut self) -> Vec<String> {
        if self.pods.is_empty() {
            return Vec::new();
        }
        let at = self.below(self.pods.len() as u64) as usize;
        match self.below(4) {
            0 => vec![format!("terminate {}", self.pods[at].0)],
            _ => vec![format!("delete {}", self.pods.remove(at).0)],
        }
    }
}

fn one_of<'a>(of: &[&'a str], count: u32) -> &'a str {
    of[count as usize % of.len()]
}
