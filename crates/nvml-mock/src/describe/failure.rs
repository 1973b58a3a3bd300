//! Calls that fail on purpose, and NVML's errors.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which of NVML's functions answer with an error, whatever they are asked.
pub type Failures = BTreeMap<Function, NvmlError>;

/// The name of a function that the library exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function(&'static str);

impl Function {
    /// The function of that name, if the library exports one.
    pub fn named(name: &str) -> Option<Self> {
        crate::ffi::functions().find(|function| *function == name).map(Self)
    }

    pub(crate) const fn exported(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// All that the library exports.
    pub fn all() -> impl Iterator<Item = Self> {
        crate::ffi::functions().map(Self)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Function {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Function {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name)
            .ok_or_else(|| D::Error::custom(format!("the library has no function {name:?} that could fail")))
    }
}

/// Declares NVML's errors once: the name without `NVML_ERROR_`, its number and what `nvmlErrorString` says of it.
macro_rules! errors {
    ($($(#[$doc:meta])* $variant:ident = $code:ident, $text:literal;)*) => {
        /// What an NVML function answers when it does not succeed. In a description it is written as in NVML's header without
        /// the prefix: `GPU_IS_LOST`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum NvmlError { $($(#[$doc])* $variant,)* }

        impl NvmlError {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The number that the function returns.
            pub fn code(self) -> u32 {
                match self { $(Self::$variant => nvml_wrapper_sys::bindings::$code,)* }
            }

            /// What `nvmlErrorString` says of it.
            pub fn text(self) -> &'static CStr {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

errors! {
    /// `nvmlInit` was not called.
    Uninitialized = nvmlReturn_enum_NVML_ERROR_UNINITIALIZED, c"Uninitialized";
    /// An argument is null, out of range or of another kind.
    InvalidArgument = nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT, c"Invalid Argument";
    /// The device cannot do it, or not in its present mode.
    NotSupported = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED, c"Not Supported";
    /// The caller may not do it.
    NoPermission = nvmlReturn_enum_NVML_ERROR_NO_PERMISSION, c"Insufficient Permissions";
    /// Deprecated: NVML may be initialised more than once.
    AlreadyInitialized = nvmlReturn_enum_NVML_ERROR_ALREADY_INITIALIZED, c"Already Initialized";
    /// There is no such thing.
    NotFound = nvmlReturn_enum_NVML_ERROR_NOT_FOUND, c"Not Found";
    /// The caller's buffer is too small.
    InsufficientSize = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE, c"Insufficient Size";
    /// A power cable is missing.
    InsufficientPower = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_POWER, c"Insufficient External Power";
    /// There is no driver in the kernel.
    DriverNotLoaded = nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED, c"Driver Not Loaded";
    /// Nothing happened in the time that was given.
    Timeout = nvmlReturn_enum_NVML_ERROR_TIMEOUT, c"Timeout";
    /// Interrupts of the card do not arrive.
    IrqIssue = nvmlReturn_enum_NVML_ERROR_IRQ_ISSUE, c"Interrupt Request Issue";
    /// A library that NVML needs is missing.
    LibraryNotFound = nvmlReturn_enum_NVML_ERROR_LIBRARY_NOT_FOUND, c"NVML Shared Library Not Found";
    /// The driver does not know the function.
    FunctionNotFound = nvmlReturn_enum_NVML_ERROR_FUNCTION_NOT_FOUND, c"Function Not Found";
    /// The board's configuration memory is broken.
    CorruptedInforom = nvmlReturn_enum_NVML_ERROR_CORRUPTED_INFOROM, c"Corrupted infoROM";
    /// The card fell off the bus.
    GpuIsLost = nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST, c"GPU is lost";
    /// The card must be reset first.
    ResetRequired = nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED, c"GPU requires reset";
    /// The operating system forbids it.
    OperatingSystem = nvmlReturn_enum_NVML_ERROR_OPERATING_SYSTEM, c"The operating system has blocked the request";
    /// Library and kernel driver are of different versions.
    LibRmVersionMismatch = nvmlReturn_enum_NVML_ERROR_LIB_RM_VERSION_MISMATCH, c"RM has detected an NVML/RM version mismatch";
    /// Somebody uses the card or instance.
    InUse = nvmlReturn_enum_NVML_ERROR_IN_USE, c"In use by another client";
    /// Out of memory.
    Memory = nvmlReturn_enum_NVML_ERROR_MEMORY, c"Insufficient Memory";
    /// There are no samples yet.
    NoData = nvmlReturn_enum_NVML_ERROR_NO_DATA, c"No data";
    /// ECC rules vGPU out.
    VgpuEccNotSupported = nvmlReturn_enum_NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, c"vGPU ECC not supported";
    /// There is no room for the instance.
    InsufficientResources = nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_RESOURCES, c"Insufficient Resources";
    /// The clock cannot be set so.
    FreqNotSupported = nvmlReturn_enum_NVML_ERROR_FREQ_NOT_SUPPORTED, c"Frequency not supported";
    /// The structure's version is unknown.
    ArgumentVersionMismatch = nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH, c"Argument version mismatch";
    /// The function is no more.
    Deprecated = nvmlReturn_enum_NVML_ERROR_DEPRECATED, c"Deprecated";
    /// The system is not ready yet.
    NotReady = nvmlReturn_enum_NVML_ERROR_NOT_READY, c"Not Ready";
    /// There are no cards.
    GpuNotFound = nvmlReturn_enum_NVML_ERROR_GPU_NOT_FOUND, c"GPU Not Found";
    /// It cannot be done in the present state.
    InvalidState = nvmlReturn_enum_NVML_ERROR_INVALID_STATE, c"Invalid State";
    /// The card cannot be reset so.
    ResetTypeNotSupported = nvmlReturn_enum_NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, c"Reset type not supported";
    /// Something inside went wrong.
    Unknown = nvmlReturn_enum_NVML_ERROR_UNKNOWN, c"Unknown Error";
}

impl NvmlError {
    /// The error with that number.
    pub fn of(code: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|error| error.code() == code)
    }
}
