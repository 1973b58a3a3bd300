//! `Allocate`: give, wait or refuse.

use gpu_scheduler_engine::model::{Mib, Percent, Timestamp};

use super::candidates::{Candidate, again, candidates};
use super::holds::{Holds, Receiver};
use super::place::usual;
use super::refusal::Refusal;
use super::{Expected, Patience, View};
use crate::checkpoint::{Entry, HeldDevice, Holder};
use crate::inventory::{DeviceUuid, GpuUuid};
use crate::report::Report;
use crate::resources::{DeviceId, Hold, Resource, ResourceName, Unit};

/// What becomes of a call, for one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is given.
    Give(Give),
    /// Nothing explains the call yet: wait for a change.
    Wait,
    /// It is not given.
    Refuse {
        /// Why.
        why: Refusal,
        /// Who asked, as far as known.
        to: Option<Holder>,
    },
}

/// What is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Give {
    /// To whom; `None` if nobody can tell.
    pub to: Option<Holder>,
    /// Of which resource.
    pub resource: ResourceName,
    /// What each id takes.
    pub hold: Hold,
    /// What it is, in the order of the call.
    pub devices: Vec<Granted>,
    /// What is worth telling about it.
    pub reports: Vec<Report>,
}

/// A device that is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// What kubelet calls it.
    pub id: DeviceId,
    /// The card that it is (on).
    pub card: GpuUuid,
    /// Memory of it.
    pub memory: Mib,
    /// Compute of it, 0 where none is guaranteed.
    pub compute: Percent,
}

impl Give {
    /// For the books.
    pub fn entry(&self, at: Timestamp) -> Entry {
        let held = |it: &Granted| HeldDevice { id: it.id.clone(), card: it.card.clone(), memory: it.memory };
        Entry {
            resource: self.resource.clone(),
            hold: self.hold,
            devices: self.devices.iter().map(held).collect(),
            holder: self.to.clone(),
            at,
        }
    }

    /// The devices, in the order of the call, each once.
    pub fn uuids(&self) -> Vec<DeviceUuid> {
        let mut uuids = Vec::new();
        for granted in &self.devices {
            if !uuids.contains(&granted.id.device) {
                uuids.push(granted.id.device.clone());
            }
        }
        uuids
    }
}

/// What becomes of kubelet's call for these ids, as it wrote them.
pub fn decide(view: &View<'_>, resource: &Resource, ids: &[String], patience: Patience) -> Outcome {
    match Call::read(view, resource, ids) {
        Ok(call) => call.decide(patience),
        Err(why) => Outcome::Refuse { why, to: None },
    }
}

/// A call, understood.
struct Call<'a> {
    view: &'a View<'a>,
    resource: &'a Resource,
    units: Vec<&'a Unit>,
    ids: Vec<DeviceId>,
    /// The devices as often as they are asked for, sorted.
    devices: Vec<&'a DeviceUuid>,
}

impl<'a> Call<'a> {
    fn read(view: &'a View<'a>, resource: &'a Resource, texts: &[String]) -> Result<Self, Refusal> {
        let unknown = |id: &String| Refusal::NoSuchDevice { resource: resource.name.clone(), id: id.clone() };
        let unit =
            |text: &'_ String| DeviceId::parse(text).and_then(|id| resource.unit(&id)).ok_or_else(|| unknown(text));
        let units: Vec<&Unit> = texts.iter().map(unit).collect::<Result<_, _>>()?;
        if view.one_only && matches!(resource.hold, Hold::Replica { .. }) && units.len() > 1 {
            return Err(Refusal::OneOnly(resource.name.clone()));
        }
        let ids = units.iter().map(|unit| unit.id.clone()).collect();
        let mut devices: Vec<_> = units.iter().map(|unit| &unit.id.device).collect();
        devices.sort();
        Ok(Self { view, resource, units, ids, devices })
    }

    fn decide(&self, patience: Patience) -> Outcome {
        let asking = candidates(self.view, self.resource, self.ids.len());
        let exact: Vec<_> = asking.iter().filter(|it| self.is_exactly(it)).collect();
        if let [first, others @ ..] = &exact[..] {
            // Two that get the same of the same devices are the same: it does not matter who is who.
            let other =
                others.iter().filter(|it| sorted(it) != sorted(first)).map(|it| it.holder()).collect::<Vec<_>>();
            let reports = if other.is_empty() { vec![] } else { vec![self.ambiguous(first, other)] };
            return self.settle(Some(first), reports, patience);
        }
        // What it left behind itself is its own, whatever the record says of it.
        let owner = asking.iter().find(|it| {
            let left = it.left_behind(self.view, self.resource);
            self.ids.iter().all(|id| left.contains(id))
        });
        if let Some(owner) = owner {
            return self.settle(Some(owner), self.mismatch(owner), patience);
        }
        if let Some(foreign) = asking.iter().find(|it| it.expected.is_none()) {
            let given = self.settle(Some(foreign), vec![self.unrecorded(foreign)], patience);
            if matches!(given, Outcome::Give(_)) || patience == Patience::Over {
                return given;
            }
        }
        if patience == Patience::Left {
            return Outcome::Wait;
        }
        let forgotten = again(self.view, self.resource, self.ids.len());
        if let Some(candidate) = forgotten.iter().find(|it| self.is_exactly(it)) {
            return self.settle(Some(candidate), vec![], patience);
        }
        match asking.first() {
            Some(first) => self.settle(Some(first), self.mismatch(first), patience),
            None => self.settle(None, vec![self.unexplained()], patience),
        }
    }

    fn is_exactly(&self, candidate: &Candidate<'_>) -> bool {
        candidate.devices().is_some_and(|devices| devices == self.devices)
    }

    /// Gives it, unless a card would be overcommitted.
    fn settle(&self, to: Option<&Candidate<'_>>, mut reports: Vec<Report>, patience: Patience) -> Outcome {
        let holder = to.map(Candidate::holder);
        let wanted = self.wanted(to);
        let recorded = to.is_some_and(|it| self.is_exactly(it));
        for want in &wanted {
            let Some(reason) = self.view.unhealthy(&want.device, &want.card) else { continue };
            let (device, reason) = (want.device.clone(), reason.to_owned());
            match &holder {
                Some(holder) if recorded => reports.push(Report::Unhealthy { to: holder.clone(), device, reason }),
                _ => return Outcome::Refuse { why: Refusal::Unhealthy { device, reason }, to: holder },
            }
        }
        let receiver = holder.as_ref().map_or(Receiver::Unknown, Receiver::Container);
        let holds = Holds::of(self.view).believing(&self.resource.name, &self.ids);
        if let Some(conflict) = holds.conflict(receiver, self.resource.hold, &wanted) {
            return match patience {
                // Whoever holds it may be gone, and the news on its way.
                Patience::Left => Outcome::Wait,
                Patience::Over => Outcome::Refuse { why: conflict.into(), to: holder },
            };
        }
        let grant = |(unit, want): (&&Unit, Expected)| Granted {
            id: unit.id.clone(),
            card: unit.card.clone(),
            memory: want.memory,
            compute: want.compute,
        };
        Outcome::Give(Give {
            to: holder,
            resource: self.resource.name.clone(),
            hold: self.resource.hold,
            devices: self.units.iter().zip(wanted).map(grant).collect(),
            reports,
        })
    }

    /// What each unit takes: as the record grants it on that device, else as it grants in its order, else the usual.
    fn wanted(&self, to: Option<&Candidate<'_>>) -> Vec<Expected> {
        let mut left: Vec<&Expected> = to.and_then(|it| it.expected.as_ref()).into_iter().flatten().collect();
        let mut wanted: Vec<Expected> = Vec::new();
        let exactly = to.is_some_and(|it| self.is_exactly(it));
        for unit in &self.units {
            let usual = usual(self.view, self.resource, unit);
            let at = if exactly { left.iter().position(|it| it.device == unit.id.device) } else { Some(0) };
            let granted = at.filter(|&at| at < left.len()).map(|at| left.remove(at));
            wanted.push(match (granted, self.resource.hold) {
                (Some(granted), Hold::Share) => Expected { memory: granted.memory, compute: granted.compute, ..usual },
                (Some(granted), _) if exactly => granted.clone(),
                _ => usual,
            });
        }
        wanted
    }

    fn gave(&self) -> Vec<DeviceUuid> {
        self.devices.iter().map(|device| (*device).clone()).collect()
    }

    fn mismatch(&self, to: &Candidate<'_>) -> Vec<Report> {
        let expected = to.devices().into_iter().flatten().cloned().collect::<Vec<_>>();
        if expected.is_empty() || self.is_exactly(to) {
            return vec![];
        }
        vec![Report::Mismatch { to: to.holder(), resource: self.resource.name.clone(), expected, gave: self.gave() }]
    }

    fn ambiguous(&self, to: &Candidate<'_>, others: Vec<Holder>) -> Report {
        Report::Ambiguous { to: to.holder(), others, resource: self.resource.name.clone(), gave: self.gave() }
    }

    fn unrecorded(&self, to: &Candidate<'_>) -> Report {
        Report::Unrecorded { to: to.holder(), resource: self.resource.name.clone(), gave: self.gave() }
    }

    fn unexplained(&self) -> Report {
        Report::Unexplained { resource: self.resource.name.clone(), gave: self.gave() }
    }
}

fn sorted(candidate: &Candidate<'_>) -> Vec<Expected> {
    let mut expected = candidate.expected.clone().unwrap_or_default();
    expected.sort();
    expected
}
