//! What the tests of the built library have in common.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![allow(unsafe_code, reason = "what nvml-wrapper does not cover is called as C does it")]

pub mod mig;

use gpu_scheduler_nvml_mock::{Installation, Node};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

/// A node behind a library of its own.
pub struct Loaded {
    // Dropped first: it calls the library once more.
    pub nvml: Nvml,
    pub installation: Installation,
}

impl Loaded {
    pub fn new(node: &Node) -> Self {
        let installation = Installation::new(node).unwrap();
        let nvml = init(&installation);
        Self { nvml, installation }
    }

    pub fn of(yaml: &str) -> Self {
        Self::new(&Node::parse(yaml).unwrap())
    }

    pub fn gpu(&self, index: u32) -> Device<'_> {
        self.nvml.device_by_index(index).unwrap()
    }

    pub fn handle(&self, index: u32) -> nvmlDevice_t {
        // SAFETY: it is used as long as the library is loaded.
        unsafe { self.gpu(index).handle() }
    }

    /// Writes the description anew.
    pub fn write(&self, yaml: &str) {
        self.installation.write(&Node::parse(yaml).unwrap()).unwrap();
    }
}

pub fn init(installation: &Installation) -> Nvml {
    Nvml::builder().lib_path(installation.library().as_os_str()).init().unwrap()
}

/// Calls a symbol as C does.
#[macro_export]
macro_rules! raw {
    ($nvml:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let function = $nvml.lib().$function.as_ref().expect(stringify!($function));
        #[allow(clippy::macro_metavars_in_unsafe, reason = "the arguments are values and pointers to locals")]
        // SAFETY: the arguments are of the types of the header, and live through the call.
        unsafe { function($($argument),*) }
    }};
}

/// What raw calls return.
pub const SUCCESS: nvmlReturn_t = 0;
