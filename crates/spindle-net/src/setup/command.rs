//! Child processes that configure the system: `ip` and `nft`.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use super::SetupError;

/// Directories of the system's programs, which the PATH of a user other than root may lack.
const SYSTEM: &str = "/usr/sbin:/sbin";

/// Runs `program` with `args` and with `input` on its standard input. Returns its output.
pub(super) fn run(program: &str, args: &[&str], input: Option<&str>) -> Result<String, SetupError> {
    let line = format!("{program} {}", args.join(" "));
    let missing = |source| SetupError::Start {
        command: line.clone(),
        source,
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .env("PATH", path())
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        // A program that does not read its input reports the reason on standard error.
        let _ = stdin.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let hint = if said.contains("not permitted") || said.contains("ermission denied") {
        "; it takes CAP_NET_ADMIN: run it as root or in a user namespace"
    } else {
        ""
    };
    Err(SetupError::Failed {
        command: line,
        said,
        hint,
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

/// Splits a line of arguments at its spaces and runs `ip` with them.
pub(super) fn ip(line: &str) -> Result<String, SetupError> {
    let args: Vec<&str> = line.split_whitespace().collect();
    run("ip", &args, None)
}

/// Feeds rules to `nft`.
pub(super) fn nft(rules: &str) -> Result<String, SetupError> {
    run("nft", &["-f", "-"], Some(rules))
}
