//! What ends a command early, and with which exit code.

use std::path::Path;
use std::process::ExitCode;

use spindle_lab::ExperimentError;
use spindle_lab::driver::RunError;
use spindle_lab::sweep::SweepError;

/// Why a command ended early, in one line.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user can mend it: exit code 2.
    Usage(String),
    /// Something else went wrong: exit code 1.
    Other(String),
}

impl Failure {
    /// Prints the line on standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text, crate::USAGE),
            Self::Other(text) => (text, 1),
        };
        eprintln!(
            "error: {}",
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        );
        ExitCode::from(code)
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(path: &Path, action: &str, error: &std::io::Error) -> Self {
        let text = format!("{}: cannot {action}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::Usage(text),
            _ => Self::Other(text),
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(e: ExperimentError) -> Self {
        Self::Usage(e.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(e: RunError) -> Self {
        Self::Usage(e.to_string())
    }
}

impl From<SweepError> for Failure {
    fn from(e: SweepError) -> Self {
        match e {
            SweepError::Run(e) => e.into(),
            SweepError::Store { .. } | SweepError::MixedVersions { .. } => {
                Self::Other(e.to_string())
            }
        }
    }
}
