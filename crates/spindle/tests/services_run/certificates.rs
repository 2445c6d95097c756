//! Authorities and certificates of a test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// The name in the gateway's certificates.
pub(crate) const NAME: &str = "gateway.example";

/// An authority, with the files of its own certificate and of those that it signed, for a gateway and a client.
pub(crate) struct Authority {
    pub(crate) ca: PathBuf,
    pub(crate) gateway: (PathBuf, PathBuf),
    pub(crate) client: (PathBuf, PathBuf),
}

impl Authority {
    pub(crate) fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let own = params.self_signed(&key).expect("a certificate");
        let ca = directory.join(format!("{name}-ca.pem"));
        std::fs::write(&ca, own.pem()).expect("a file");
        let issuer = Issuer::new(params, key);
        let sign = |host: &str, who: &str| {
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new([host.to_owned()]).expect("a name");
            let signed = params.signed_by(&key, &issuer).expect("a certificate");
            let at = |what: &str| directory.join(format!("{name}-{who}.{what}"));
            std::fs::write(at("crt"), signed.pem()).expect("a file");
            std::fs::write(at("key"), key.serialize_pem()).expect("a file");
            (at("crt"), at("key"))
        };
        Self {
            ca,
            gateway: sign(NAME, "gateway"),
            client: sign("client.example", "client"),
        }
    }
}
