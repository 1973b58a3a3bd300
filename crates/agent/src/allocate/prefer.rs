//! `GetPreferredAllocation`: which ids would be best.

use super::candidates::{Candidate, again, candidates};
use super::holds::{Holds, Receiver};
use super::place::place;
use super::{Patience, View};
use crate::resources::{DeviceId, Resource};

/// What kubelet asks, for one container.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// What kubelet could give.
    pub available: &'a [DeviceId],
    /// What it will give in any case: `available` has these too.
    pub must: &'a [DeviceId],
    /// How many ids it needs.
    pub size: usize,
}

/// What is best, always as many ids as kubelet needs (or all that it could give, if these are fewer).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preference {
    /// These.
    Ids(Vec<DeviceId>),
    /// Nobody is known who could be asking: wait for a change. With no time left, the answer is ids.
    Wait,
}

/// Which ids kubelet had best give.
pub fn prefer(view: &View<'_>, ask: &Ask<'_>, patience: Patience) -> Preference {
    if ask.must.len() >= ask.size {
        return Preference::Ids(ask.must[..ask.size].to_vec());
    }
    let holds = Holds::of(view).believing(&ask.resource.name, ask.available);
    let mut asking = candidates(view, ask.resource, ask.size);
    // What it must include was left behind by somebody: that pod is asking.
    let owners = |candidate: &Candidate<'_>| {
        let left = candidate.left_behind(view, ask.resource);
        ask.must.iter().all(|id| left.contains(id))
    };
    if !ask.must.is_empty() && asking.iter().any(owners) {
        asking.retain(owners);
    }
    for candidate in &asking {
        match &candidate.expected {
            Some(_) => {
                if let Some(ids) = recorded(candidate, ask) {
                    return Preference::Ids(ids);
                }
            }
            None => {
                let holder = candidate.holder();
                return Preference::Ids(place(view, &holds, ask, Receiver::Container(&holder)));
            }
        }
    }
    if patience == Patience::Left {
        return Preference::Wait;
    }
    // Somebody whose record cannot be followed, somebody whom kubelet has forgotten, or nobody that is known.
    if let Some(ids) = again(view, ask.resource, ask.size).iter().find_map(|candidate| recorded(candidate, ask))
        && asking.is_empty()
    {
        return Preference::Ids(ids);
    }
    let holder = asking.first().map(Candidate::holder);
    let receiver = holder.as_ref().map_or(Receiver::Unknown, Receiver::Container);
    // What can be had of a record is kept.
    let mut must = ask.must.to_vec();
    for device in asking.first().and_then(Candidate::devices).unwrap_or_default() {
        let on = |id: &&DeviceId| id.device == *device;
        if let Some(id) = ask.available.iter().filter(on).min()
            && must.len() < ask.size
            && !must.iter().any(|id| id.device == *device)
        {
            must.push(id.clone());
        }
    }
    Preference::Ids(place(view, &holds, &Ask { must: &must, ..*ask }, receiver))
}

/// Ids on exactly the devices that the record names, if kubelet can give them. Which seat of a device it is does not
/// matter.
fn recorded(candidate: &Candidate<'_>, ask: &Ask<'_>) -> Option<Vec<DeviceId>> {
    let mut ids: Vec<DeviceId> = Vec::new();
    for device in candidate.devices()? {
        let on = |id: &&DeviceId| id.device == *device && !ids.contains(id);
        let id = ask.must.iter().find(on).or_else(|| ask.available.iter().filter(on).min())?;
        ids.push(id.clone());
    }
    (ids.len() == ask.size && ask.must.iter().all(|id| ids.contains(id))).then_some(ids)
}
