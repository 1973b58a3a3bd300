//! What is asked of the API server, and what its answers mean. No I/O and no clock: whoever carries an
//! [`Effect`](crate::driver::Effect) out ([`crate::live`], or a test with a model of the API server) sends the [`Call`]s of
//! this room and brings their answers back to it.

mod bind;
mod call;
mod desk;
mod event;
mod evict;
mod told;

pub use bind::{bind_answer, bind_call, read_answer, read_call};
pub use call::{Answer, Call, NoAnswer};
pub use desk::{Desk, Say};
pub use event::{Event, EventDraft, Events};
pub use evict::{Evicting, Eviction, EvictionEnd, EvictionStep};
pub use told::Told;

pub(crate) use call::says_nothing;
