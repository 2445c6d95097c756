//! `spindle revoke`.

use std::process::ExitCode;

use spindle_experiment::suggestion;
use time::OffsetDateTime;

use super::print;
use crate::args::keys::Revoke as Args;
use crate::failure::Failure;
use crate::keys::authority::Authority;
use crate::keys::register::Register;
use crate::keys::{KeyDirectory, replace};

pub(crate) fn revoke(args: &Args) -> Result<ExitCode, Failure> {
    let (directory, _lock) = KeyDirectory::lock(&args.directory)?;
    let authority = Authority::read(&directory)?;
    let mut register = Register::read(&directory)?;
    let now = OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).unwrap_or(now);
    let (all, new) = register.revoke(&args.client, now);
    if all == 0 {
        let names = register.clients.iter().map(|c| c.name.as_str());
        return Err(Failure::Usage(format!(
            "--client: found \"{}\", want a client of {}{}",
            args.client,
            directory.register().display(),
            suggestion(&args.client, names)
        )));
    }
    register.write(&directory)?;
    // Written even if nothing is new: a former run may have ended between the two files.
    let path = directory.revoked();
    replace(&path, &authority.revocation_list(&register)?)?;
    let what = match new {
        0 => "was revoked before".to_owned(),
        1 => "1 certificate revoked".to_owned(),
        n => format!("{n} certificates revoked"),
    };
    print(&format!(
        "{}: {what}; {} takes effect once the gateway has it and gets SIGHUP\n",
        args.client,
        path.display()
    ));
    Ok(ExitCode::SUCCESS)
}
