//! The scheduling framework.
/// A plugin's name.
pub type PluginName = &'static str;
