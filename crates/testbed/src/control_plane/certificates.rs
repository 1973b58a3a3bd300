//! Throwaway keys: one authority, one certificate for all servers, one by which kubelets know the API server, one key for
//! service account tokens.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::ControlPlaneError;
use super::error::write;

/// Files in the folder of one control plane.
#[derive(Debug)]
pub(super) struct Certificates {
    /// The authority, as PEM: what clients trust.
    pub(super) authority_pem: String,
    pub(super) authority_der: Vec<u8>,
    pub(super) authority: PathBuf,
    pub(super) authority_key: PathBuf,
    pub(super) serving: PathBuf,
    pub(super) serving_key: PathBuf,
    /// What the API server shows to kubelets, so that nobody else on this machine may look into containers.
    pub(super) kubelet_client: PathBuf,
    pub(super) kubelet_client_key: PathBuf,
    pub(super) service_account_public: PathBuf,
    pub(super) service_account_key: PathBuf,
}

impl Certificates {
    /// Makes them in `folder`, which exists.
    pub(super) fn create(folder: &Path) -> Result<Self, ControlPlaneError> {
        let failed = |what| move |source| ControlPlaneError::Certificate { what, source };

        let key = KeyPair::generate().map_err(failed("key of the authority"))?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "gpu-scheduler testbed");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = params.self_signed(&key).map_err(failed("certificate of the authority"))?;
        let key_pem = key.serialize_pem();
        let issuer = Issuer::new(params, key);

        let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
        let mut params = CertificateParams::new(names).map_err(failed("names of the serving certificate"))?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving_key = KeyPair::generate().map_err(failed("serving key"))?;
        let serving = params.signed_by(&serving_key, &issuer).map_err(failed("serving certificate"))?;

        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver-kubelet-client");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = KeyPair::generate().map_err(failed("key towards kubelets"))?;
        let client = params.signed_by(&client_key, &issuer).map_err(failed("certificate towards kubelets"))?;

        let service_account = KeyPair::generate().map_err(failed("key of service accounts"))?;

        let certificates = Self {
            authority_pem: authority.pem(),
            authority_der: authority.der().to_vec(),
            authority: folder.join("ca.crt"),
            authority_key: folder.join("ca.key"),
            serving: folder.join("serving.crt"),
            serving_key: folder.join("serving.key"),
            kubelet_client: folder.join("kubelet-client.crt"),
            kubelet_client_key: folder.join("kubelet-client.key"),
            service_account_public: folder.join("service-account.pub"),
            service_account_key: folder.join("service-account.key"),
        };
        write(&certificates.authority, &certificates.authority_pem)?;
        write(&certificates.authority_key, &key_pem)?;
        write(&certificates.serving, &serving.pem())?;
        write(&certificates.serving_key, &serving_key.serialize_pem())?;
        write(&certificates.kubelet_client, &client.pem())?;
        write(&certificates.kubelet_client_key, &client_key.serialize_pem())?;
        write(&certificates.service_account_public, &service_account.public_key_pem())?;
        write(&certificates.service_account_key, &service_account.serialize_pem())?;
        Ok(certificates)
    }

    /// How a server of ours is told to use the serving certificate.
    pub(super) fn serving_args(&self) -> [String; 2] {
        [
            format!("--tls-cert-file={}", self.serving.display()),
            format!("--tls-private-key-file={}", self.serving_key.display()),
        ]
    }
}
