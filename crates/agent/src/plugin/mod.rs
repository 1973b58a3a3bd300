//! The device plugins: one server for each resource, on a socket in kubelet's folder, registered with kubelet and again
//! whenever kubelet starts anew.

mod fleet;
mod register;
mod server;

pub use fleet::{Places, kubelet_socket, serve};
