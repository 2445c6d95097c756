//! When certificates end, and the warning before.

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;
use time::macros::format_description;

use super::{Certificate, TlsError};

/// How long before the end of a certificate a warning is logged. Our choice: a month is enough to renew it.
pub const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whose certificate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// This side of the connections.
    Own,
    /// The authority whose certificates this side accepts.
    Authority,
}

/// When a certificate in use ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Whose certificate it is.
    pub owner: Owner,
    /// The file, or the bundle, that it was read from.
    pub place: String,
    /// Last second at which it is valid, as Unix time.
    pub ends: i64,
}

impl Expiry {
    /// Whether it ends within [`SOON`] of `now`, or has ended. Both are Unix times in seconds.
    pub fn is_soon(&self, now: i64) -> bool {
        self.ends < now.saturating_add(SOON.as_secs() as i64)
    }

    /// Logs a warning if it ends within [`SOON`] of `now`, a Unix time in seconds.
    pub fn warn(&self, now: i64) {
        if !self.is_soon(now) {
            return;
        }
        let (file, ends) = (&self.place, date(self.ends));
        match (self.ends < now, self.owner) {
            (true, Owner::Own) => {
                tracing::error!(%file, %ends, "the certificate has ended: the other side refuses it; renew it");
            }
            (true, Owner::Authority) => {
                tracing::warn!(%file, %ends, "the authority's certificate has ended; replace it");
            }
            (false, Owner::Own) => {
                tracing::warn!(%file, %ends, "the certificate ends within 30 days; renew it");
            }
            (false, Owner::Authority) => {
                tracing::warn!(%file, %ends, "the authority's certificate ends within 30 days; replace it");
            }
        }
    }
}

/// The certificates of a service, which can be read again.
pub trait Certificates {
    /// Reads the files again. The new configuration applies to later connections; a gateway also resets connections
    /// of clients that it no longer admits.
    ///
    /// # Errors
    /// [`TlsError`]. The configuration in use stays.
    fn reload(&self) -> Result<(), TlsError>;

    /// When the certificates in use end.
    fn expiries(&self) -> Vec<Expiry>;
}

/// The expiry of a service's own certificate and that of its authorities. Of several authorities it is the one that
/// ends last, since the others may be those that it replaces.
pub(super) fn expiries(
    own: Option<(&CertificateDer<'_>, &str)>,
    authorities: (&[CertificateDer<'_>], &str),
) -> Vec<Expiry> {
    let end = |der: &CertificateDer<'_>| Some(Certificate::read(der).ok()?.ends);
    let expiry = |owner, place: &str, ends| Expiry {
        owner,
        place: place.to_owned(),
        ends,
    };
    let own = own.and_then(|(der, place)| Some(expiry(Owner::Own, place, end(der)?)));
    let last = authorities.0.iter().filter_map(end).max();
    let last = last.map(|ends| expiry(Owner::Authority, authorities.1, ends));
    own.into_iter().chain(last).collect()
}

/// A Unix time in seconds as text, such as `2027-02-28 12:00 UTC`.
pub fn date(unix: i64) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute] UTC");
    let time = OffsetDateTime::from_unix_timestamp(unix).ok();
    let text = time.and_then(|t| t.format(form).ok());
    text.unwrap_or_else(|| format!("second {unix} of Unix time"))
}

/// The present as Unix time in seconds.
pub(super) fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_ends_soon_from_thirty_days_before_its_end() {
        let day = 24 * 3600;
        let ends = |ends| Expiry {
            owner: Owner::Own,
            place: String::new(),
            ends,
        };
        let now = 1_800_000_000;
        assert!(!ends(now + 31 * day).is_soon(now));
        assert!(ends(now + 29 * day).is_soon(now));
        assert!(ends(now - day).is_soon(now));
    }

    #[test]
    fn dates_are_in_utc_and_times_beyond_the_calendar_stay_numbers() {
        assert_eq!(date(1_800_000_000), "2027-01-15 08:00 UTC");
        assert_eq!(date(i64::MAX), format!("second {} of Unix time", i64::MAX));
    }
}
