//! Spindle's command line with a custom congestion controller and a custom scheduler.

use std::process::ExitCode;

fn main() -> ExitCode {
    spindle::cli(extend::registry())
}
