//! Who uses a card: what containers hold, and what nobody explains.

mod attribute;
mod index;

pub use attribute::{CardUse, Holder, attribute};
pub use index::{Owner, PodIndex};
