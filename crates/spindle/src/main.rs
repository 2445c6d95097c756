//! The `spindle` command.
//!
//! It calls [`spindle::cli`] with the standard registry and chooses the allocator. The crate's library
//! documents the commands and the modules.

use std::process::ExitCode;

/// The packets and connections of a network need far more memory than the processor's tables of small pages
/// cover. This allocator requests huge pages (`docs/performance.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    spindle::cli(spindle::Registry::standard())
}
