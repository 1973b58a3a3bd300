//! Health and metrics over HTTPS.

use std::path::Path;

use rcgen::CertifiedKey;

use crate::process::{Process, folder};

/// Writes a certificate for 127.0.0.1 that vouches for itself; returns it.
fn certificate(folder: &Path) -> Vec<u8> {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("tls.crt"), cert.pem()).expect("a file");
    std::fs::write(folder.join("tls.key"), signing_key.serialize_pem()).expect("a file");
    cert.der().to_vec()
}

#[tokio::test]
async fn with_both_files_the_port_speaks_https() {
    let folder = folder("");
    let trusted = certificate(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, key) = (path("tls.crt"), path("tls.key"));
    let mut process = Process::start(folder.path(), &["--tls-cert-file", &file, "--tls-private-key-file", &key]);
    let address = process.address().await;
    let mut config = kube::Config::new(format!("https://{address}").parse().expect("a URL"));
    config.root_cert = Some(vec![trusted]);
    let client = kube::Client::try_from(config).expect("a client");
    for (page, words) in [("/livez", "ok"), ("/metrics", "# EOF"), ("/configz", "tlsPrivateKeyFile")] {
        let request = http::Request::get(page).body(Vec::new()).expect("a request");
        let text = client.request_text(request).await.expect("an answer");
        assert!(text.contains(words), "{page}: {text}");
    }
    let (status, log) = process.stop().await;
    assert!(status.success(), "{log}");
}

#[tokio::test]
async fn files_that_are_no_certificate_are_an_error_at_the_start() {
    let folder = folder("tlsCertFile: /nonexistent/tls.crt\ntlsPrivateKeyFile: /nonexistent/tls.key\n");
    let (status, log) = Process::start(folder.path(), &[]).ended().await;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("tlsCertFile /nonexistent/tls.crt: cannot be read"), "{log}");
}

#[tokio::test]
async fn half_a_certificate_is_wrong_use() {
    for flag in ["--tls-cert-file", "--tls-private-key-file"] {
        let folder = folder("");
        let (status, log) = Process::start(folder.path(), &[flag, "file"]).ended().await;
        assert_eq!(status.code(), Some(2), "{log}");
        assert!(log.contains("--tls-cert-file") && log.contains("--tls-private-key-file"), "{log}");
    }
}
