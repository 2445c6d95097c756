//! The flags of `gateway` and `connect` about TLS.

use std::path::Path;

use spindle_net::tls::{
    Bundle, BundleSource, ClientSource, ClientTls, Pin, ServerFiles, ServerTls, TlsError,
};

use super::service::{pair, readable};
use crate::args::service::{BundleArg, Connect, Gateway};
use crate::failure::Failure;
use crate::keys::KeyDirectory;

impl From<TlsError> for Failure {
    fn from(e: TlsError) -> Self {
        Self::Usage(e.to_string())
    }
}

/// TLS of a gateway.
pub(super) fn of_gateway(args: &Gateway) -> Result<Option<ServerTls>, Failure> {
    let mut files = match &args.keys {
        Some(directory) => from_directory(args, directory)?,
        None => match from_flags(args)? {
            Some(files) => files,
            None => return Ok(None),
        },
    };
    files.clients = args.tls_clients.as_deref().map(names).transpose()?;
    Ok(Some(ServerTls::from_files(files)?))
}

/// The files that `spindle keygen` has made.
fn from_directory(args: &Gateway, path: &Path) -> Result<ServerFiles, Failure> {
    let s = &args.service;
    let others = [
        ("tls-cert", s.tls_cert.is_some()),
        ("tls-key", s.tls_key.is_some()),
        ("tls-ca", s.tls_ca.is_some()),
        ("tls-crl", args.tls_crl.is_some()),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let text = format!(
            " and --{flag} exclude each other: the directory has that file; leave one of them out"
        );
        return Err(Failure::setting("keys", text));
    }
    let directory = KeyDirectory::at(path);
    let files = [
        directory.gateway_certificate(),
        directory.gateway_key(),
        directory.authority_certificate(),
        directory.revoked(),
    ];
    for file in &files {
        if let Err(e) = std::fs::File::open(file) {
            let text = format!(
                ": {}: cannot be read: {e}; want a directory that `spindle keygen` has made",
                file.display()
            );
            return Err(Failure::setting("keys", text));
        }
    }
    let [cert, key, ca, crl] = files;
    Ok(ServerFiles {
        client_ca: Some(ca),
        crl: Some(crl),
        same_authority: true,
        ..ServerFiles::new(&cert, &key)
    })
}

fn from_flags(args: &Gateway) -> Result<Option<ServerFiles>, Failure> {
    let ca = args.service.tls_ca.as_deref();
    let Some((cert, key)) = pair(&args.service)? else {
        let own = " needs --tls-cert and --tls-key, the gateway's own certificate";
        return match ca {
            Some(_) => Err(Failure::setting("tls-ca", own)),
            None => clients_need(args, "--keys, or --tls-ca with --tls-cert and --tls-key")
                .map(|()| None),
        };
    };
    match ca {
        Some(ca) => readable("tls-ca", ca)?,
        None => clients_need(args, "--tls-ca, the authority of the clients")?,
    }
    if let Some(crl) = &args.tls_crl {
        readable("tls-crl", crl)?;
    }
    Ok(Some(ServerFiles {
        client_ca: ca.map(Path::to_owned),
        crl: args.tls_crl.clone(),
        ..ServerFiles::new(cert, key)
    }))
}

/// Refuses flags about clients' certificates, which need `want`.
fn clients_need(args: &Gateway, want: &str) -> Result<(), Failure> {
    let given = [
        ("tls-crl", args.tls_crl.is_some()),
        ("tls-clients", args.tls_clients.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::setting(flag, format!(" needs {want}"))),
        None => Ok(()),
    }
}

fn names(text: &str) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = text.split(',').map(|n| n.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err(super::service::bad(
            "tls-clients",
            text,
            "names of clients, separated by commas, such as laptop,phone",
        )),
        false => Ok(names),
    }
}

/// A bundle that was given, and what a user should know about it.
pub(super) struct Given {
    source: BundleSource,
    via: Vec<String>,
    /// Whether it stands in the command line.
    visible: bool,
}

impl Given {
    /// Warns of a bundle that others can see.
    pub(super) fn warn(&self) {
        if self.visible {
            tracing::warn!(
                "--bundle has the client's private key in the command line, where every user of this host can see \
                 it; prefer a file, or - for standard input"
            );
        }
    }
}

/// Reads the bundle, if one is given.
pub(super) fn bundle(args: &Connect) -> Result<Option<Given>, Failure> {
    let Some(BundleArg(value)) = &args.bundle else {
        return Ok(None);
    };
    let s = &args.service;
    let others = [
        ("via", !args.via.is_empty()),
        ("tls-ca", s.tls_ca.is_some()),
        ("tls-name", args.tls_name.is_some()),
        ("tls-cert", s.tls_cert.is_some()),
        ("tls-key", s.tls_key.is_some()),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let text =
            format!(" and --{flag} exclude each other: the bundle has it; leave one of them out");
        return Err(Failure::setting("bundle", text));
    }
    let source = if value == "-" {
        let read = BundleSource::from_reader(std::io::stdin().lock());
        read.map_err(|e| Failure::Usage(format!("--bundle: standard input: {e}")))?
    } else if BundleArg::is_no_file(value) {
        BundleSource::Text(value.clone())
    } else {
        readable("bundle", Path::new(value))?;
        BundleSource::File(value.into())
    };
    let Bundle { header, .. } = source.read().map_err(TlsError::from)?;
    let visible = std::env::args().any(|a| a.contains(spindle_net::tls::LINE_PREFIX));
    Ok(Some(Given {
        source,
        via: header.via,
        visible,
    }))
}

/// The arguments with the gateway's addresses of the bundle.
pub(super) fn with_bundle(args: &Connect, bundle: Option<&Given>) -> Connect {
    let mut args = args.clone();
    if let Some(bundle) = bundle {
        args.via.clone_from(&bundle.via);
    }
    args
}

/// TLS of a connect service.
pub(super) fn of_connect(
    args: &Connect,
    bundle: Option<&Given>,
) -> Result<Option<ClientTls>, Failure> {
    let pins = args.tls_pin.iter().map(|text| {
        let pin = text.parse::<Pin>();
        pin.map_err(|e| Failure::setting("tls-pin", format!(": {e}")))
    });
    let pins = pins.collect::<Result<Vec<_>, _>>()?;
    let source = match bundle {
        Some(given) => ClientSource::Bundle(given.source.clone()),
        None => match files(args)? {
            Some(source) => source,
            None if pins.is_empty() => return Ok(None),
            None => {
                let text = " needs --bundle, or --tls-ca and --tls-name: the pin is an addition to the authority";
                return Err(Failure::setting("tls-pin", text));
            }
        },
    };
    Ok(Some(ClientTls::from_source(source, pins)?))
}

fn files(args: &Connect) -> Result<Option<ClientSource>, Failure> {
    let identity = pair(&args.service)?;
    let Some(ca) = &args.service.tls_ca else {
        if identity.is_some() || args.tls_name.is_some() {
            let text = "--tls-cert, --tls-key and --tls-name need --tls-ca, the authorities that the \
                        gateway's certificate may come from";
            return Err(Failure::setting("", text));
        }
        return Ok(None);
    };
    let Some(name) = &args.tls_name else {
        let text = " needs --tls-name, the name in the gateway's certificate";
        return Err(Failure::setting("tls-ca", text));
    };
    readable("tls-ca", ca)?;
    Ok(Some(ClientSource::Files {
        ca: ca.clone(),
        identity: identity.map(|(cert, key)| (cert.clone(), key.clone())),
        name: name.clone(),
    }))
}
