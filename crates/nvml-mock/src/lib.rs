//! NVIDIA's management library, NVML, with a node behind it that a YAML file describes.
//!
//! Cargo builds two things from this crate. The `cdylib` is loaded by path in place of `libnvidia-ml.so.1`: whoever speaks
//! NVML cannot tell it from the driver's, as far as it goes. The `rlib` is for tests: it has the [types](describe) of
//! the description, finds and [installs](mod@library) the built library, and writes the [trees of sysfs and procfs](roots)
//! that go with a node.
//!
//! The library reads the description anew at every call, so a test changes the node under whoever watches it by writing the
//! file. What NVML's own calls change (MIG, the compute mode) goes into a file beside it, which outlives the process as
//! the state of a card does, and is gone after a reboot.
//!
//! `docs/nvml-mock.md` of the repository says how to write a description.

pub mod describe;
mod driver;
mod ffi;
mod files;
pub mod library;
pub mod machine;
pub mod mig;
pub mod models;
pub mod roots;

pub use describe::{Gpu, Node};
pub use library::{Installation, library};
pub use machine::Machine;
