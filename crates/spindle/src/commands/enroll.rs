//! `spindle enroll`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use spindle_net::tls::{Bundle, BundleHeader, Certificate, Pin, date};
use time::OffsetDateTime;

use super::connect::target;
use super::print;
use crate::args::keys::Enroll as Args;
use crate::failure::Failure;
use crate::keys::authority::{Authority, Signed, Subject, new_key};
use crate::keys::register::{Client, Register, client_name};
use crate::keys::{KeyDirectory, KeysError, fill, new_file, read};

pub(crate) fn enroll(args: &Args) -> Result<ExitCode, Failure> {
    client_name(&args.client)?;
    for via in &args.via {
        target(via)?;
    }
    let (directory, _lock) = KeyDirectory::lock(&args.directory)?;
    let authority = Authority::read(&directory)?;
    let mut register = Register::read(&directory)?;
    if let Some(present) = register.valid(&args.client, OffsetDateTime::now_utc())
        && !args.renew
    {
        return Err(Failure::Usage(format!(
            "--client: {} has a certificate that is valid until {}; give --renew to make a further one, or revoke it \
             first",
            args.client,
            date(present.expires.unix_timestamp())
        )));
    }
    let header = header(args, &directory)?;
    // Make the file before the certificate, so that no certificate is lost because its file cannot be made.
    let mut out = Out::open(args)?;
    let signed = signed(&authority, &mut register, &directory, args);
    let (signed, key) = signed.inspect_err(|_| out.remove())?;
    let mut text = header.with(&authority.pem, &signed.pem, &key);
    if args.line {
        text = Bundle::line(&text);
        text.push('\n');
    }
    out.write(&text)?;
    eprintln!(
        "{}: client {}, serial {}, ends on {}",
        out.name(),
        args.client,
        signed.serial,
        date(signed.ends.unix_timestamp())
    );
    Ok(ExitCode::SUCCESS)
}

fn header(args: &Args, directory: &KeyDirectory) -> Result<BundleHeader, KeysError> {
    let path = directory.gateway_certificate();
    let unfit = |problem| KeysError::Unfit {
        path: path.clone(),
        problem,
    };
    let gateway = Certificate::read_pem(&read(&path)?).map_err(unfit)?;
    let name = gateway.names.first().cloned();
    let name = name.ok_or_else(|| unfit("the certificate has no name".to_owned()))?;
    let pin = args.pin.then_some(Pin(gateway.key_hash));
    Ok(BundleHeader {
        via: args.via.clone(),
        tls_name: name,
        client: args.client.clone(),
        pins: pin.into_iter().collect(),
    })
}

/// Signs a certificate and records it. Returns the key in PEM form as well.
fn signed(
    authority: &Authority,
    register: &mut Register,
    directory: &KeyDirectory,
    args: &Args,
) -> Result<(Signed, String), KeysError> {
    let key = new_key()?;
    let signed = authority.sign(Subject::Client(&args.client), args.days, &key)?;
    // A certificate has whole seconds.
    let expires = signed.ends.replace_nanosecond(0);
    register.clients.push(Client {
        name: args.client.clone(),
        serial: signed.serial.clone(),
        expires: expires.unwrap_or(signed.ends),
        revoked: None,
    });
    register.write(directory)?;
    Ok((signed, key.serialize_pem()))
}

/// Where the bundle goes.
enum Out {
    Standard,
    File(PathBuf, File),
}

impl Out {
    fn open(args: &Args) -> Result<Self, Failure> {
        let path = match &args.out {
            Some(path) if path == Path::new("-") => return Ok(Self::Standard),
            Some(path) => path.clone(),
            None if args.line => return Ok(Self::Standard),
            None => PathBuf::from(format!("{}.bundle", args.client)),
        };
        match new_file(&path) {
            Ok(file) => Ok(Self::File(path, file)),
            Err(KeysError::Exists(path)) => Err(Failure::Usage(format!(
                "{}: there already; nothing is overwritten: name another file with --out",
                path.display()
            ))),
            Err(e) => Err(e.into()),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), KeysError> {
        match self {
            Self::Standard => {
                print(text);
                Ok(())
            }
            Self::File(path, file) => fill(file, path, text),
        }
    }

    /// Removes the file, which has no bundle.
    fn remove(&self) {
        if let Self::File(path, _) = self {
            // The error that comes before this one is reported.
            let _ = std::fs::remove_file(path);
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Standard => "standard output".to_owned(),
            Self::File(path, _) => path.display().to_string(),
        }
    }
}
