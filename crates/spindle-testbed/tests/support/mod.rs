//! Helpers that the testbed's tests share: whether the machine can run them, and an experiment from a text.

use std::path::Path;

use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, Overrides, library};

/// Whether this process is root and the machine has all of `needs` (paths). If not, it prints why the test is
/// skipped.
pub(crate) fn able(needs: &[&str]) -> bool {
    let missing = needs.iter().find(|path| !Path::new(path).exists());
    let why = match missing {
        _ if !nix::unistd::geteuid().is_root() => "it takes root".to_owned(),
        Some(path) => format!("there is no {path}"),
        None => return true,
    };
    eprintln!("skipped: {why}");
    false
}

/// Makes the experiment in `text`. Other transports replace the file's if any are given, and `set` overrides
/// keys.
pub(crate) fn experiment(
    text: &str,
    transports: Option<&str>,
    set: &[&str],
) -> (Experiment, Registry) {
    let registry = Registry::standard();
    let overrides = Overrides {
        transports: transports.map(str::to_owned),
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        ..Overrides::default()
    };
    let experiment = library::parse(&registry, ("test.toml", text), Path::new("."), &overrides);
    (experiment.unwrap(), registry)
}
