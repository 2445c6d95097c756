//! Spindle's command line with the names of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    spindle::cli(extensions::registry())
}
