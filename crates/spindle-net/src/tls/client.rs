//! [`ClientTls`]: the client's side.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client};

use super::check::{Own, Role};
use super::expiry::expiries;
use super::pin::PinnedVerifier;
use super::{
    BundleSource, Certificates, Current, Expiry, Identity, Moment, Pin, TlsError, certificates,
    current, key_log, provider, replace, roots,
};

/// Where a client's certificates and the gateway's name come from.
#[derive(Clone, Debug)]
pub enum ClientSource {
    /// Files, and the name.
    Files {
        /// Authorities that the gateway's certificate may come from (PEM).
        ca: PathBuf,
        /// The client's own certificate chain and its private key (PEM).
        identity: Option<(PathBuf, PathBuf)>,
        /// The name in the gateway's certificate.
        name: String,
    },
    /// A bundle.
    Bundle(BundleSource),
}

/// What a source contains.
struct Material {
    /// Where the client's own certificate comes from.
    place: PathBuf,
    /// Where the authorities come from.
    ca: PathBuf,
    authorities: Vec<CertificateDer<'static>>,
    own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// Whether the same authority must have signed the client's certificate.
    same_authority: bool,
    name: String,
    pins: Vec<Pin>,
    /// What the client's certificate is compared with, for messages.
    identity: Identity,
}

impl ClientSource {
    fn read(&self) -> Result<Material, TlsError> {
        match self {
            Self::Files { ca, identity, name } => {
                let id = identity.clone().map(|(cert, key)| Identity { cert, key });
                Ok(Material {
                    place: id.as_ref().map_or_else(|| ca.clone(), |id| id.cert.clone()),
                    ca: ca.clone(),
                    authorities: certificates(ca)?,
                    own: id.as_ref().map(Identity::read).transpose()?,
                    same_authority: false,
                    name: name.clone(),
                    pins: Vec::new(),
                    identity: id.unwrap_or_else(|| Identity {
                        cert: ca.clone(),
                        key: ca.clone(),
                    }),
                })
            }
            Self::Bundle(source) => {
                let bundle = source.read()?;
                let place = source.place().to_owned();
                Ok(Material {
                    ca: place.clone(),
                    authorities: bundle.authorities,
                    own: Some((vec![bundle.certificate], bundle.key)),
                    same_authority: true,
                    name: bundle.header.tls_name,
                    pins: bundle.header.pins,
                    identity: Identity {
                        cert: place.clone(),
                        key: Path::new("its private key").to_owned(),
                    },
                    place,
                })
            }
        }
    }
}

#[derive(Debug)]
struct State {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    expiries: Vec<Expiry>,
}

/// TLS configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientTls {
    source: ClientSource,
    pins: Vec<Pin>,
    state: Current<State>,
}

impl ClientTls {
    /// Loads the configuration. The gateway must have a certificate for `name` by an authority in `ca`.
    /// `identity` is the certificate and the key with which this end proves its identity.
    ///
    /// # Errors
    /// [`TlsError`] with the file concerned.
    pub fn load(ca: &Path, identity: Option<(&Path, &Path)>, name: &str) -> Result<Self, TlsError> {
        let source = ClientSource::Files {
            ca: ca.to_owned(),
            identity: identity.map(|(cert, key)| (cert.to_owned(), key.to_owned())),
            name: name.to_owned(),
        };
        Self::from_source(source, Vec::new())
    }

    /// Loads the configuration from a source. If there are pins, here or in a bundle, the gateway's public key must be one
    /// of them.
    ///
    /// # Errors
    /// [`TlsError`] with the file concerned, also if the client's certificate is not valid now or is not signed by the
    /// authority that it names.
    pub fn from_source(source: ClientSource, pins: Vec<Pin>) -> Result<Self, TlsError> {
        let state = state(&source, &pins, Moment::Start)?;
        Ok(Self {
            source,
            pins,
            state: Arc::new(RwLock::new(Arc::new(state))),
        })
    }

    /// Reads the files again. The new configuration applies to later connections.
    ///
    /// # Errors
    /// [`TlsError`]. The configuration in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let state = state(&self.source, &self.pins, Moment::Again)?;
        replace(&self.state, Arc::new(state));
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
    pub async fn connect_or_return<S>(
        &self,
        stream: S,
    ) -> Result<client::TlsStream<S>, (io::Error, S)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let state = current(&self.state);
        TlsConnector::from(state.config.clone())
            .connect(state.name.clone(), stream)
            .into_fallible()
            .await
    }
}

impl Certificates for ClientTls {
    fn reload(&self) -> Result<(), TlsError> {
        Self::reload(self)
    }

    fn expiries(&self) -> Vec<Expiry> {
        current(&self.state).expiries.clone()
    }
}

fn state(source: &ClientSource, pins: &[Pin], moment: Moment) -> Result<State, TlsError> {
    let mut m = source.read()?;
    m.pins.extend(pins);
    let chain = m.own.as_ref().map(|(chain, _)| chain.as_slice());
    let own = Own {
        place: &m.place,
        chain: chain.unwrap_or_default(),
        authorities: (&m.authorities, &m.ca),
        same_authority: m.same_authority,
        role: Role::Client,
        moment,
    };
    own.check()?;
    let place = m.place.display().to_string();
    let expiries = expiries(
        chain.and_then(<[_]>::first).map(|c| (c, place.as_str())),
        (&m.authorities, &m.ca.display().to_string()),
    );
    let name = ServerName::try_from(m.name.clone()).map_err(|_| TlsError::Name(m.name.clone()))?;
    Ok(State {
        config: Arc::new(config(m)?),
        name,
        expiries,
    })
}

fn config(m: Material) -> Result<ClientConfig, TlsError> {
    let unfit = |e: &dyn std::fmt::Display| TlsError::unfit(&m.ca, e.to_string());
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| unfit(&e))?;
    let roots = roots(&m.authorities, &m.ca)?;
    let builder = if m.pins.is_empty() {
        builder.with_root_certificates(roots)
    } else {
        let verifier = PinnedVerifier::new(roots, m.pins).map_err(|e| unfit(&e))?;
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
    };
    let mut config = match m.own {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|e| m.identity.unfit(&e))?,
    };
    config.key_log = key_log();
    Ok(config)
}
