//! What certificates say (RFC 5280), read with x509-parser.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use data_encoding::HEXLOWER;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Error};

/// Most characters of a name from a certificate that are shown. Longer ones are cut.
const SHOWN: usize = 64;

/// The parts of a certificate that Spindle uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// DNS names and IP addresses of the subject (SubjectAltName), in their order. If there are none, the subject's
    /// common name.
    pub names: Vec<String>,
    /// The serial number in lower-case hexadecimal digits, two a byte, without leading zero bytes.
    pub serial: String,
    /// First second at which the certificate is valid, as Unix time.
    pub begins: i64,
    /// Last second at which the certificate is valid, as Unix time.
    pub ends: i64,
    /// Whether it is a certificate of an authority (basicConstraints).
    pub authority: bool,
    /// Whether its extended key usage, if it has one, includes TLS servers.
    pub for_servers: bool,
    /// Whether its extended key usage, if it has one, includes TLS clients.
    pub for_clients: bool,
    /// SHA-256 of its SubjectPublicKeyInfo (RFC 7469, section 2.4).
    pub key_hash: [u8; 32],
}

impl Certificate {
    /// Reads a certificate in DER form.
    ///
    /// # Errors
    /// What is wrong with the certificate, in words.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        let c = parsed(der)?;
        let serial = c.raw_serial();
        let zeros = serial.iter().take_while(|b| **b == 0).count();
        let usage = c.extended_key_usage().map_err(|e| e.to_string())?;
        let usage = usage.map(|u| u.value);
        Ok(Self {
            names: names(&c),
            serial: HEXLOWER.encode(&serial[zeros..]),
            begins: c.validity().not_before.timestamp(),
            ends: c.validity().not_after.timestamp(),
            authority: c.is_ca(),
            for_servers: usage.is_none_or(|u| u.server_auth || u.any),
            for_clients: usage.is_none_or(|u| u.client_auth || u.any),
            key_hash: Sha256::digest(c.public_key().raw).into(),
        })
    }

    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn read_pem(text: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(text.as_bytes());
        let der = der.map_err(|e| format!("found no certificate in PEM form: {e}"))?;
        Self::read(&der)
    }

    /// The first name, as it may be shown in a log: at most 64 characters, special ones escaped.
    pub fn shown_name(&self) -> String {
        let name = self.names.first().map_or("", String::as_str);
        name.chars()
            .take(SHOWN)
            .flat_map(char::escape_debug)
            .collect()
    }

    /// Whether `name` is one of its names. Case does not matter (RFC 4343, section 3).
    pub fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|n| n.eq_ignore_ascii_case(name))
    }
}

fn parsed(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    let read = X509Certificate::from_der(der);
    let (_, certificate) = read.map_err(|e| format!("not an X.509 certificate: {e}"))?;
    Ok(certificate)
}

fn names(c: &X509Certificate<'_>) -> Vec<String> {
    let alternative = c.subject_alternative_name().ok().flatten();
    let listed = alternative.iter().flat_map(|a| &a.value.general_names);
    let mut names: Vec<String> = listed.filter_map(name).collect();
    if names.is_empty() {
        let common = c.subject().iter_common_name().next();
        names.extend(common.and_then(|n| n.as_str().ok()).map(str::to_owned));
    }
    names
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(|b| IpAddr::from(Ipv4Addr::from(b)));
            let addr =
                v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(|b| Ipv6Addr::from(b).into()));
            addr.ok().map(|a| a.to_string())
        }
        _ => None,
    }
}

/// How a certificate relates to the authorities that it may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descent {
    /// One of them signed it.
    Signed,
    /// One of them has the name of its issuer, but did not sign it.
    Namesake,
    /// None of them has the name of its issuer, or the signature cannot be verified here.
    Stranger,
}

/// Compares the issuer of `der` with the certificates of authorities.
pub(super) fn descent<'a>(
    der: &[u8],
    authorities: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Descent, String> {
    let certificate = parsed(der)?;
    let mut found = Descent::Stranger;
    for authority in authorities {
        let authority = parsed(authority)?;
        if authority.subject().as_raw() != certificate.issuer().as_raw() {
            continue;
        }
        let key = authority.public_key();
        match certificate.verify_signature(Some(key)) {
            Ok(()) => return Ok(Descent::Signed),
            Err(X509Error::SignatureUnsupportedAlgorithm) => {}
            Err(_) => found = Descent::Namesake,
        }
    }
    Ok(found)
}

/// Whether one of the authorities signed a revocation list (RFC 5280, section 5).
pub(super) fn signed_list<'a>(
    der: &[u8],
    authorities: impl IntoIterator<Item = &'a [u8]>,
) -> Result<bool, String> {
    use x509_parser::revocation_list::CertificateRevocationList;
    let read = CertificateRevocationList::from_der(der);
    let (_, list) = read.map_err(|e| format!("not a revocation list: {e}"))?;
    for authority in authorities {
        let authority = parsed(authority)?;
        let same = authority.subject().as_raw() == list.issuer().as_raw();
        if same && list.verify_signature(authority.public_key()).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
