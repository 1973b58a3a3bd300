//! The course of a comparison.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::{Answer, Preempted};
use super::bed::{Bed, Contender};
use super::compare::{Rule, broken, choice};
use super::feature::Feature;
use super::generate::{Case, Step, Wish, key};
use super::preemption::{Live, worth};
use super::report::{Disagreement, Report};
use super::scores::Scores;
use super::settings::Settings;
use crate::control_plane::ControlPlaneError;
use crate::draw::Draw;

/// Compares a scheduler with Kubernetes' own, case by case, until enough pods were asked about or there are too many
/// disagreements.
///
/// # Errors
///
/// A control plane does not start or does not take an object, or kube-scheduler's log is not understood.
pub async fn run(subject: Contender, settings: &Settings) -> Result<Report, ControlPlaneError> {
    let (mut reference, mut subject) = tokio::try_join!(Bed::start(Contender::KubeScheduler), Bed::start(subject))?;
    let mut report = Report::default();
    let mut seed = settings.seed;
    while report.placements < settings.placements && report.disagreements.len() < settings.most {
        let case = Case::generate(seed, &settings.features);
        let (began, before) = (Instant::now(), report.placements);
        tokio::try_join!(reference.begin(&case), subject.begin(&case))?;
        let course = Course::new(&case, settings, &mut reference, &mut subject, &mut report);
        course.run().await?;
        tokio::try_join!(reference.end(&case), subject.end(&case))?;
        println!("seed {seed}: {} placements in {:.1?}", report.placements - before, began.elapsed());
        report.cases += 1;
        seed = seed.wrapping_add(1);
    }
    Ok(report)
}

/// Whether a case can go on: whether both clusters are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

/// A case under way.
struct Course<'a> {
    case: &'a Case,
    settings: &'a Settings,
    reference: &'a mut Bed,
    subject: &'a mut Bed,
    report: &'a mut Report,
    /// Pods on their nodes, `NAMESPACE/NAME`.
    live: BTreeMap<String, Live>,
    /// Pods that were asked about in this case.
    asked: usize,
}

/// Both answers about a pod.
struct Asked {
    reference: Answer,
    scores: Scores,
    subject: Answer,
}

impl Asked {
    fn choice(&self) -> Vec<&str> {
        choice(&self.reference, &self.scores)
    }

    fn broken(&self) -> Option<Rule> {
        broken(&self.reference, &self.choice(), &self.scores, &self.subject)
    }

    fn same_node(&self) -> bool {
        self.reference.decision.node() == self.subject.decision.node()
    }
}

impl<'a> Course<'a> {
    fn new(
        case: &'a Case,
        settings: &'a Settings,
        reference: &'a mut Bed,
        subject: &'a mut Bed,
        report: &'a mut Report,
    ) -> Self {
        let placed = case.placed.iter().enumerate();
        let live =
            placed.map(|(started, placed)| (key(&placed.pod), Live { pod: placed.pod.clone(), started })).collect();
        Self { case, settings, reference, subject, report, live, asked: 0 }
    }

    async fn run(mut self) -> Result<(), ControlPlaneError> {
        self.rivals().await?;
        for (number, step) in self.case.steps.iter().enumerate() {
            if self.report.disagreements.len() >= self.settings.most {
                break;
            }
            if step.wish().is_some() && self.report.placements >= self.settings.placements {
                break;
            }
            let then = match step {
                Step::Remove(earlier) => self.remove(*earlier).await?,
                Step::Place(wish) => self.place(number, wish).await?,
                Step::PlaceLate(wish) => self.place_late(number, wish).await?,
                Step::Preempt(wish) => self.preempt(number, wish).await?,
            };
            if then == Then::End {
                let left = self.case.steps[number + 1..].iter().filter(|step| step.wish().is_some()).count();
                self.report.skipped += left;
                break;
            }
        }
        Ok(())
    }

    /// Pods that were there before the schedulers started: all of them have an answer before one is taken away.
    async fn rivals(&mut self) -> Result<(), ControlPlaneError> {
        let mut answers = Vec::new();
        for wish in &self.case.rivals {
            answers.push(tokio::try_join!(self.reference.answer(&wish.pod), self.subject.answer(&wish.pod))?);
        }
        for (wish, (reference, subject)) in self.case.rivals.iter().zip(answers) {
            let scores = self.reference.scores(&wish.key())?;
            let asked = Asked { reference, scores, subject };
            self.judge(None, wish, &asked, asked.broken());
            let node = asked.reference.decision.node();
            self.settle(self.case.steps.len(), wish, &asked, node).await?;
        }
        Ok(())
    }

    /// The pod of an earlier step goes.
    async fn remove(&mut self, earlier: usize) -> Result<Then, ControlPlaneError> {
        if let Some(wish) = self.case.steps[earlier].wish()
            && self.live.remove(&wish.key()).is_some()
        {
            tokio::try_join!(self.reference.remove(&wish.pod), self.subject.remove(&wish.pod))?;
        }
        Ok(Then::GoOn)
    }

    async fn ask(&mut self, wish: &Wish) -> Result<Asked, ControlPlaneError> {
        let (reference, subject) = tokio::try_join!(self.reference.submit(&wish.pod), self.subject.submit(&wish.pod))?;
        let scores = self.reference.scores(&wish.key())?;
        Ok(Asked { reference, scores, subject })
    }

    async fn place(&mut self, number: usize, wish: &Wish) -> Result<Then, ControlPlaneError> {
        let asked = self.ask(wish).await?;
        self.judge(Some(number), wish, &asked, asked.broken());
        self.settle_by_seed(number, wish, &asked).await
    }

    /// Among equally good nodes the seed chooses, so that a seed says all that follows.
    async fn settle_by_seed(&mut self, number: usize, wish: &Wish, asked: &Asked) -> Result<Then, ControlPlaneError> {
        let choice = asked.choice();
        let mut draw = Draw::nth(self.case.seed, number);
        let node = (!choice.is_empty()).then(|| draw.pick(&choice));
        self.settle(number, wish, asked, node).await?;
        Ok(Then::GoOn)
    }

    /// Makes the pod be on this node in both clusters, or in neither.
    async fn settle(
        &mut self,
        number: usize,
        wish: &Wish,
        asked: &Asked,
        node: Option<&str>,
    ) -> Result<(), ControlPlaneError> {
        tokio::try_join!(
            self.reference.settle(&wish.pod, asked.reference.decision.node(), node),
            self.subject.settle(&wish.pod, asked.subject.decision.node(), node),
        )?;
        if let Some(node) = node {
            self.came(number, wish, node).await?;
        }
        Ok(())
    }

    /// The pod is on its node in both.
    async fn came(&mut self, number: usize, wish: &Wish, node: &str) -> Result<(), ControlPlaneError> {
        let mut pod = wish.pod.clone();
        pod["spec"]["nodeName"] = json!(node);
        let started = self.case.placed.len() + number;
        if self.case.features.contains(&Feature::Preemption) {
            tokio::try_join!(self.reference.run(&wish.pod, started), self.subject.run(&wish.pod, started))?;
        }
        self.live.insert(wish.key(), Live { pod, started });
        Ok(())
    }

    async fn place_late(&mut self, number: usize, wish: &Wish) -> Result<Then, ControlPlaneError> {
        let mut asked = self.ask(wish).await?;
        let mut rule = asked.broken();
        let Some(node) = asked.reference.decision.node().map(str::to_owned) else {
            self.judge(Some(number), wish, &asked, rule);
            // Bound on one side, it has taken volumes that are free on the other.
            if rule == Some(Rule::Feasible) {
                return Ok(Then::End);
            }
            self.settle(number, wish, &asked, None).await?;
            return Ok(Then::GoOn);
        };
        (asked.reference.volumes, asked.subject.volumes) =
            tokio::try_join!(self.reference.volumes(&wish.pod), self.subject.volumes(&wish.pod))?;
        if rule.is_none() && asked.same_node() && asked.reference.volumes != asked.subject.volumes {
            rule = Some(Rule::Volumes);
        }
        self.judge(Some(number), wish, &asked, rule);
        if rule.is_some() || !asked.same_node() {
            return Ok(Then::End);
        }
        self.came(number, wish, &node).await?;
        Ok(Then::GoOn)
    }

    async fn preempt(&mut self, number: usize, wish: &Wish) -> Result<Then, ControlPlaneError> {
        let asked = self.ask(wish).await?;
        let rule = asked.broken().or_else(|| self.preemptions_differ(&asked).then_some(Rule::Preemption));
        self.judge(Some(number), wish, &asked, rule);
        let (reference, subject) = (&asked.reference.preempted, &asked.subject.preempted);
        match reference {
            _ if rule.is_some() || reference != subject => Ok(Then::End),
            None => self.settle_by_seed(number, wish, &asked).await,
            Some(preempted) => {
                self.report.preemptions += 1;
                self.live.retain(|pod, _| !preempted.victims.contains(pod));
                if let Some(node) = preempted.after.node() {
                    self.came(number, wish, node).await?;
                }
                Ok(Then::GoOn)
            }
        }
    }

    /// Different victims are as good if they are worth the same.
    fn preemptions_differ(&self, asked: &Asked) -> bool {
        let budgets: Vec<&Value> =
            self.case.objects.iter().filter(|object| object["kind"] == "PodDisruptionBudget").collect();
        let worth = |of: &Preempted| worth(&self.live, &budgets, &of.node, &of.victims);
        // Victims go one by one, and with the first of them another node may do: where it ends is a matter of time.
        let done = |of: &Preempted| of.after.node().is_some();
        match (&asked.reference.preempted, &asked.subject.preempted) {
            (None, None) => false,
            // Kube-scheduler may miss that its victims have gone, and looks again after five minutes: no other decision.
            (Some(a), Some(b)) => !done(b) || worth(a) != worth(b),
            _ => true,
        }
    }

    fn judge(&mut self, step: Option<usize>, wish: &Wish, asked: &Asked, rule: Option<Rule>) {
        self.asked += 1;
        self.report.count(&wish.features, rule.is_none());
        self.report.waiting += usize::from(asked.reference.decision.node().is_none());
        self.report.ties += usize::from(asked.choice().len() > 1);
        let Some(rule) = rule else { return };
        let disagreement = Disagreement {
            seed: self.case.seed,
            step,
            asked: self.asked,
            rule,
            features: wish.features.clone(),
            objects: self.case.objects.clone(),
            live: self.live.values().map(|live| live.pod.clone()).collect(),
            pod: wish.pod.clone(),
            reference: asked.reference.clone(),
            scores: asked.scores.clone(),
            subject: asked.subject.clone(),
        };
        eprint!("{}", disagreement.summary());
        self.report.disagreements.push(disagreement);
    }
}
