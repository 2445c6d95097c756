//! Pins: a gateway must have one of these public keys, in addition to a certificate of the authority.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::BASE64;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::{Certificate, provider};

/// What a pin begins with. SHA-256 is the only hash of RFC 7469.
const PREFIX: &str = "sha256/";

/// SHA-256 of the SubjectPublicKeyInfo of a certificate (RFC 7469, section 2.4). Its text is `sha256/` and the hash
/// in Base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pin(pub [u8; 32]);

/// The text is not a pin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found \"{0}\", want sha256/ and the SHA-256 hash of the public key in Base64, 44 characters"
)]
pub struct PinError(pub String);

impl FromStr for Pin {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Self, PinError> {
        let hash = text.strip_prefix(PREFIX);
        let hash = hash.and_then(|h| BASE64.decode(h.as_bytes()).ok());
        let hash = hash.and_then(|h| h.try_into().ok());
        hash.map(Self).ok_or_else(|| PinError(text.to_owned()))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64.encode(&self.0))
    }
}

/// The gateway's public key is none of the pinned ones.
#[derive(Clone, thiserror::Error)]
#[error("the gateway's public key is {found}, which is none of the pinned ones (--tls-pin)")]
pub(super) struct NotPinned {
    found: Pin,
}

/// rustls shows errors of verifiers by their debug output.
impl fmt::Debug for NotPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Accepts a gateway that the authority's verifier accepts and whose public key is pinned.
#[derive(Debug)]
pub(super) struct PinnedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    pins: Vec<Pin>,
}

impl PinnedVerifier {
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        pins: Vec<Pin>,
    ) -> Result<Self, VerifierBuilderError> {
        let inner = WebPkiServerVerifier::builder_with_provider(roots, provider()).build()?;
        Ok(Self { inner, pins })
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let certificate = Certificate::read(end_entity);
        let certificate = certificate.map_err(|_| CertificateError::BadEncoding)?;
        let found = Pin(certificate.key_hash);
        if self.pins.contains(&found) {
            return Ok(verified);
        }
        let why = OtherError(Arc::new(NotPinned { found }));
        Err(CertificateError::Other(why).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        let pin = Pin([7; 32]);
        assert_eq!(pin.to_string().parse(), Ok(pin));
    }

    #[test]
    fn other_hashes_lengths_and_alphabets_are_no_pins() {
        let good = Pin([0xff; 32]).to_string();
        let url = good.replace('/', "_");
        let short = Pin([1; 32]).to_string().replace("sha256/AQEB", "sha256/");
        for text in [
            "",
            "sha256/",
            "sha1/AAAA",
            &url,
            &short,
            &format!("{good} "),
        ] {
            assert!(text.parse::<Pin>().is_err(), "{text}");
        }
    }
}
