//! The command, run as its users run it.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the command in a directory to its end.
pub(crate) fn spindle(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spindle"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// The output as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
