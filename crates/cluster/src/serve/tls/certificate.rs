//! The certificate that is served now, and when to look for the next one.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::files::{CertificateError, CertificateFiles};

/// A certificate that follows its files. They are looked at when somebody connects, at most once in a while: a file
/// that nobody is served from needs no look, and kubelets connect every few seconds. Contents are compared, not times,
/// because a mounted secret is swapped by a link.
#[derive(Debug)]
pub struct Certificate {
    files: CertificateFiles,
    provider: Arc<CryptoProvider>,
    /// The time between two looks.
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    served: Arc<CertifiedKey>,
    /// What was seen last, good or bad, so that each is told once. A hash: the key need not lie about twice.
    seen: u64,
    looked: Instant,
}

/// What a look has found.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing that was not seen before.
    Same,
    /// Another certificate, which is served from now on.
    Renewed,
    /// Files that make none; what was served is served on.
    Broken(CertificateError),
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// If they hold no certificate that can be served with.
    pub fn load(files: CertificateFiles, every: Duration) -> Result<Self, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let contents = files.read()?;
        let served = Arc::new(files.parse(&contents, &provider)?);
        let state = State { served, seen: hash(&Ok(contents)), looked: Instant::now() };
        Ok(Self { files, provider, every, state: Mutex::new(state) })
    }

    /// What TLS is done with.
    pub(super) fn provider(&self) -> Arc<CryptoProvider> {
        self.provider.clone()
    }

    /// Whether it is time for a look. Whoever is told so does it: nobody else is told until the next one is due.
    pub(super) fn is_due(&self) -> bool {
        let mut state = self.state();
        let due = state.looked.elapsed() >= self.every;
        if due {
            state.looked = Instant::now();
        }
        due
    }

    /// Reads the files again. It waits for the disk.
    pub(super) fn look(&self) -> Look {
        let read = self.files.read();
        let seen = hash(&read);
        if std::mem::replace(&mut self.state().seen, seen) == seen {
            return Look::Same;
        }
        match read.and_then(|contents| self.files.parse(&contents, &self.provider)) {
            Ok(served) => {
                self.state().served = Arc::new(served);
                Look::Renewed
            }
            Err(error) => Look::Broken(error),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.state().served.clone())
    }
}

fn hash(read: &Result<super::files::Contents, CertificateError>) -> u64 {
    let read = read.as_ref().map_err(ToString::to_string);
    BuildHasherDefault::<DefaultHasher>::default().hash_one(read)
}
