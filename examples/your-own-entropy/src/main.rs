//! Spindle's command line with a custom policy of flow labels. The page `docs/howto/extend/entropy.md` explains it.

mod flowlet;

use std::process::ExitCode;

use flowlet::Flowlets;
use spindle::Registry;

fn main() -> ExitCode {
    let registry = Registry::standard().entropy(Flowlets { divisor: 2 });
    spindle::cli(registry)
}
