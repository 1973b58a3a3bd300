//! HTTPS on the server's port: a certificate from two files, looked at again while the process runs, as secrets are
//! rotated.

mod certificate;
mod files;
mod listener;

pub use files::{CertificateError, CertificateFiles};

pub(super) use certificate::Certificate;
pub(super) use listener::TlsListener;

#[cfg(test)]
mod tests;
