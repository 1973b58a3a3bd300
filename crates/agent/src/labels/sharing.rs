//! How devices are shared, as far as labels tell.

/// What shares devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharingStrategy {
    /// Nothing.
    #[default]
    None,
    /// Time-slicing.
    TimeSlicing,
    /// MPS.
    Mps,
}

impl SharingStrategy {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "mps",
        }
    }
}

/// How one resource is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// What shares it.
    pub strategy: SharingStrategy,
    /// Seats a device; 1 is not shared.
    pub replicas: u32,
    /// Whether seats have a name of their own (`….shared`), so that the product need not say it.
    pub renamed: bool,
}

impl Default for Sharing {
    fn default() -> Self {
        Self { strategy: SharingStrategy::None, replicas: 1, renamed: false }
    }
}

impl Sharing {
    /// What is added to the product.
    pub(super) fn suffix(self) -> &'static str {
        if self.replicas > 1 && !self.renamed { "-SHARED" } else { "" }
    }
}
