//! How an exported function is made.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nvml_wrapper_sys::bindings::{nvmlReturn_enum_NVML_SUCCESS, nvmlReturn_t};

use crate::describe::{Function, NvmlError};
use crate::driver::Driver;

/// What an exported function works out.
pub(super) type Answer = Result<(), NvmlError>;

/// Turns an answer into NVML's number, and a panic into an error: the caller is no Rust.
pub(super) fn answer(body: impl FnOnce() -> Answer) -> nvmlReturn_t {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => nvmlReturn_enum_NVML_SUCCESS,
        Ok(Err(error)) => error.code(),
        Err(_) => NvmlError::Unknown.code(),
    }
}

/// A call of an initialised library.
pub(super) fn call(function: &'static str, body: impl FnOnce(&mut Driver) -> Answer) -> nvmlReturn_t {
    answer(|| {
        let mut driver = Driver::lock();
        driver.begin(Function::exported(function))?;
        body(&mut driver)
    })
}

/// Exports functions, and lists their names. Each body is a closure that is given the driver.
macro_rules! exports {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) => $body:expr;)*) => {
        $(
            $(#[$meta])*
            #[expect(unsafe_code, reason = "a library in C has its names for itself")]
            #[unsafe(no_mangle)]
            extern "C" fn $name($($argument: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
                $crate::ffi::call::call(stringify!($name), $body)
            }
        )*

        /// The names of what is exported here.
        pub(super) const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

pub(super) use exports;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_cross_the_border() {
        assert_eq!(answer(|| panic!("on purpose")), NvmlError::Unknown.code());
        assert_eq!(answer(|| Err(NvmlError::InUse)), NvmlError::InUse.code());
        assert_eq!(answer(|| Ok(())), nvmlReturn_enum_NVML_SUCCESS);
    }
}
