//! What the driver says of a card in trouble.

use crate::inventory::GpuUuid;

/// The driver reported an XID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XidEvent {
    /// The card; `None` if the driver could not say which.
    pub card: Option<GpuUuid>,
    /// The number, as NVIDIA lists them.
    pub xid: u64,
    /// The GPU instance it happened to; `None`: the whole card.
    pub gpu_instance: Option<u32>,
    /// The compute instance it happened to; `None`: all of the GPU instance.
    pub compute_instance: Option<u32>,
}
