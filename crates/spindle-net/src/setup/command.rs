//! The child process `nft`, which configures packet filters.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use super::{NEEDS_ADMIN, SetupError};

/// Directories of the system's programs, which the PATH of a user other than root may lack.
const SYSTEM: &str = "/usr/sbin:/sbin";

/// Feeds rules to `nft`. Returns its output.
pub(super) fn nft(rules: &str) -> Result<String, SetupError> {
    let args = ["-f", "-"];
    let line = format!("nft {}", args.join(" "));
    let missing = |source| SetupError::Start {
        command: line.clone(),
        source,
    };
    let mut command = Command::new("nft");
    command
        .args(args)
        .env("PATH", path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input reports the reason on standard error.
        let _ = stdin.write_all(rules.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let denied = said.contains("not permitted") || said.contains("ermission denied");
    Err(SetupError::Failed {
        command: line,
        said,
        hint: if denied { NEEDS_ADMIN } else { "" },
    })
}

/// Where programs are found.
fn path() -> OsString {
    match std::env::var_os("PATH").filter(|path| !path.is_empty()) {
        Some(mut path) => {
            path.push(":");
            path.push(SYSTEM);
            path
        }
        None => SYSTEM.into(),
    }
}
