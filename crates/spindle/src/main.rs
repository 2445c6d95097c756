//! The `spindle` command.

use std::process::ExitCode;

/// A network's packets and connections are far more than the processor's tables of small pages reach;
/// this allocator asks for huge ones (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spindle::cli(spindle::Registry::standard())
}
