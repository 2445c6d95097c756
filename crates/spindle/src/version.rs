//! The text that `--version` prints.

use std::sync::LazyLock;

use spindle_experiment::identity;

/// Short hash and day of the commit that the program was built from, if that is known.
const COMMIT: &str = env!("SPINDLE_COMMIT");

/// The version as it is in results, which does not depend on the commit, and the commit.
pub(crate) fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| with(identity::VERSION, COMMIT));
    &TEXT
}

fn with(version: &str, commit: &str) -> String {
    match commit {
        "" => version.to_owned(),
        commit => format!("{version} ({commit})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_follows_the_results_version_if_it_is_known() {
        assert_eq!(with("0.1.0+fead1d9e", ""), "0.1.0+fead1d9e");
        let both = with("0.1.0+fead1d9e", "53a7b9b 2026-11-23");
        assert_eq!(both, "0.1.0+fead1d9e (53a7b9b 2026-11-23)");
        assert!(version().starts_with(identity::VERSION));
    }
}
