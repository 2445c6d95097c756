//! Checks of a service's own certificate, so that a mistake is found when it is loaded and not by the other side.

use std::path::Path;

use rustls::pki_types::CertificateDer;

use super::certificate::{Descent, descent};
use super::expiry::{date, now};
use super::{Certificate, Moment, TlsError};

/// What a certificate is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A gateway's certificate.
    Server,
    /// A client's certificate.
    Client,
}

/// A service's own certificate and what it has to fit.
#[derive(Debug)]
pub(super) struct Own<'a> {
    /// Where it comes from, for messages.
    pub(super) place: &'a Path,
    /// The certificate, then those of intermediate authorities.
    pub(super) chain: &'a [CertificateDer<'static>],
    /// The authorities whose certificates this side accepts, and where they come from.
    pub(super) authorities: (&'a [CertificateDer<'static>], &'a Path),
    /// Whether these authorities must have signed the certificate. Otherwise it may come from another authority, but
    /// not from one of the same name.
    pub(super) same_authority: bool,
    pub(super) role: Role,
    pub(super) moment: Moment,
}

impl Own<'_> {
    /// Checks validity, purpose and origin.
    pub(super) fn check(&self) -> Result<(), TlsError> {
        let unfit = |problem: String| TlsError::unfit(self.place, problem);
        let (Some(first), Some(last)) = (self.chain.first(), self.chain.last()) else {
            return Ok(());
        };
        let certificate = Certificate::read(first).map_err(unfit)?;
        if self.moment == Moment::Start {
            self.valid_at(&certificate, now()).map_err(unfit)?;
        }
        let (fits, want) = match self.role {
            Role::Server => (
                certificate.for_servers,
                "a server (TLS server authentication)",
            ),
            Role::Client => (
                certificate.for_clients,
                "a client (TLS client authentication)",
            ),
        };
        if !fits {
            let text = format!("its extended key usage is another; want a certificate for {want}");
            return Err(unfit(text));
        }
        let (list, place) = self.authorities;
        let found = descent(last, list.iter().map(|a| a.as_ref())).map_err(unfit)?;
        let place = place.display();
        match found {
            Descent::Signed => Ok(()),
            Descent::Stranger if !self.same_authority => Ok(()),
            Descent::Stranger => Err(unfit(format!(
                "not signed by the authority in {place}: its issuer has another name; want a certificate \
                 that this authority has signed"
            ))),
            Descent::Namesake => Err(unfit(format!(
                "not signed by the authority in {place}, which has the name of its issuer but another key; \
                 want the authority that has signed it, or a certificate that this authority has signed"
            ))),
        }
    }

    fn valid_at(&self, certificate: &Certificate, now: i64) -> Result<(), String> {
        let renew = match self.role {
            Role::Server => "spindle keygen --renew",
            Role::Client => "spindle enroll",
        };
        if now > certificate.ends {
            let date = date(certificate.ends);
            return Err(format!(
                "the certificate ended on {date}; want a new one, as `{renew}` makes it"
            ));
        }
        if now < certificate.begins {
            let date = date(certificate.begins);
            return Err(format!(
                "the certificate is not valid before {date}; want one that is valid now, or the right time \
                 on this host"
            ));
        }
        Ok(())
    }
}
