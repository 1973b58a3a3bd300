//! Who has a card and who uses it: what containers hold, and what nobody explains.
//!
//! Three know something of it, and the first that names a container on a card counts:
//!
//! 1. **kubelet's list** says who was given which device, whoever scheduled the pod.
//! 2. **The scheduler's records** say it of containers that kubelet does not list: those that are bound and not admitted yet.
//!    Of a container that kubelet lists a record says how much it was granted, and nothing of other devices.
//! 3. **Processes** show who uses a card that neither gave to it, such as a privileged pod that sees all of them.

mod assigned;
mod attribute;
mod index;

pub use assigned::Assignments;
pub use attribute::{CardUse, Holder, KnownBy, attribute, having};
