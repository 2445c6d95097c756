//! [`ServerTls`]: the gateway's side.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server};

use super::certificate::signed_list;
use super::check::{Own, Role};
use super::clients::{ClientVerifier, Guests, naming_refusals};
use super::expiry::expiries;
use super::{
    Certificates, Current, Expiry, Guest, Identity, Moment, TlsError, certificates, current, file,
    key_log, provider, replace, roots,
};
use crate::socket::TcpStream;

/// The files of a gateway, and the clients that it admits.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The gateway's certificate chain (PEM).
    pub cert: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
    /// Authorities of clients (PEM). Without it, clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists (PEM): one of each authority in the chain of a client's certificate. A client whose authority has
    /// none is refused.
    pub crl: Option<PathBuf>,
    /// Names of the clients that are admitted. `None`: all that the authorities have signed.
    pub clients: Option<Vec<String>>,
    /// Whether an authority of clients must have signed the gateway's certificate as well.
    pub same_authority: bool,
}

impl ServerFiles {
    /// A certificate and its key. Clients need no certificate.
    pub fn new(cert: &Path, key: &Path) -> Self {
        Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            client_ca: None,
            crl: None,
            clients: None,
            same_authority: false,
        }
    }

    fn identity(&self) -> Identity {
        Identity {
            cert: self.cert.clone(),
            key: self.key.clone(),
        }
    }
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<ClientVerifier>>,
    expiries: Vec<Expiry>,
}

/// TLS configuration of the gateway.
#[derive(Clone, Debug)]
pub struct ServerTls {
    files: Arc<ServerFiles>,
    state: Current<State>,
    guests: Arc<Guests>,
}

impl ServerTls {
    /// Loads the configuration. The gateway proves its identity with `cert` and `key`. With `client_ca`, its
    /// clients must have a certificate of one of the authorities in that file.
    ///
    /// # Errors
    /// [`TlsError`] with the file concerned.
    pub fn load(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let client_ca = client_ca.map(Path::to_owned);
        Self::from_files(ServerFiles {
            client_ca,
            ..ServerFiles::new(cert, key)
        })
    }

    /// Loads the configuration from these files.
    ///
    /// # Errors
    /// [`TlsError`] with the file concerned, also if the gateway's certificate is not valid now or is not signed by the
    /// authority that it names.
    pub fn from_files(files: ServerFiles) -> Result<Self, TlsError> {
        let state = state(&files, Moment::Start)?;
        Ok(Self {
            files: Arc::new(files),
            state: Arc::new(RwLock::new(Arc::new(state))),
            guests: Arc::default(),
        })
    }

    /// Reads the files again. The new configuration applies to later connections. Open connections of clients that it
    /// does not admit are reset.
    ///
    /// # Errors
    /// [`TlsError`]. The configuration in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let state = Arc::new(state(&self.files, Moment::Again)?);
        // The order matters: `Guest::enter`.
        replace(&self.state, state.clone());
        if let Some(verifier) = &state.verifier {
            self.guests.reset_refused_by(verifier);
        }
        Ok(())
    }

    /// Performs the handshake on a connection that was accepted.
    ///
    /// # Errors
    /// The error of the handshake, such as a client without a valid certificate.
    pub async fn accept<S>(&self, stream: S) -> io::Result<server::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = current(&self.state).config.clone();
        let handshake = TlsAcceptor::from(config).accept(stream).into_fallible();
        naming_refusals(handshake).await.map_err(|(e, _)| e)
    }

    /// Number of open connections whose clients have proven their identity.
    pub fn connected(&self) -> usize {
        self.guests.len()
    }

    /// The connection's entry in the list of connected clients. It must be kept as long as the connection.
    pub fn guest(&self, stream: &TcpStream) -> Guest {
        Guest::new(stream, self.guests.clone())
    }

    /// Like [`Self::accept`], and notes the client in its entry. A failure returns the stream.
    pub async fn accept_guest(
        &self,
        stream: TcpStream,
        guest: &Guest,
    ) -> Result<server::TlsStream<TcpStream>, (io::Error, TcpStream)> {
        let state = current(&self.state);
        let handshake = TlsAcceptor::from(state.config.clone()).accept(stream);
        let tls = naming_refusals(handshake.into_fallible()).await?;
        let newer = || {
            let now = current(&self.state);
            let replaced = !Arc::ptr_eq(&now, &state);
            replaced.then(|| now.verifier.clone()).flatten()
        };
        let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
        match guest.enter(chain, newer) {
            Ok(()) => Ok(tls),
            Err(e) => Err((e, tls.into_inner().0)),
        }
    }
}

impl Certificates for ServerTls {
    fn reload(&self) -> Result<(), TlsError> {
        Self::reload(self)
    }

    fn expiries(&self) -> Vec<Expiry> {
        current(&self.state).expiries.clone()
    }
}

fn state(files: &ServerFiles, moment: Moment) -> Result<State, TlsError> {
    let id = files.identity();
    let (chain, key) = id.read()?;
    let authorities = match &files.client_ca {
        Some(path) => certificates(path)?,
        None if files.crl.is_some() || files.clients.is_some() => {
            return Err(TlsError::NoClientAuthority);
        }
        None => Vec::new(),
    };
    let ca = files.client_ca.as_deref().unwrap_or(Path::new(""));
    let own = Own {
        place: &files.cert,
        chain: &chain,
        authorities: (&authorities, ca),
        same_authority: files.same_authority,
        role: Role::Server,
        moment,
    };
    own.check()?;
    let text = files.cert.display().to_string();
    let expiries = expiries(
        chain.first().map(|c| (c, text.as_str())),
        (&authorities, &ca.display().to_string()),
    );
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| id.unfit(&e))?;
    let verifier = match files.client_ca {
        None => None,
        Some(_) => Some(Arc::new(verifier(files, &authorities, ca)?)),
    };
    let builder = match &verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|e| id.unfit(&e))?;
    config.key_log = key_log();
    Ok(State {
        config: Arc::new(config),
        verifier,
        expiries,
    })
}

fn verifier(
    files: &ServerFiles,
    authorities: &[CertificateDer<'static>],
    ca: &Path,
) -> Result<ClientVerifier, TlsError> {
    let lists = match &files.crl {
        Some(path) => revocation_lists(path, authorities, ca)?,
        None => Vec::new(),
    };
    let inner: Arc<dyn ClientCertVerifier> =
        WebPkiClientVerifier::builder_with_provider(roots(authorities, ca)?, provider())
            .with_crls(lists)
            .build()
            .map_err(|e| TlsError::unfit(ca, e.to_string()))?;
    Ok(ClientVerifier::new(inner, files.clients.clone()))
}

/// The revocation lists of a file. Each must be signed by one of the authorities, or the clients of that authority would
/// all be refused.
fn revocation_lists(
    path: &Path,
    authorities: &[CertificateDer<'static>],
    ca: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let no = |e: &dyn std::fmt::Display| file(path, "revocation list", e);
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_file_iter(path)
        .map_err(|e| no(&e))?
        .collect();
    let lists = lists.map_err(|e| no(&e))?;
    if lists.is_empty() {
        return Err(no(&"the file has none"));
    }
    let mut known = false;
    for list in &lists {
        let signed = signed_list(list, authorities.iter().map(|a| a.as_ref()));
        known |= signed.map_err(|e| TlsError::unfit(path, e))?;
    }
    if !known {
        let problem = format!(
            "no list in it is signed by an authority in {}; want the revocation list of that authority",
            ca.display()
        );
        return Err(TlsError::unfit(path, problem));
    }
    Ok(lists)
}
