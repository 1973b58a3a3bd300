//! Traces of the scheduler's work, in builds that can send them.

// For its tests too, so that one build with all features looks at all code.
#[cfg(any(test, not(feature = "otlp")))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod sampler;
#[cfg(feature = "otlp")]
mod sender;

#[cfg(not(feature = "otlp"))]
pub use none::Traces;
#[cfg(feature = "otlp")]
pub use otlp::Traces;
