//! An authority of a test, whose certificates and revocation lists have any content.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};

/// The name in the gateway's certificates.
pub(crate) const NAME: &str = "gateway.example";

/// An authority with a directory for its files.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
    pub(crate) pem: PathBuf,
}

/// A certificate and its key, in files.
pub(crate) struct Identity {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Identity {
    pub(crate) fn paths(&self) -> Option<(&Path, &Path)> {
        Some((&self.cert, &self.key))
    }
}

impl Authority {
    /// An authority of this common name, whose own certificate is in `FILE.pem`.
    pub(crate) fn new(directory: &Path, name: &str, file: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = directory.join(format!("{file}.pem"));
        let own: Certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(&pem, own.pem()).expect("a file");
        Self {
            issuer: Issuer::new(params, key),
            directory: directory.to_owned(),
            pem,
        }
    }

    /// Signs a certificate for `host` with this serial number, after `change` has changed it.
    pub(crate) fn sign(
        &self,
        host: &str,
        serial: u64,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        params.serial_number = Some(SerialNumber::from(serial));
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let at = |what: &str| self.directory.join(format!("{host}-{serial}.{what}"));
        let identity = Identity {
            cert: at("crt"),
            key: at("key"),
        };
        std::fs::write(&identity.cert, certificate.pem()).expect("a file");
        std::fs::write(&identity.key, key.serialize_pem()).expect("a file");
        identity
    }

    /// Writes a revocation list of these serial numbers to a file.
    pub(crate) fn revoke(&self, serials: &[u64], path: &Path) {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1 + serials.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("a list");
        std::fs::write(path, list.pem().expect("PEM")).expect("a file");
    }
}
