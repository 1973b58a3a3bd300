//! What a term's loop does between the driver and the API server.

use gpu_scheduler_cluster::driver::{BindOrder, Effect, Input, Turn};
use gpu_scheduler_cluster::exchange::{
    Answer, Evicting, Eviction, EvictionEnd, EvictionStep, NoAnswer, Say, Told, bind_answer, bind_call, read_answer,
    read_call,
};
use gpu_scheduler_cluster::live::AGAIN;
use gpu_scheduler_engine::model::PodUid;

use super::broken::Broken;
use super::calls::{InFlight, Reply, Why};
use super::clock::{millis, rfc3339};
use super::plan::Moment;
use super::sim::{Own, Sim};

/// Turns of the driver without a rest: more than any cluster of these schedules needs.
const TURNS: usize = 20_000;

impl Sim {
    /// Something comes in for a replica's driver.
    pub fn input(&mut self, replica: usize, input: Input) {
        let stamp = self.now.stamp();
        let Some(term) = self.replicas[replica].term.as_mut() else { return };
        term.driver.handle(stamp, input);
        if !std::mem::replace(&mut term.work_due, true) {
            // Mostly at once; now and then more comes in before it looks.
            let pause = if self.chance.chance(80) { 0 } else { self.chance.below(30) as Moment };
            self.own(replica, self.now.after(pause), Own::Work);
        }
    }

    /// The driver decides until it rests.
    pub fn work(&mut self, replica: usize) {
        let now = self.now;
        for _ in 0..TURNS {
            if self.replicas[replica].frozen {
                // Stopped in the middle: it goes on from here.
                return self.own(replica, now, Own::Work);
            }
            let Some(term) = self.replicas[replica].term.as_mut() else { return };
            term.work_due = false;
            match term.driver.poll(now.stamp()) {
                Turn::Busy => {}
                Turn::Do(effect) => self.carry_out(replica, effect),
                Turn::Rest => return self.plan_wake(replica),
            }
        }
        self.breaks(Broken::Circles { at: now, what: "the driver does not come to rest" });
    }

    fn plan_wake(&mut self, replica: usize) {
        let now = self.now;
        let Some(term) = self.replicas[replica].term.as_mut() else { return };
        let Some(at) = term.driver.next_wakeup().map(|stamp| now.of(stamp).max(now.after(1))) else { return };
        if term.wake.is_none_or(|before| before > at || before <= now) {
            term.wake = Some(at);
            self.own(replica, at, Own::Work);
        }
    }

    fn carry_out(&mut self, replica: usize, effect: Effect) {
        self.note(|| format!("r{replica}: {}", told(&effect)));
        let Some(term) = self.replicas[replica].term.as_mut() else { return };
        match effect {
            Effect::Bind(order) => {
                term.hushing.push(order);
                self.send_hushed(replica);
            }
            Effect::ReadBack(order) => {
                let call = read_call(&order.pod);
                self.send(replica, Why::ReadBack(order), call);
            }
            Effect::Say { uid, pod, condition, profile } => {
                term.desk.put(uid, Say { pod, condition: Some((condition, profile)), nomination: None });
                self.tell(replica);
            }
            Effect::Nominate { uid, pod, node } => {
                term.desk.put(uid, Say { pod, condition: None, nomination: Some(node) });
                self.tell(replica);
            }
            Effect::Evict { uid, pod, node, reason, message, preemptor } => {
                term.evicted += 1;
                let number = term.evicted;
                let eviction = Eviction { uid, pod, node, reason, message, preemptor };
                term.evictions.insert(number, Evicting::new(eviction));
                self.evict(replica, number, None);
            }
            Effect::Problem(problem) => self.breaks(Broken::Problem(problem.to_string())),
            Effect::Announce(_) | Effect::Report(_) => {}
            Effect::WriteVolume(_) | Effect::ReadVolume(_) => unreachable!("no pod of a schedule has volumes"),
        }
    }

    /// Sends binds of which nothing is being said any more.
    fn send_hushed(&mut self, replica: usize) {
        let Some(term) = self.replicas[replica].term.as_mut() else { return };
        let waiting = std::mem::take(&mut term.hushing);
        let (ready, waiting): (Vec<BindOrder>, _) = waiting.into_iter().partition(|order| term.desk.hush(&order.uid));
        term.hushing = waiting;
        for order in ready {
            let call = bind_call(&order);
            self.send(replica, Why::Bind(order), call);
        }
    }

    /// Has what is to be said written, as far as there are writers for it.
    pub fn tell(&mut self, replica: usize) {
        let now = rfc3339(self.now);
        while let Some(term) = self.replicas[replica].term.as_mut().filter(|term| term.tellers > 0) {
            let Some((uid, say)) = term.desk.take_next() else { return };
            term.tellers -= 1;
            let call = say.call(&uid, &now);
            self.send(replica, Why::Say(uid, say), call);
        }
    }

    /// A writer has paused after something was not taken.
    pub fn teller_is_free(&mut self, replica: usize) {
        if let Some(term) = self.replicas[replica].term.as_mut() {
            term.tellers += 1;
        }
        self.tell(replica);
    }

    /// An eviction goes on, after what became of its last write.
    pub fn evict(&mut self, replica: usize, number: u64, told: Option<Told>) {
        let now = self.now;
        let Some(term) = self.replicas[replica].term.as_mut() else { return };
        let Some(evicting) = term.evictions.get_mut(&number) else { return };
        match evicting.next(told, &rfc3339(now)) {
            EvictionStep::Send { call, .. } => self.send(replica, Why::Evict(number), call),
            EvictionStep::Pause(pause) => self.own(replica, now.after(millis(pause)), Own::EvictAgain(number)),
            EvictionStep::End(end) => {
                term.evictions.remove(&number);
                if let EvictionEnd::Stays { uid, preemptor } = end {
                    self.input(replica, Input::EvictionRefused { uid, preemptor });
                }
            }
        }
    }

    /// An answer, or the certainty that none comes.
    pub fn answered(&mut self, flight: InFlight, reply: Result<Reply, NoAnswer>) {
        let InFlight { replica, why, request, .. } = flight;
        if let Why::Lease(number) = why {
            return self.lease_answered(replica, number, &request, reply);
        }
        let answer: Result<Answer, NoAnswer> = match reply {
            Ok(Reply::Answer(answer)) => Ok(answer),
            Ok(Reply::Lease(_)) => return,
            Err(error) => Err(error),
        };
        match why {
            Why::Bind(order) => {
                let answer = bind_answer(answer);
                self.input(replica, Input::BindAnswered { ticket: order.ticket, answer });
            }
            Why::ReadBack(order) => {
                let answer = read_answer(&order.uid, answer);
                self.input(replica, Input::ReadBack { ticket: order.ticket, answer });
            }
            Why::Say(uid, say) => self.said(replica, uid, say, Told::of(&answer)),
            Why::Evict(number) => self.evict(replica, number, Some(Told::of(&answer))),
            Why::Lease(_) => {}
        }
    }

    fn said(&mut self, replica: usize, uid: PodUid, say: Say, told: Told) {
        let Some(term) = self.replicas[replica].term.as_mut() else { return };
        term.desk.written(uid, say, told);
        if told.is_settled() {
            term.tellers += 1;
        } else {
            self.own(replica, self.now.after(millis(AGAIN)), Own::TellerIsFree);
        }
        self.send_hushed(replica);
        self.tell(replica);
    }
}

/// An effect in a few words.
fn told(effect: &Effect) -> String {
    match effect {
        Effect::Bind(order) => format!("bind {} to {} as {:?}", order.pod, order.node, order.record),
        Effect::ReadBack(order) => format!("read back {}", order.pod),
        Effect::Announce(order) => format!("{} is bound to {}", order.pod, order.node),
        Effect::Say { pod, condition, .. } => format!("{pod} waits: {}", condition.message),
        Effect::Evict { pod, reason, .. } => format!("evict {pod}: {reason}"),
        Effect::Nominate { pod, node, .. } => format!("nominate {pod} to {node:?}"),
        Effect::Report(notice) => notice.to_string(),
        Effect::Problem(problem) => problem.to_string(),
        Effect::WriteVolume(_) | Effect::ReadVolume(_) => "a volume".to_owned(),
    }
}
