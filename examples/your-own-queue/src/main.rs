//! Spindle's command line with a custom queue discipline. The page `docs/howto/extend/queue.md` explains it.

mod queue;

use std::process::ExitCode;

use spindle::Registry;

fn main() -> ExitCode {
    let registry = Registry::standard().queue("acks-first", queue::SUMMARY, queue::read);
    spindle::cli(registry)
}
