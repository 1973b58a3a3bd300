use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rcgen::CertifiedKey;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::certificate::Look;
use super::*;
use crate::metrics::Metrics;
use crate::serve::{Ask, Health, Listen, start};

/// A certificate for 127.0.0.1 that vouches for itself.
struct Pair {
    certificate: String,
    key: String,
    der: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        Self { certificate: cert.pem(), key: signing_key.serialize_pem(), der: cert.der().to_vec() }
    }

    fn files(folder: &Path) -> CertificateFiles {
        CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }
    }

    fn write(&self, folder: &Path) {
        let files = Self::files(folder);
        fs::write(files.certificate, &self.certificate).unwrap();
        fs::write(files.key, &self.key).unwrap();
    }
}

/// A folder with a certificate in it that is looked at again at every turn.
fn loaded() -> (TempDir, Pair, Certificate) {
    let (folder, pair) = (tempfile::tempdir().unwrap(), Pair::new());
    pair.write(folder.path());
    let certificate = Certificate::load(Pair::files(folder.path()), Duration::ZERO).unwrap();
    (folder, pair, certificate)
}

/// What `/livez` answers to a new client that trusts this certificate and no other.
async fn livez(address: SocketAddr, trusted: &Pair) -> Result<String, String> {
    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![trusted.der.clone()]);
    config.default_retry = false;
    let client = kube::Client::try_from(config).unwrap();
    let request = http::Request::get("/livez").body(Vec::new()).unwrap();
    client.request_text(request).await.map_err(|error| format!("{error:?}"))
}

#[test]
fn files_that_make_no_certificate_say_why_and_which() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (Pair::new(), Pair::new());
    let broken = "-----BEGIN CERTIFICATE-----\nno base64!\n-----END CERTIFICATE-----\n";
    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let no_x509 = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (certificate, key, words) in [
        (None, Some(&*one.key), &["tlsCertFile ", "tls.crt: cannot be read", "No such file"][..]),
        (Some(&*one.certificate), None, &["tlsPrivateKeyFile ", "tls.key: cannot be read"]),
        (Some(""), Some(&*one.key), &["tlsCertFile ", "tls.crt: holds no certificate"]),
        (Some(&*one.key), Some(&*one.key), &["tls.crt: holds no certificate"]),
        (Some(broken), Some(&*one.key), &["tlsCertFile ", "tls.crt: is not PEM"]),
        (Some(&*one.certificate), Some(&*one.certificate), &["tlsPrivateKeyFile ", "tls.key: holds no private key"]),
        (Some(&*one.certificate), Some(nonsense), &["tls.crt", "tls.key cannot be used"]),
        (Some(no_x509), Some(&*one.key), &["tls.crt", "cannot be used"]),
        (Some(&*one.certificate), Some(&*other.key), &["tls.key is not that of the first certificate", "tls.crt"]),
    ] {
        let files = Pair::files(folder.path());
        for (file, text) in [(&files.certificate, certificate), (&files.key, key)] {
            match text {
                Some(text) => fs::write(file, text).unwrap(),
                // It may be there or not.
                None => drop(fs::remove_file(file)),
            }
        }
        let error = Certificate::load(files, Duration::ZERO).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}

#[test]
fn a_rotation_is_seen_and_a_broken_one_is_told_once() {
    let (folder, first, certificate) = loaded();
    let files = Pair::files(folder.path());
    assert!(certificate.is_due());
    assert!(matches!(certificate.look(), Look::Same));
    let second = Pair::new();
    // Half way through: the certificate is there, its key is not yet.
    fs::write(&files.certificate, &second.certificate).unwrap();
    assert!(matches!(certificate.look(), Look::Broken(CertificateError::Mismatch { .. })));
    assert!(matches!(certificate.look(), Look::Same), "told once");
    fs::write(&files.key, &second.key).unwrap();
    assert!(matches!(certificate.look(), Look::Renewed));
    assert!(matches!(certificate.look(), Look::Same));
    // Gone, and back as it was.
    fs::remove_file(&files.key).unwrap();
    assert!(matches!(certificate.look(), Look::Broken(CertificateError::Unreadable { .. })));
    assert!(matches!(certificate.look(), Look::Same), "told once");
    second.write(folder.path());
    assert!(matches!(certificate.look(), Look::Renewed));
    first.write(folder.path());
    assert!(matches!(certificate.look(), Look::Renewed));
}

#[tokio::test(start_paused = true)]
async fn files_are_looked_at_once_in_a_while() {
    let (folder, _, _) = loaded();
    let certificate = Certificate::load(Pair::files(folder.path()), Duration::from_secs(1)).unwrap();
    assert!(!certificate.is_due());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(certificate.is_due());
    assert!(!certificate.is_due(), "one looks for all");
}

#[tokio::test]
async fn connections_get_the_newest_good_certificate() {
    let (folder, first, certificate) = loaded();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let router = Router::new().route("/livez", get(|| async { "ok" }));
    tokio::spawn(axum::serve(TlsListener::new(tcp, certificate), router).into_future());
    assert_eq!(livez(address, &first).await.unwrap(), "ok");
    let second = Pair::new();
    assert!(livez(address, &second).await.is_err(), "it is not what is served");
    fs::write(Pair::files(folder.path()).certificate, &second.certificate).unwrap();
    assert_eq!(livez(address, &first).await.unwrap(), "ok", "the old one, as long as the new one is not whole");
    second.write(folder.path());
    assert_eq!(livez(address, &second).await.unwrap(), "ok");
    assert!(livez(address, &first).await.is_err(), "the old one is gone");
}

#[tokio::test]
async fn who_does_not_shake_hands_holds_up_nobody() {
    let (_folder, pair, certificate) = loaded();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let router = Router::new().route("/livez", get(|| async { "ok" }));
    tokio::spawn(axum::serve(TlsListener::new(tcp, certificate), router).into_future());
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(livez(address, &pair).await.unwrap(), "ok");
    // Nor does plain HTTP get an answer that could be taken for one.
    let mut plain = TcpStream::connect(address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"GET /livez HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // It may be closed with what it sent unread, which is an error here.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "{answer:?}");
}

/// Knows nothing.
struct Nobody;

impl Ask for Nobody {
    fn explain(&self, _: &str, _: &str) -> futures::future::BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

#[tokio::test]
async fn the_server_speaks_https_where_it_has_a_certificate() {
    let (folder, pair, _) = loaded();
    let files = Pair::files(folder.path());
    let listen = Listen { address: "127.0.0.1:0".parse().unwrap(), certificate: Some(files.clone()) };
    let (health, ask) = (Health::new(Duration::from_secs(15)), std::sync::Arc::new(Nobody));
    let begin = |listen: Listen| {
        start(listen, Metrics::new(), health.clone(), String::new(), ask.clone(), None, std::future::pending())
    };
    let (address, _) = begin(listen.clone()).await.unwrap();
    assert_eq!(livez(address, &pair).await.unwrap(), "ok");
    fs::remove_file(files.key).unwrap();
    let error = begin(listen).await.unwrap_err().to_string();
    assert!(error.contains("tlsPrivateKeyFile ") && error.contains("tls.key"), "{error}");
}
