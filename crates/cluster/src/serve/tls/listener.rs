//! Connections that have shaken hands.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info, warn};

use super::certificate::{Certificate, Look};

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes at a time. Beyond that others wait in the kernel's queue.
const HANDSHAKES: usize = 256;

/// A TCP listener that hands out connections once they are encrypted. Handshakes go on beside each other, so a client
/// that says nothing holds up nobody.
pub struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl TlsListener {
    /// Serves with this certificate, whatever it becomes.
    pub fn new(tcp: TcpListener, certificate: Certificate) -> Self {
        let certificate = Arc::new(certificate);
        let mut config = ServerConfig::builder_with_provider(certificate.provider())
            .with_safe_default_protocol_versions()
            .expect("ring has what TLS 1.2 and 1.3 need")
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { tcp, acceptor: TlsAcceptor::from(Arc::new(config)), certificate, handshakes: JoinSet::new() }
    }

    fn shake_hands(&mut self, stream: TcpStream, peer: SocketAddr) {
        let (acceptor, certificate) = (self.acceptor.clone(), self.certificate.clone());
        self.handshakes.spawn(async move {
            if certificate.is_due() {
                look(certificate).await;
            }
            match timeout(PATIENCE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => Some((stream, peer)),
                // Whoever speaks plain HTTP here, or does not trust the certificate, is told so by their own side.
                Ok(Err(error)) => {
                    debug!(%peer, %error, "a TLS handshake failed");
                    None
                }
                Err(_) => {
                    debug!(%peer, "a TLS handshake took longer than {PATIENCE:?}");
                    None
                }
            }
        });
    }
}

/// Looks at the files, off the threads that must not wait for a disk, and says what changed.
async fn look(certificate: Arc<Certificate>) {
    let looked = tokio::task::spawn_blocking(move || certificate.look());
    match timeout(PATIENCE, looked).await {
        Ok(Ok(Look::Renewed)) => info!("the certificate files have changed; the new certificate is served from now on"),
        Ok(Ok(Look::Broken(error))) => {
            warn!(%error, "the certificate files have changed and make no certificate; the old one is served on");
        }
        Ok(Ok(Look::Same)) => {}
        // A disk that hangs costs the look, not the connection.
        Ok(Err(_)) | Err(_) => warn!("the certificate files could not be looked at; the old certificate is served on"),
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // Both can be dropped half way without a loss: axum stops listening by dropping this.
            tokio::select! {
                (stream, peer) = Listener::accept(&mut self.tcp), if self.handshakes.len() < HANDSHAKES => {
                    self.shake_hands(stream, peer);
                }
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}
