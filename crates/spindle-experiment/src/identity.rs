//! Identifies what made a run. Results are shown side by side only if their identities are equal.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::time::SystemTime;

/// The version that results carry: the package's version and a fingerprint of the sources that results depend
/// on. These are the lab and all crates below it, without what only judges or presents results. The fingerprint is
/// missing if the sources could not be read when this crate was built.
pub const VERSION: &str = env!("SPINDLE_VERSION");

/// The version of results that depend on code outside Spindle, such as custom schemes
/// ([`Registry::version`](crate::registry::Registry::version)). It is [`VERSION`] with a hash of the running
/// executable, since no fingerprint covers that code. Two builds have two different versions.
pub fn build_version() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = DefaultHasher::new();
        match std::env::current_exe().and_then(std::fs::read) {
            Ok(program) => hasher.write(&program),
            // A hash that no other process has: results of unknown origin are not mixed.
            Err(_) => (std::process::id(), SystemTime::now()).hash(&mut hasher),
        }
        format!("{VERSION}.{:016x}", hasher.finish())
    });
    &BUILD
}

/// Identifies what made a run. Results are comparable only if both fields are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunIdentity {
    /// The version of Spindle, as `spindle --version` prints it. If code outside Spindle took part, a suffix
    /// follows ([`build_version`]).
    pub version: String,
    /// A hash, in any text form, of everything in the experiment's point and in the transport except the seed.
    pub configuration: String,
}

impl RunIdentity {
    /// The identity of a run that this version makes.
    pub fn here(configuration: impl Into<String>) -> Self {
        Self {
            version: VERSION.to_owned(),
            configuration: configuration.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fingerprint_covers_core_and_lab_and_omits_tables_and_claims() {
        let sources: Vec<&str> = include_str!(concat!(env!("OUT_DIR"), "/sources.txt"))
            .lines()
            .collect();
        for needed in [
            "../spindle-mptcp/src/connection/transmit.rs",
            "../spindle-mptcp/src/subflow/output.rs",
            "../spindle-fabric/src/simulation/hop.rs",
            "../spindle-lab/src/driver/world.rs",
            "src/traffic/mod.rs",
        ] {
            assert!(sources.contains(&needed), "{needed}");
        }
        let shown = [
            "src/results/",
            "src/claims/",
            "src/file/printed.rs",
            "../spindle-report/",
        ];
        assert!(
            !sources
                .iter()
                .any(|s| shown.iter().any(|shown| s.starts_with(shown)))
        );
    }
}
