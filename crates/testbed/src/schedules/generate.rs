//! Schedules from seeds.

use super::plan::{Answered, Asked, Fault, FaultPlan, GroupPlan, Kind, Moment, Need, NodePlan, Plan, PodPlan, Told};
use crate::draw::Draw;

/// Pods come, and faults begin, within this time.
const BUSY: Moment = 20_000;

/// What kind of trouble a schedule is about. Trouble of all kinds at once hides more than it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    /// Answers that are errors, late, or lost.
    Answers,
    /// Watches that break, lag, or have to begin anew.
    Watches,
    /// Replicas that are killed.
    Kills,
    /// A leader that is stopped past its lease.
    Freeze,
    /// Pods and nodes that come and go.
    Cluster,
    /// Some of all but a frozen leader.
    Mixed,
}

impl Plan {
    /// The schedule of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let theme = draw.pick(&[
            Theme::Answers,
            Theme::Answers,
            Theme::Watches,
            Theme::Watches,
            Theme::Kills,
            Theme::Freeze,
            Theme::Cluster,
            Theme::Mixed,
        ]);
        let mut plan = Self {
            seed,
            replicas: if theme == Theme::Freeze { 2 } else { draw.between(1, 2) },
            bookmarks: draw.pick(&[0, 1_000, 10_000]),
            nodes: nodes(&mut draw),
            groups: Vec::new(),
            pods: Vec::new(),
            faults: Vec::new(),
        };
        plan.pods(&mut draw, theme);
        plan.faults(&mut draw, theme);
        plan
    }

    fn pods(&mut self, draw: &mut Draw, theme: Theme) {
        let cards: usize = self.nodes.iter().map(|n| n.cards as usize).sum();
        let count = draw.between(cards.min(6), cards * 2 + 4).min(24);
        let foreign = draw.chance(20);
        // Urgent pods take what a leader that is stopped was about to give away.
        let urgent = theme == Theme::Freeze || draw.chance(40);
        // Some come in one burst, some one by one.
        let burst = draw.below(BUSY as usize / 2) as Moment;
        for number in 0..count {
            let at = if draw.chance(50) { burst } else { draw.below(BUSY as usize) as Moment };
            let foreign = foreign && draw.chance(20);
            let mut needs = vec![if foreign { Need::Cards(1) } else { need(draw) }];
            if draw.chance(15) && !foreign {
                needs.push(need(draw));
            }
            self.pods.push(PodPlan {
                name: format!("p{number}"),
                at,
                needs,
                init: (draw.chance(10) && !foreign).then(|| need(draw)),
                priority: if urgent && !foreign && draw.chance(30) { 100 } else { 0 },
                group: None,
                foreign,
            });
        }
        if draw.chance(25) {
            let members = draw.between(2, 4).min(count);
            self.groups.push(GroupPlan { name: "g0".to_owned(), min_count: members as u32 });
            // Pods that are alike, as the pods of one job are.
            let pattern = need(draw);
            let priority = self.pods[0].priority;
            for pod in self.pods.iter_mut().take(members + draw.below(2)) {
                *pod = PodPlan {
                    needs: vec![pattern],
                    init: None,
                    group: Some("g0".to_owned()),
                    foreign: false,
                    priority,
                    ..pod.clone()
                };
            }
        }
    }

    fn faults(&mut self, draw: &mut Draw, theme: Theme) {
        let mut faults = Vec::new();
        let mut add = |draw: &mut Draw, what: Fault, longest: Moment| {
            let lasts = if longest == 0 { 0 } else { draw.between(200, longest as usize) as Moment };
            let at = draw.below(BUSY as usize) as Moment;
            faults.push(FaultPlan { name: String::new(), at, lasts, what });
        };
        let some = |draw: &mut Draw, is: bool, most: usize| if is { draw.between(1, most) } else { 0 };
        let is = |of: Theme| theme == of || theme == Theme::Mixed;
        for _ in 0..some(draw, is(Theme::Answers), 4) {
            let what = answers(draw);
            add(draw, what, 8_000);
        }
        if is(Theme::Answers) && draw.chance(30) {
            let longer = draw.between(50, 3_000) as Moment;
            add(draw, Fault::Slow(longer), 8_000);
        }
        if is(Theme::Answers) && draw.chance(30) {
            add(draw, Fault::Outage, 6_000);
        }
        for _ in 0..some(draw, is(Theme::Watches), 5) {
            let what = watches(draw);
            let longest = if matches!(what, Fault::Lag(..)) { 10_000 } else { 0 };
            add(draw, what, longest);
        }
        for _ in 0..some(draw, is(Theme::Kills), 3) {
            let what = Fault::Killed(draw.below(self.replicas));
            add(draw, what, 6_000);
        }
        if theme == Theme::Freeze {
            for _ in 0..draw.between(1, 2) {
                let what = if draw.chance(30) { Fault::Frozen } else { Fault::FrozenAtBind };
                add(draw, what, 40_000);
            }
        }
        let most = if theme == Theme::Cluster { 8 } else { 3 };
        for _ in 0..draw.below(most) {
            let what = self.cluster(draw);
            // Who is held twice goes within seconds if its kubelet is there.
            let no_kubelet = matches!(what, Fault::NodeGone(_) | Fault::NodeReplaced(_) | Fault::KubeletHangs(_));
            if theme == Theme::Freeze && no_kubelet {
                continue;
            }
            let longest = if matches!(what, Fault::Deleted(_) | Fault::Replaced(_)) { 0 } else { 10_000 };
            add(draw, what, longest);
        }
        for (number, fault) in faults.iter_mut().enumerate() {
            fault.name = format!("f{number}");
        }
        self.faults = faults;
    }

    fn cluster(&self, draw: &mut Draw) -> Fault {
        let node = self.nodes[draw.below(self.nodes.len())].clone();
        let pod = self.pods[draw.below(self.pods.len())].name.clone();
        match draw.below(12) {
            0..=2 => Fault::Deleted(pod),
            3 => Fault::Replaced(pod),
            4 | 5 => Fault::Finished(pod),
            6 => Fault::Cordoned(node.name),
            7 => Fault::NodeGone(node.name),
            8 => Fault::NodeReplaced(node.name),
            9 => Fault::Sick(node.name, draw.below(node.cards as usize) as u32),
            10 => Fault::Unreported(node.name),
            _ => Fault::KubeletHangs(node.name),
        }
    }
}

fn nodes(draw: &mut Draw) -> Vec<NodePlan> {
    let count = draw.between(1, 4);
    let tellers = [Told::ByLabels, Told::ByLabels, Told::ByAgent, Told::ByAgent, Told::Steered, Told::Sliced];
    let node =
        |number| NodePlan { name: format!("n{number}"), cards: draw.between(1, 4) as u32, told: draw.pick(&tellers) };
    (0..count).map(node).collect()
}

fn need(draw: &mut Draw) -> Need {
    match draw.below(20) {
        0..=5 => Need::Cards(1),
        6 => Need::Cards(2),
        7..=13 => Need::Share { memory: draw.pick(&[10, 20, 40, 60]), compute: draw.pick(&[0, 30, 50]), cards: 1 },
        14 => Need::Share { memory: draw.pick(&[10, 40]), compute: 0, cards: 2 },
        15..=17 => Need::Slices(draw.between(1, 2) as u32),
        _ => Need::Nothing,
    }
}

fn answers(draw: &mut Draw) -> Fault {
    let answer = draw.pick(&[
        Answered::TooManyRequests,
        Answered::Conflict,
        Answered::Error,
        Answered::TimeoutBefore,
        Answered::TimeoutAfter,
        Answered::LostBefore,
        Answered::LostAfter,
        Answered::Silence,
    ]);
    let mut to = draw.pick(&[Asked::Binds, Asked::Binds, Asked::Everything, Asked::Lease]);
    if answer == Answered::Conflict {
        // Of a pod's status the API server says so where the pod is another one, and nowhere else.
        to = Asked::Binds;
    }
    Fault::Answers { to, answer, percent: draw.pick(&[20, 50, 100]) }
}

fn watches(draw: &mut Draw) -> Fault {
    let kind = draw.pick(&[Kind::Pods, Kind::Pods, Kind::Nodes, Kind::Reports, Kind::Groups]);
    match draw.below(8) {
        0..=2 => Fault::Lag(kind, draw.between(100, 6_000) as Moment),
        3 | 4 => Fault::Cut(kind),
        5 | 6 => Fault::Compacted,
        _ => Fault::Expired(kind),
    }
}
