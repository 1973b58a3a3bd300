//! Who holds what on which GPU. The only writer of allocations.
//!
//! Invariants, kept for every grant of ours and asserted in release builds too:
//! - nothing on a card exceeds its memory, its compute, its seats or its slices;
//! - a card is whole, shared, time-sliced or partitioned, never two at once;
//! - an allocation belongs to exactly one pod;
//! - releasing twice is a no-op.
//!
//! Observed facts are never refused. Where they break an invariant, the card is *overcommitted*: a
//! property derived from its holders, so it heals by itself when they leave. Until then it takes nothing.
//!
//! A device is named by card and, within it, by slice. What is not a GPU of one node (a claim's device)
//! becomes one more [`HoldKind`] with a table of its own beside the cards.

mod alignment;
mod card;
mod doubt;
mod headroom;
mod node_ledger;
mod numa;
mod peak;
mod placement;
mod shortage;

pub use card::{Card, Closed, HoldKind, Holding, Overcommit, Room};
pub(crate) use doubt::at_worst;
pub use headroom::{CardRoom, Headroom};
pub use node_ledger::{GpuUse, NodeLedger};
pub use numa::NumaSet;
pub use peak::{CardGrant, CardPeak, card_peaks};
pub use placement::{CardChoice, ContainerPlacement, Placement, place, share_candidates};
pub use shortage::{Barred, NumaRoom, Shortage};
