//! Failures of handshakes in plain words.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

use super::expiry::date;

/// Why a gateway refuses a client's certificate. The text continues after the client's name.
pub(super) fn client_in_words(e: &Error) -> String {
    let Error::InvalidCertificate(problem) = e else {
        return e.to_string();
    };
    match problem {
        CertificateError::Revoked => "its certificate is revoked".to_owned(),
        CertificateError::ApplicationVerificationFailure => {
            "it is not one of the admitted clients (--tls-clients)".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is not signed by the authority (--tls-ca)".to_owned()
        }
        CertificateError::UnknownRevocationStatus => {
            "there is no revocation list of the authority that signed its certificate (--tls-crl)"
                .to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for clients".to_owned()
        }
        other => validity(other).map_or_else(
            || format!("its certificate is invalid: {other}"),
            |text| format!("its certificate {text}"),
        ),
    }
}

/// When a certificate ended or begins, if that is the problem.
fn validity(problem: &CertificateError) -> Option<String> {
    let day =
        |t: &rustls::pki_types::UnixTime| date(i64::try_from(t.as_secs()).unwrap_or(i64::MAX));
    match problem {
        CertificateError::Expired => Some("has ended".to_owned()),
        CertificateError::ExpiredContext { not_after, .. } => {
            Some(format!("ended on {}", day(not_after)))
        }
        CertificateError::NotValidYet => Some("is not valid yet".to_owned()),
        CertificateError::NotValidYetContext { not_before, .. } => {
            Some(format!("is not valid before {}", day(not_before)))
        }
        _ => None,
    }
}

/// Why a client's handshake with a gateway failed, and what would be right: a whole sentence. `None` if it did not fail
/// because of a certificate.
pub fn refusal_in_words(e: &io::Error) -> Option<String> {
    let e = e.get_ref()?.downcast_ref::<Error>()?;
    match e {
        Error::InvalidCertificate(problem) => Some(gateway_in_words(problem)),
        Error::AlertReceived(alert) => own_in_words(*alert).map(str::to_owned),
        _ => None,
    }
}

fn gateway_in_words(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the gateway's certificate is not signed by the authority that this side trusts (--tls-ca, or the \
             bundle): it is another gateway, or the gateway has a new authority; get the authority's certificate \
             or a bundle from the gateway's operator"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented = presented.join(", ");
            let presented: String = presented.chars().take(512).flat_map(char::escape_debug).collect();
            format!(
                "the gateway's certificate is not for the name \"{}\" (--tls-name, or the bundle), but for: \
                 {presented}",
                expected.to_str()
            )
        }
        CertificateError::NotValidForName => {
            "the gateway's certificate is for another name than --tls-name, or that of the bundle".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the gateway's certificate is not for servers".to_owned()
        }
        CertificateError::Other(other) => other.to_string(),
        other => validity(other).map_or_else(
            || format!("the gateway's certificate is invalid: {other}"),
            |text| format!("the gateway's certificate {text}; its operator has to renew it, or the time of this host is wrong"),
        ),
    }
}

/// The meaning of an alert about this side's certificate (RFC 8446, section 6.2).
fn own_in_words(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::CertificateRequired => {
            "the gateway accepts only clients with a certificate: give --bundle, or --tls-cert and --tls-key"
        }
        AlertDescription::CertificateRevoked => {
            "the gateway refuses this client's certificate: it is revoked; ask the gateway's operator for a new one"
        }
        AlertDescription::AccessDenied => {
            "the gateway refuses this client: it is not one of the clients that the gateway admits"
        }
        AlertDescription::CertificateExpired => {
            "the gateway refuses this client's certificate: it has ended or is not valid yet; ask the gateway's \
             operator for a new one"
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "the gateway refuses this client's certificate: another authority signed it; ask the gateway's \
             operator for a certificate"
        }
        AlertDescription::UnsupportedCertificate => {
            "the gateway refuses this client's certificate: it is not for clients"
        }
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "the gateway refuses this client's certificate"
        }
        _ => return None,
    })
}
