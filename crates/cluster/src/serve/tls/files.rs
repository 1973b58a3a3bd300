//! The two files and what must be in them.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error as RustlsError, InconsistentKeys};

/// Where a certificate and its key are, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The server's certificate, and after it those that lead to the authority (`tlsCertFile`).
    pub certificate: PathBuf,
    /// The key of the first one, without a passphrase (`tlsPrivateKeyFile`).
    pub key: PathBuf,
}

/// Why two files make no certificate to serve with.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{field} {}: cannot be read: {why}; correct the path, or mount the secret there", path.display())]
    Unreadable {
        /// The field that names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// What is between BEGIN and END is not what PEM has there.
    #[error("{field} {}: is not PEM: {why}; write it as kubectl create secret tls takes it", path.display())]
    NotPem {
        /// The field that names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: pem::Error,
    },
    /// There is no certificate.
    #[error("tlsCertFile {}: holds no certificate; write PEM, the server's own certificate first", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// There is no key.
    #[error("tlsPrivateKeyFile {}: holds no private key; write PEM, without a passphrase", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Each is fine by itself.
    #[error(
        "the key in tlsPrivateKeyFile {} is not that of the first certificate in tlsCertFile {}; write files that \
         belong together", key.display(), certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// There is no way to serve with them.
    #[error(
        "tlsCertFile {} and tlsPrivateKeyFile {} cannot be used: {why}; write an X.509 certificate with a key of RSA, \
         ECDSA (P-256, P-384) or Ed25519", certificate.display(), key.display()
    )]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        why: RustlsError,
    },
}

const CERTIFICATE: &str = "tlsCertFile";
const KEY: &str = "tlsPrivateKeyFile";

/// What the two files hold.
#[derive(Hash)]
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    pub(super) fn read(&self) -> Result<Contents, CertificateError> {
        let read = |field, path: &Path| {
            std::fs::read(path).map_err(|why| CertificateError::Unreadable { field, path: path.to_owned(), why })
        };
        Ok(Contents { certificate: read(CERTIFICATE, &self.certificate)?, key: read(KEY, &self.key)? })
    }

    /// The certificate and key that are in them, known to belong together.
    pub(super) fn parse(
        &self,
        contents: &Contents,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, CertificateError> {
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents.certificate).collect();
        let chain = match chain {
            Ok(chain) if chain.is_empty() => return Err(CertificateError::NoCertificate { path: certificate }),
            Ok(chain) => chain,
            Err(why) => return Err(CertificateError::NotPem { field: CERTIFICATE, path: certificate, why }),
        };
        let private = match PrivateKeyDer::from_pem_slice(&contents.key) {
            Ok(private) => private,
            Err(pem::Error::NoItemsFound) => return Err(CertificateError::NoKey { path: key }),
            Err(why) => return Err(CertificateError::NotPem { field: KEY, path: key, why }),
        };
        CertifiedKey::from_der(chain, private, provider).map_err(|why| match why {
            RustlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                CertificateError::Mismatch { certificate, key }
            }
            why => CertificateError::Unusable { certificate, key, why },
        })
    }
}
