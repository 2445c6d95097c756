//! Mutual TLS between connect and gateway, with rustls. Certificates come from PEM files or from a
//! [`Bundle`], and can be reloaded without a restart.
//!
//! [`ServerTls`] is the gateway's side: it refuses clients that are revoked or not among the admitted names, and
//! resets their open connections when a reload changes that. [`ClientTls`] is the client's side. Both check their
//! own certificate when it is loaded, so that a mistake is an error at the start and not at the first connection.

mod bundle;
mod certificate;
mod check;
mod client;
mod clients;
mod expiry;
mod pin;
mod server;
mod words;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{KeyLog, KeyLogFile, RootCertStore};

pub use bundle::{Bundle, BundleError, BundleHeader, BundleSource, LINE_PREFIX};
pub use certificate::Certificate;
pub use client::{ClientSource, ClientTls};
pub use clients::Guest;
pub use expiry::{Certificates, Expiry, Owner, SOON, date};
pub use pin::{Pin, PinError};
pub use server::{ServerFiles, ServerTls};
pub use words::refusal_in_words;

/// Why a TLS configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or does not contain PEM of the expected kind.
    #[error("{path}: found no {what} in PEM form: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was expected in the file.
        what: &'static str,
        /// What went wrong.
        problem: String,
    },
    /// Certificate, key and authorities do not match, or a certificate cannot be used.
    #[error("{path}: {problem}")]
    Unfit {
        /// The file concerned.
        path: PathBuf,
        /// What does not match.
        problem: String,
    },
    /// The name that the gateway's certificate must have is not a valid name.
    #[error("--tls-name: found \"{0}\", want a host name or an IP address")]
    Name(String),
    /// A bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// Revocation or admission needs an authority for clients.
    #[error("a revocation list and admitted names need the authority of the clients")]
    NoClientAuthority,
}

impl TlsError {
    fn unfit(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unfit {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

/// The paths of a certificate and its key.
#[derive(Clone, Debug)]
struct Identity {
    cert: PathBuf,
    key: PathBuf,
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Identity {
    fn read(&self) -> Result<Chain, TlsError> {
        let chain = certificates(&self.cert)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|e| file(&self.key, "private key", &e))?;
        Ok((chain, key))
    }

    fn unfit(&self, e: &rustls::Error) -> TlsError {
        let key = self.key.display();
        let problem = format!("does not fit {key}: {e}; want the private key of this certificate");
        TlsError::unfit(&self.cert, problem)
    }
}

fn file(path: &Path, what: &'static str, problem: &dyn std::fmt::Display) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        what,
        problem: problem.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let no = |e: &dyn std::fmt::Display| file(path, "certificate", e);
    let list: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|e| no(&e))?
        .collect();
    let list = list.map_err(|e| no(&e))?;
    match list.is_empty() {
        true => Err(no(&"the file has none")),
        false => Ok(list),
    }
}

/// The certificates as authorities. `place` is where they come from, for messages.
fn roots(list: &[CertificateDer<'static>], place: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in list {
        store.add(certificate.clone()).map_err(|e| {
            TlsError::unfit(place, format!("not a certificate of an authority: {e}"))
        })?;
    }
    Ok(Arc::new(store))
}

/// Where the secrets of each connection are written, so that a capture of it can be deciphered: the file that the
/// environment variable `SSLKEYLOGFILE` names (draft-ietf-tls-keylogfile), or nowhere.
fn key_log() -> Arc<dyn KeyLog> {
    Arc::new(KeyLogFile::new())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A value that is replaced as a whole. Users of the old value go on with it.
type Current<T> = Arc<RwLock<Arc<T>>>;

fn current<T>(cell: &Current<T>) -> Arc<T> {
    cell.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn replace<T>(cell: &Current<T>, value: Arc<T>) {
    *cell.write().unwrap_or_else(PoisonError::into_inner) = value;
}

/// Whether a configuration is loaded at the start or again. At the start, a certificate that is not valid now is an
/// error. Later it is reported as one that ends ([`Certificates::expiries`]), so that a reload which revokes a client
/// is not refused for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Start,
    Again,
}
