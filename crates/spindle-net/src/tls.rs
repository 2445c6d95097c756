//! Mutual TLS between connect and gateway, with rustls. Certificates come from PEM files and can be reloaded
//! without a restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

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
    /// Certificate, key and authorities do not match.
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
        let problem = format!("does not fit {}: {e}", self.key.display());
        TlsError::Unfit {
            path: self.cert.clone(),
            problem,
        }
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

fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|e| TlsError::Unfit {
            path: path.to_owned(),
            problem: format!("not a certificate of an authority: {e}"),
        })?;
    }
    Ok(Arc::new(store))
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

/// TLS configuration of the gateway.
#[derive(Clone, Debug)]
pub struct ServerTls {
    identity: Identity,
    client_ca: Option<PathBuf>,
    config: Current<ServerConfig>,
}

impl ServerTls {
    /// Loads the configuration. The gateway proves its identity with `cert` and `key`. With `client_ca`, its
    /// clients must have a certificate of one of the authorities in that file.
    ///
    /// # Errors
    /// [`TlsError`] with the file concerned.
    pub fn load(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let identity = Identity {
            cert: cert.to_owned(),
            key: key.to_owned(),
        };
        let client_ca = client_ca.map(Path::to_owned);
        let config = server_config(&identity, client_ca.as_deref())?;
        Ok(Self {
            identity,
            client_ca,
            config: Arc::new(RwLock::new(config)),
        })
    }

    /// Reads the files again. The new configuration applies to later connections.
    ///
    /// # Errors
    /// [`TlsError`]. The configuration in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = server_config(&self.identity, self.client_ca.as_deref())?;
        replace(&self.config, config);
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
        self.accept_or_return(stream).await.map_err(|(e, _)| e)
    }

    /// Like [`Self::accept`], but a failure returns the stream.
    pub(crate) async fn accept_or_return<S>(
        &self,
        stream: S,
    ) -> Result<server::TlsStream<S>, (io::Error, S)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        TlsAcceptor::from(current(&self.config))
            .accept(stream)
            .into_fallible()
            .await
    }
}

fn server_config(id: &Identity, ca: Option<&Path>) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = id.read()?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| id.unfit(&e))?;
    let builder = match ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = authorities(path)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                .build()
                .map_err(|e| TlsError::Unfit {
                    path: path.to_owned(),
                    problem: e.to_string(),
                })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|e| id.unfit(&e))?;
    Ok(Arc::new(config))
}

/// TLS configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientTls {
    ca: PathBuf,
    identity: Option<Identity>,
    name: ServerName<'static>,
    config: Current<ClientConfig>,
}

impl ClientTls {
    /// Loads the configuration. The gateway must have a certificate for `name` by an authority in `ca`.
    /// `identity` is the certificate and the key with which this end proves its identity.
    ///
    /// # Errors
    /// [`TlsError`] with the file concerned.
    pub fn load(ca: &Path, identity: Option<(&Path, &Path)>, name: &str) -> Result<Self, TlsError> {
        let identity = identity.map(|(cert, key)| Identity {
            cert: cert.to_owned(),
            key: key.to_owned(),
        });
        let wanted = ServerName::try_from(name.to_owned());
        let config = client_config(ca, identity.as_ref())?;
        Ok(Self {
            ca: ca.to_owned(),
            identity,
            name: wanted.map_err(|_| TlsError::Name(name.to_owned()))?,
            config: Arc::new(RwLock::new(config)),
        })
    }

    /// Reads the files again. The new configuration applies to later connections.
    ///
    /// # Errors
    /// [`TlsError`]. The configuration in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = client_config(&self.ca, self.identity.as_ref())?;
        replace(&self.config, config);
        Ok(())
    }

    /// Performs the handshake on a connection to the gateway.
    ///
    /// # Errors
    /// The error of the handshake, such as a gateway without a valid certificate.
    pub async fn connect<S>(&self, stream: S) -> io::Result<client::TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.connect_or_return(stream).await.map_err(|(e, _)| e)
    }

    /// Like [`Self::connect`], but a failure returns the stream.
    pub(crate) async fn connect_or_return<S>(
        &self,
        stream: S,
    ) -> Result<client::TlsStream<S>, (io::Error, S)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        TlsConnector::from(current(&self.config))
            .connect(self.name.clone(), stream)
            .into_fallible()
            .await
    }
}

fn client_config(ca: &Path, identity: Option<&Identity>) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Unfit {
            path: ca.to_owned(),
            problem: e.to_string(),
        })?
        .with_root_certificates(authorities(ca)?);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(id) => {
            let (chain, key) = id.read()?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| id.unfit(&e))?
        }
    };
    Ok(Arc::new(config))
}
