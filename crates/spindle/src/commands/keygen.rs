//! `spindle keygen`.

use std::process::ExitCode;

use spindle_net::tls::{Certificate, Pin, date};
use time::{Duration, OffsetDateTime};

use super::print;
use crate::args::keys::Keygen as Args;
use crate::failure::Failure;
use crate::keys::authority::{Authority, Signed, Subject, gateway_name, key_from, new_key};
use crate::keys::register::Register;
use crate::keys::{KeyDirectory, KeysError, fill, new_file, read, replace};

pub(crate) fn keygen(args: &Args) -> Result<ExitCode, Failure> {
    args.name.iter().try_for_each(|n| gateway_name(n))?;
    let signed = match args.renew {
        true => renew(args)?,
        false => make(args)?,
    };
    let certificate = Certificate::read_pem(&signed.pem).map_err(Failure::Other)?;
    let directory = KeyDirectory::at(&args.directory);
    let mut text = format!(
        "{}: {}, ends on {}\npin: {}\n",
        directory.gateway_certificate().display(),
        certificate.names.join(", "),
        date(certificate.ends),
        Pin(certificate.key_hash)
    );
    let wanted = OffsetDateTime::now_utc() + Duration::days(args.days.into());
    if signed.ends + Duration::days(1) < wanted {
        text.push_str("note: it ends earlier than requested, with the authority\n");
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn make(args: &Args) -> Result<Signed, KeysError> {
    let (directory, _lock) = KeyDirectory::make(&args.directory)?;
    let first = args.name.first().map_or("gateway", String::as_str);
    let (authority, authority_key) = Authority::new(first)?;
    let key = new_key()?;
    let signed = authority.sign(Subject::Gateway(&args.name), args.days, &key)?;
    let revoked = authority.revocation_list(&Register::default())?;
    for (path, text) in [
        (directory.authority_key(), &authority_key),
        (directory.authority_certificate(), &authority.pem),
        (directory.gateway_key(), &key.serialize_pem()),
        (directory.gateway_certificate(), &signed.pem),
        (directory.revoked(), &revoked),
    ] {
        fill(&mut new_file(&path)?, &path, text)?;
    }
    Register::default().write(&directory)?;
    Ok(signed)
}

/// Renews the certificate for the key that is there, so that the files of a running gateway fit each other at any time, and
/// pins stay right.
fn renew(args: &Args) -> Result<Signed, KeysError> {
    let (directory, _lock) = KeyDirectory::lock(&args.directory)?;
    let authority = Authority::read(&directory)?;
    let path = directory.gateway_certificate();
    let names = match args.name.is_empty() {
        false => args.name.clone(),
        true => {
            let unfit = |problem| KeysError::Unfit {
                path: path.clone(),
                problem,
            };
            Certificate::read_pem(&read(&path)?).map_err(unfit)?.names
        }
    };
    let key_path = directory.gateway_key();
    let key = match key_path.exists() {
        true => key_from(&read(&key_path)?, &key_path)?,
        false => {
            let key = new_key()?;
            fill(&mut new_file(&key_path)?, &key_path, &key.serialize_pem())?;
            key
        }
    };
    let signed = authority.sign(Subject::Gateway(&names), args.days, &key)?;
    replace(&path, &signed.pem)?;
    Ok(signed)
}
