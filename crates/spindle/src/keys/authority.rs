//! The authority of a gateway: its certificate (RFC 5280), and what it signs.

use std::net::IpAddr;

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, RevokedCertParams, SanType, SerialNumber,
};
use sha2::{Digest, Sha256};
use spindle_net::{random_bytes, tls};
use time::{Duration, OffsetDateTime};

use super::register::Register;
use super::{KeyDirectory, KeysError, read};

/// How long the authority's certificate is valid: ten years (our choice). All clients need a new bundle when it ends.
const AUTHORITY_DAYS: i64 = 3650;
/// Certificates are valid from an hour ago, so that a host whose clock is slow accepts them.
const BACKDATED: Duration = Duration::hours(1);
/// The longest DNS name (RFC 1035, section 2.3.4, without the dots of the root), and the longest label.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// An authority that can sign.
pub(crate) struct Authority {
    /// Its certificate in PEM form.
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
    ends: OffsetDateTime,
}

/// A certificate that the authority has signed.
pub(crate) struct Signed {
    pub(crate) pem: String,
    /// In lower-case hexadecimal digits.
    pub(crate) serial: String,
    pub(crate) ends: OffsetDateTime,
}

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    /// A gateway with these DNS names and IP addresses, at least one.
    Gateway(&'a [String]),
    /// A client of this name.
    Client(&'a str),
}

/// A new key: ECDSA over P-256.
pub(crate) fn new_key() -> Result<KeyPair, KeysError> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

/// A key in PEM form.
pub(crate) fn key_from(text: &str, path: &std::path::Path) -> Result<KeyPair, KeysError> {
    // rcgen's error does not say more, and must not.
    KeyPair::from_pem(text).map_err(|_| KeysError::Unfit {
        path: path.to_owned(),
        problem: "found no private key in PEM form that can sign".to_owned(),
    })
}

/// The common parts of all certificates: a random serial number of 128 bits (RFC 5280, section 4.1.2.2: at most 20
/// bytes) and the validity.
fn params(common_name: &str, ends: OffsetDateTime) -> Result<CertificateParams, KeysError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.serial_number = Some(SerialNumber::from_slice(&random_bytes::<16>()?));
    params.not_before = OffsetDateTime::now_utc() - BACKDATED;
    params.not_after = ends;
    params.key_identifier_method = KeyIdMethod::Sha256;
    Ok(params)
}

impl Authority {
    /// Makes an authority for a gateway of this name. Returns its key in PEM form as well.
    pub(crate) fn new(gateway: &str) -> Result<(Self, String), KeysError> {
        // The number tells authorities of the same gateway apart: a revocation list names its authority only.
        let number = HEXLOWER.encode(&random_bytes::<4>()?);
        let name = format!("Spindle authority {number} of {gateway}");
        // A common name has at most 64 characters (RFC 5280, appendix A.1, ub-common-name).
        let name: String = name.chars().take(64).collect();
        let ends = OffsetDateTime::now_utc() + Duration::days(AUTHORITY_DAYS);
        let mut params = params(&name, ends)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = new_key()?;
        let text = key.serialize_pem();
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok((Self { pem, issuer, ends }, text))
    }

    /// Reads the authority of a directory.
    pub(crate) fn read(directory: &KeyDirectory) -> Result<Self, KeysError> {
        let path = directory.authority_certificate();
        let pem = read(&path)?;
        let key_path = directory.authority_key();
        let key = key_from(&read(&key_path)?, &key_path)?;
        let unfit = |problem: String| KeysError::Unfit {
            path: path.clone(),
            problem,
        };
        let certificate = tls::Certificate::read_pem(&pem).map_err(unfit)?;
        if !certificate.authority {
            return Err(unfit("not a certificate of an authority".to_owned()));
        }
        let hash: [u8; 32] = Sha256::digest(key.subject_public_key_info()).into();
        if hash != certificate.key_hash {
            let problem = "not the key of ca.pem; want the key that was made with it".to_owned();
            return Err(KeysError::Unfit {
                path: key_path,
                problem,
            });
        }
        let ends = OffsetDateTime::from_unix_timestamp(certificate.ends);
        let issuer = Issuer::from_ca_cert_pem(&pem, key);
        let issuer = issuer.map_err(|e| unfit(e.to_string()))?;
        let ends = ends.map_err(|e| unfit(e.to_string()))?;
        if ends < OffsetDateTime::now_utc() {
            let date = tls::date(certificate.ends);
            return Err(unfit(format!(
                "the authority ended on {date}; make a new one in another directory with `spindle keygen`, and \
                 enroll all clients again"
            )));
        }
        Ok(Self { pem, issuer, ends })
    }

    /// Signs a certificate for `key`. It ends with the authority at the latest.
    pub(crate) fn sign(
        &self,
        subject: Subject<'_>,
        days: u32,
        key: &KeyPair,
    ) -> Result<Signed, KeysError> {
        let ends = OffsetDateTime::now_utc() + Duration::days(days.into());
        let ends = ends.min(self.ends);
        let name = match subject {
            Subject::Gateway(names) => names.first().map_or("gateway", String::as_str),
            Subject::Client(name) => name,
        };
        let common: String = name.chars().take(64).collect();
        let mut params = params(&common, ends)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let (usage, names) = match subject {
            Subject::Gateway(names) => (ExtendedKeyUsagePurpose::ServerAuth, names.to_vec()),
            Subject::Client(name) => (ExtendedKeyUsagePurpose::ClientAuth, vec![name.to_owned()]),
        };
        params.extended_key_usages = vec![usage];
        params.subject_alt_names = names
            .iter()
            .map(|name| match (subject, name.parse::<IpAddr>()) {
                (Subject::Gateway(_), Ok(addr)) => Ok(SanType::IpAddress(addr)),
                _ => Ok(SanType::DnsName(name.as_str().try_into()?)),
            })
            .collect::<Result<_, rcgen::Error>>()?;
        let certificate = params.signed_by(key, &self.issuer)?;
        Ok(Signed {
            serial: serial(&certificate)?,
            pem: certificate.pem(),
            ends,
        })
    }

    /// The list of all revoked certificates of the register, in PEM form.
    pub(crate) fn revocation_list(&self, register: &Register) -> Result<String, KeysError> {
        let revoked = register.clients.iter().filter_map(|c| {
            Some(RevokedCertParams {
                serial_number: SerialNumber::from(HEXLOWER.decode(c.serial.as_bytes()).ok()?),
                revocation_time: c.revoked?,
                reason_code: None,
                invalidity_date: None,
            })
        });
        let revoked_certs: Vec<_> = revoked.collect();
        let params = CertificateRevocationListParams {
            this_update: OffsetDateTime::now_utc() - BACKDATED,
            // The list is read from a file that `revoke` replaces, and never fetched.
            next_update: self.ends,
            // It grows with each revocation, as RFC 5280, section 5.2.3 requires.
            crl_number: SerialNumber::from(revoked_certs.len() as u64 + 1),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }
}

fn serial(certificate: &Certificate) -> Result<String, KeysError> {
    let read = tls::Certificate::read(certificate.der());
    // rcgen has just written it.
    read.map(|c| c.serial)
        .map_err(|_| rcgen::Error::CouldNotParseCertificate.into())
}

/// Checks a name of a gateway: a DNS name without wildcards, or an IP address.
pub(crate) fn gateway_name(name: &str) -> Result<(), KeysError> {
    let label = |l: &str| {
        let character = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        (1..=LONGEST_LABEL).contains(&l.len()) && l.chars().all(character) && !l.starts_with('-')
    };
    let is_name = name.len() <= LONGEST_NAME && name.split('.').all(label);
    match is_name || name.parse::<IpAddr>().is_ok() {
        true => Ok(()),
        false => Err(KeysError::Flag {
            flag: "name",
            problem: format!(
                "found \"{name}\", want a DNS name or an IP address without a port, such as gateway.example or \
                 192.0.2.1"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pem: &str) -> tls::Certificate {
        tls::Certificate::read_pem(pem).unwrap()
    }

    #[test]
    fn certificates_have_names_purposes_and_random_serials() {
        let (authority, _) = Authority::new("gateway.example").unwrap();
        let own = read(&authority.pem);
        assert!(own.authority && own.names[0].ends_with("of gateway.example"));
        let key = new_key().unwrap();
        let names = ["gateway.example", "192.0.2.1", "2001:db8::1"].map(str::to_owned);
        let gateway = authority.sign(Subject::Gateway(&names), 825, &key).unwrap();
        let found = read(&gateway.pem);
        assert_eq!(found.names, names);
        assert!(found.for_servers && !found.for_clients && !found.authority);
        assert_eq!(found.serial, gateway.serial);
        let client = authority
            .sign(Subject::Client("10.0.0.1"), 365, &key)
            .unwrap();
        let found = read(&client.pem);
        assert_eq!(found.names, ["10.0.0.1"]);
        assert!(found.for_clients && !found.for_servers && !found.authority);
        assert_ne!(gateway.serial, client.serial);
        // Eight leading zero bytes are as likely as a collision of 64-bit numbers.
        assert!(
            (18..=32).contains(&client.serial.len()),
            "{}",
            client.serial
        );
    }

    #[test]
    fn a_certificate_ends_with_its_authority_at_the_latest() {
        let (authority, _) = Authority::new("gateway.example").unwrap();
        let key = new_key().unwrap();
        let signed = authority
            .sign(Subject::Client("laptop"), 36500, &key)
            .unwrap();
        assert_eq!(signed.ends, authority.ends);
    }

    #[test]
    fn an_authority_is_read_from_its_files_only_with_its_own_key() {
        let dir = tempfile::tempdir().unwrap();
        let directory = KeyDirectory::at(dir.path());
        let (authority, key) = Authority::new("gateway.example").unwrap();
        std::fs::write(directory.authority_certificate(), &authority.pem).unwrap();
        std::fs::write(directory.authority_key(), &key).unwrap();
        let again = Authority::read(&directory).unwrap();
        assert_eq!(again.ends.unix_timestamp(), authority.ends.unix_timestamp());
        let other = new_key().unwrap().serialize_pem();
        std::fs::write(directory.authority_key(), other).unwrap();
        let error = Authority::read(&directory).err().unwrap().to_string();
        assert!(error.contains("not the key of ca.pem"), "{error}");
    }

    #[test]
    fn names_of_gateways_are_dns_names_and_addresses() {
        for name in [
            "gateway.example",
            "g",
            "192.0.2.1",
            "2001:db8::1",
            "_a.example",
        ] {
            assert!(gateway_name(name).is_ok(), "{name}");
        }
        let long = "a".repeat(64);
        for name in [
            "",
            ".",
            "a.",
            "*.example",
            "a b",
            "a:1",
            "-a",
            "http://a",
            &long,
        ] {
            assert!(gateway_name(name).is_err(), "{name}");
        }
    }
}
