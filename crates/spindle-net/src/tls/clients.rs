//! The clients of a gateway: which are admitted, and which of them are connected.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::Certificate;
use super::words::client_in_words;
use crate::socket::{ConnectionHandle, TcpStream};

tokio::task_local! {
    /// The refusal of a client's certificate in the handshake that the task performs. rustls's error says neither
    /// whose certificate it was nor, after the handshake has failed, which one.
    static REFUSAL: RefCell<Option<String>>;
}

/// Runs a handshake. If it fails because the client's certificate was refused, the error names the client.
pub(super) async fn naming_refusals<T, S>(
    handshake: impl Future<Output = Result<T, (io::Error, S)>>,
) -> Result<T, (io::Error, S)> {
    let run = async {
        handshake.await.map_err(|(e, stream)| {
            let refusal = REFUSAL.with(RefCell::take);
            let e = refusal.map_or(e, |text| {
                io::Error::new(io::ErrorKind::PermissionDenied, text)
            });
            (e, stream)
        })
    };
    REFUSAL.scope(RefCell::default(), run).await
}

/// Accepts the clients that the authority's verifier accepts and whose names are admitted.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    /// The admitted names. `None`: all.
    admitted: Option<Vec<String>>,
}

impl ClientVerifier {
    pub(super) fn new(inner: Arc<dyn ClientCertVerifier>, admitted: Option<Vec<String>>) -> Self {
        Self { inner, admitted }
    }

    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = (self.inner).verify_client_cert(end_entity, intermediates, now)?;
        if let Some(admitted) = &self.admitted {
            let certificate = Certificate::read(end_entity);
            let certificate = certificate.map_err(|_| CertificateError::BadEncoding)?;
            if !admitted.iter().any(|name| certificate.has_name(name)) {
                return Err(CertificateError::ApplicationVerificationFailure.into());
            }
        }
        Ok(verified)
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verdict = self.judge(end_entity, intermediates, now);
        if let Err(e) = &verdict {
            let text = refusal(end_entity, e);
            // A handshake outside `naming_refusals` has no place for it.
            let _ = REFUSAL.try_with(|place| place.replace(Some(text)));
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Client and reason, for the log.
fn refusal(end_entity: &CertificateDer<'_>, e: &Error) -> String {
    let why = client_in_words(e);
    match Certificate::read(end_entity) {
        Ok(c) => format!("client \"{}\" (serial {}): {why}", c.shown_name(), c.serial),
        Err(problem) => format!("client: {why}: {problem}"),
    }
}

/// A client that has proven its identity.
#[derive(Debug)]
struct Client {
    chain: Vec<CertificateDer<'static>>,
    /// When its certificate was verified. A certificate that ends later does not end its connections.
    at: UnixTime,
    name: String,
    serial: String,
}

impl Client {
    fn new(chain: &[CertificateDer<'static>]) -> Option<Self> {
        // A client must not escape a revocation because its certificate has a form that cannot be shown.
        let read = Certificate::read(chain.first()?).ok();
        let (name, serial) = read.map_or_else(
            || ("unknown".to_owned(), "unknown".to_owned()),
            |c| (c.shown_name(), c.serial),
        );
        Some(Self {
            chain: chain.to_vec(),
            at: UnixTime::now(),
            name,
            serial,
        })
    }

    /// Why `verifier` refuses the client, or `None` if it accepts the client.
    fn refused_by(&self, verifier: &ClientVerifier) -> Option<Error> {
        let (first, rest) = self.chain.split_first()?;
        verifier.judge(first, rest, self.at).err()
    }
}

/// The connections of clients that have proven their identity. Its size is bounded by the number of open connections,
/// since each [`Guest`] has one entry at most.
#[derive(Debug, Default)]
pub(super) struct Guests {
    next: AtomicU64,
    connected: Mutex<HashMap<u64, Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The connection's number in the log.
    connection: u64,
    handle: ConnectionHandle,
    client: Arc<Client>,
}

impl Guests {
    fn connected(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets the connections of clients that `verifier` refuses. Each certificate is verified once.
    pub(super) fn reset_refused_by(&self, verifier: &ClientVerifier) {
        let all: Vec<_> = self.connected().values().cloned().collect();
        let mut verdicts: HashMap<&[u8], Option<String>> = HashMap::new();
        for entry in &all {
            let client = &entry.client;
            let Some(first) = client.chain.first() else {
                continue;
            };
            let verdict = verdicts
                .entry(first)
                .or_insert_with(|| client.refused_by(verifier).map(|e| client_in_words(&e)));
            if let Some(why) = verdict {
                let (client, serial) = (&client.name, &client.serial);
                let connection = entry.connection;
                tracing::warn!(connection, %client, %serial, %why, "reset: the client is no longer admitted");
                entry.handle.abort();
            }
        }
    }

    /// How many connections are noted.
    pub(super) fn len(&self) -> usize {
        self.connected().len()
    }
}

/// A connection to a gateway with TLS, and the client once it has proven its identity. The gateway keeps it as long as
/// the connection.
#[derive(Debug)]
pub struct Guest {
    id: u64,
    connection: u64,
    handle: ConnectionHandle,
    client: OnceLock<Arc<Client>>,
    guests: Arc<Guests>,
}

impl Guest {
    pub(super) fn new(stream: &TcpStream, guests: Arc<Guests>) -> Self {
        Self {
            id: guests.next.fetch_add(1, Ordering::Relaxed),
            connection: stream.id(),
            handle: stream.handle(),
            client: OnceLock::new(),
            guests,
        }
    }

    /// The client's name, once it has proven its identity: that of its certificate, with special characters escaped.
    pub fn name(&self) -> Option<&str> {
        self.client.get().map(|c| c.name.as_str())
    }

    /// Notes the client of the connection. `verifier` returns the verifier in use now if another one verified the
    /// certificate in the handshake.
    ///
    /// A reload replaces the verifier before it looks at the connections that are noted here. A client is therefore
    /// either noted before that, or judged by the new verifier here.
    pub(super) fn enter(
        &self,
        chain: &[CertificateDer<'static>],
        verifier: impl FnOnce() -> Option<Arc<ClientVerifier>>,
    ) -> io::Result<()> {
        let Some(client) = Client::new(chain).map(Arc::new) else {
            return Ok(());
        };
        let mut connected = self.guests.connected();
        if let Some(e) = verifier().and_then(|v| client.refused_by(&v)) {
            let text = client.chain.first().map(|c| refusal(c, &e));
            let text = text.unwrap_or_default();
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let entry = Entry {
            connection: self.connection,
            handle: self.handle.clone(),
            client: client.clone(),
        };
        connected.insert(self.id, entry);
        drop(connected);
        let _ = self.client.set(client);
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.connected().remove(&self.id);
    }
}
