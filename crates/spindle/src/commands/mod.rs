//! One file per command.

pub(crate) mod analyze;
mod capture;
pub(crate) mod compare;
pub(crate) mod connect;
pub(crate) mod enroll;
pub(crate) mod exec;
mod expiry;
pub(crate) mod explain;
pub(crate) mod flows;
pub(crate) mod gateway;
mod handover;
pub(crate) mod keygen;
mod lock;
mod log;
pub(crate) mod pages;
mod paths;
mod proxy;
mod redirect;
pub(crate) mod register;
pub(crate) mod reproduce;
pub(crate) mod revoke;
mod service;
pub(crate) mod status;
pub(crate) mod testbed;
mod tls;
pub(crate) mod trace;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;

/// Whether results go to standard output as JSON, so that nothing else may be printed there.
fn json_on_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Writes a value as JSON to a file or standard output.
fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|e| Failure::Other(e.to_string()))?;
    text.push('\n');
    if json_on_stdout(Some(path)) {
        print(&text);
        return Ok(());
    }
    std::fs::write(path, text).map_err(|e| Failure::file(path, "write", &e))
}

/// Prints on standard output. It is not an error if the reader has closed it (`| head`).
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The command line as it was given.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(|w| quoted(&w)).collect();
    format!("{} {}", program(), words.join(" "))
}

/// The name by which the process was started, without directories and quoted. A crate that uses this library
/// has its own name.
fn program() -> String {
    quoted(&file_name())
}

/// The name by which the process was started, without directories.
fn file_name() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name);
    name.map_or("spindle".into(), |n| n.to_string_lossy().into_owned())
}

/// A word as a shell accepts it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=./,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Whether progress lines may be overwritten.
fn progress() -> bool {
    std::io::stderr().is_terminal()
}
