//! The `spindle` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    spindle::cli(spindle::Registry::standard())
}
