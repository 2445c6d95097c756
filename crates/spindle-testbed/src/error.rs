//! [`TestbedError`].

use std::io;

use spindle_experiment::results::StoreError;
use spindle_experiment::traffic::PlanError;
use spindle_fabric::NetworkError;
use spindle_net::NetError;

/// Why an experiment cannot be run in real time.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The process is not root, and user namespaces are not allowed.
    #[error(
        "cannot make a user namespace ({0}): run as root, or allow them with \
         `sysctl kernel.unprivileged_userns_clone=1` or \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    )]
    NoNamespace(io::Error),
    /// The system refused an operation.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// What the system reported.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed: {said}")]
    Program {
        /// The command line.
        command: String,
        /// Its standard error.
        said: String,
    },
    /// There is no such transport.
    #[error("{0}")]
    Transport(String),
    /// The scenario cannot be run in real time.
    #[error("{0}")]
    Scenario(String),
    /// An `--exec` is invalid.
    #[error("--exec {given}: {problem}")]
    Exec {
        /// The argument as given.
        given: String,
        /// What is wrong.
        problem: String,
    },
    /// The store of results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The network is impossible.
    #[error("topology: {0}")]
    Network(#[from] NetworkError),
    /// The traffic does not fit the network.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A Spindle host's data path failed.
    #[error(transparent)]
    Net(#[from] NetError),
}

impl TestbedError {
    /// Makes a function for `map_err` that wraps a system's error.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |e| Self::System {
            what,
            source: e.into(),
        }
    }
}
