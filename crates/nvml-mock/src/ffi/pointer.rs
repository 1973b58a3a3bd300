//! The pointers that callers give, and the only code that follows them.
//!
//! Each type is a pointer of C in the signature of an exported function. Null is refused. That anything else points to what
//! the signature says, and to nothing that another thread writes meanwhile, is the caller's part of NVML's contract. Nothing in
//! this crate makes such a value from Rust, so the methods are safe to call.
#![allow(unsafe_code, reason = "pointers of the caller; each block says why it may follow them")]

use std::ffi::{CStr, c_char, c_uint};

use super::call::Answer;
use crate::describe::NvmlError;

/// Where the caller wants a value, or has one.
#[repr(transparent)]
pub(super) struct Pointer<T>(*mut T);

// Derived, both would ask the same of `T`.
impl<T> Clone for Pointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pointer<T> {}

impl<T: Copy> Pointer<T> {
    /// Refuses null.
    pub fn check(self) -> Result<Self, NvmlError> {
        if self.0.is_null() { Err(NvmlError::InvalidArgument) } else { Ok(self) }
    }

    /// Gives the caller a value.
    pub fn set(self, value: T) -> Answer {
        self.check()?;
        // SAFETY: not null, so it points to room for a `T`. Callers in C need not align what is packed.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// What the caller has put there.
    pub fn get(self) -> Result<T, NvmlError> {
        self.check()?;
        // SAFETY: not null, so it points to a `T` that the caller has filled in.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The same place with another type: a structure whose version says which one it is.
    pub fn cast<U: Copy>(self) -> Pointer<U> {
        Pointer(self.0.cast())
    }

    /// The place right behind this one.
    pub fn behind<U: Copy>(self) -> Pointer<U> {
        self.at(1).cast()
    }

    /// The element of an array. The caller's count must say that it is there.
    fn at(self, index: usize) -> Self {
        // An address is only worked out here, and followed where it is used.
        Self(self.0.wrapping_add(index))
    }

    /// Whether the caller does not want it.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Gives the caller the elements of an array, as many as there are. The array must be known to be long enough.
    pub fn set_all(self, values: &[T]) -> Answer {
        values.iter().enumerate().try_for_each(|(index, value)| self.at(index).set(*value))
    }

    /// What the caller has put into an array of that length.
    pub fn get_all(self, length: usize) -> Result<Vec<T>, NvmlError> {
        (0..length).map(|index| self.at(index).get()).collect()
    }
}

/// A pointer that stands for something and is never followed.
#[repr(transparent)]
pub(super) struct Handle<T>(*mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> Handle<T> {
    /// Its number.
    pub fn number(self) -> usize {
        self.0.addr()
    }

    /// The handle with that number.
    pub fn new(number: usize) -> Self {
        Self(std::ptr::without_provenance_mut(number))
    }

    /// As it stands in structures of NVML.
    pub fn raw(self) -> *mut T {
        self.0
    }
}

/// A text of the caller's.
#[repr(transparent)]
pub(super) struct Words(*const c_char);

impl Words {
    /// The text, which must be UTF-8: names of devices are.
    pub fn get(&self) -> Result<&str, NvmlError> {
        if self.0.is_null() {
            return Err(NvmlError::InvalidArgument);
        }
        // SAFETY: not null, so it points to a text that ends with a zero and stays for the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| NvmlError::InvalidArgument)
    }
}

/// Gives the caller a text with its zero, if the buffer is large enough.
pub(super) fn text(buffer: Pointer<c_char>, length: c_uint, text: &str) -> Answer {
    buffer.check()?;
    if text.len() >= length as usize {
        return Err(NvmlError::InsufficientSize);
    }
    let characters: Vec<_> = text.bytes().chain([0]).map(c_char_of).collect();
    buffer.set_all(&characters)
}

/// A text in a field of a structure, cut to leave room for its zero.
pub(super) fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (place, byte) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *place = c_char_of(byte);
    }
    field
}

/// The character of a byte, whatever sign C gives it here.
fn c_char_of(byte: u8) -> c_char {
    c_char::from_ne_bytes([byte])
}

/// Gives the caller a list in NVML's way: the count says how many there is room for and then how many there are. If the room
/// is too small, only the count is set.
pub(super) fn list<T: Copy>(count: Pointer<c_uint>, room: Pointer<T>, items: &[T]) -> Answer {
    let most = count.get()? as usize;
    count.set(c_uint::try_from(items.len()).map_err(|_| NvmlError::Unknown)?)?;
    if items.len() > most {
        return Err(NvmlError::InsufficientSize);
    }
    room.set_all(items)
}

/// The same for lists whose count is only for the answer: the caller knows how many there can be, or asks without room.
pub(super) fn told<T: Copy>(count: Pointer<c_uint>, room: Pointer<T>, items: &[T]) -> Answer {
    count.check()?;
    if !room.is_null() {
        room.set_all(items)?;
    }
    count.set(c_uint::try_from(items.len()).map_err(|_| NvmlError::Unknown)?)
}

/// How NVML tags a structure: its size, and which edition of it this is.
pub(super) const fn version<T>(edition: u32) -> u32 {
    // No structure of NVML comes near 16 MiB.
    size_of::<T>() as u32 | edition << 24
}
