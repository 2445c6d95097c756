//! What made a run: results stand side by side only if it is the same.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::time::SystemTime;

/// The version that results carry: that of the package and a fingerprint of the sources that results
/// depend on (every crate below the lab, and the lab but for its reports), where they were there to
/// be read when it was built.
pub const VERSION: &str = env!("SPINDLE_VERSION");

/// The version of results that code outside Spindle takes part in, as schemes of one's own do
/// ([`Registry::version`](crate::registry::Registry::version)): [`VERSION`] with a hash of the running
/// executable, since no fingerprint covers that code. Two builds have two such versions.
pub fn build_version() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let mut hasher = DefaultHasher::new();
        match std::env::current_exe().and_then(std::fs::read) {
            Ok(program) => hasher.write(&program),
            // As no other process has it: results of unknown origin are not mixed.
            Err(_) => (std::process::id(), SystemTime::now()).hash(&mut hasher),
        }
        format!("{VERSION}.{:016x}", hasher.finish())
    });
    &BUILD
}

/// What made a run: results are comparable only if both are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunIdentity {
    /// The version of Spindle, as `spindle --version` prints it; with more behind it where code outside
    /// Spindle took part ([`build_version`]).
    pub version: String,
    /// A hash of everything in the experiment's point and in the transport but the seed, in any text
    /// form.
    pub configuration: String,
}

impl RunIdentity {
    /// A run that this version makes.
    pub fn here(configuration: impl Into<String>) -> Self {
        Self {
            version: VERSION.to_owned(),
            configuration: configuration.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    /// The lab's reports have an `output.rs` that results do not depend on; those of the core are another
    /// matter.
    #[test]
    fn all_of_the_core_is_in_the_fingerprint_and_no_report() {
        let sources: Vec<&str> = include_str!(concat!(env!("OUT_DIR"), "/sources.txt"))
            .lines()
            .collect();
        for needed in [
            "../spindle-mptcp/src/connection/output.rs",
            "../spindle-mptcp/src/subflow/output.rs",
            "../spindle-fabric/src/simulation/hop.rs",
            "src/driver/world.rs",
        ] {
            assert!(sources.contains(&needed), "{needed}");
        }
        assert!(!sources.contains(&"src/output.rs"));
        assert!(!sources.iter().any(|s| s.starts_with("src/report/")));
    }
}
