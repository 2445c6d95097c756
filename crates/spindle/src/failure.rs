//! Errors that end a command early, and their exit codes.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use spindle_experiment::ExperimentError;
use spindle_experiment::library::UnknownName;
use spindle_experiment::results::LockError;
use spindle_lab::driver::RunError;
use spindle_lab::sweep::SweepError;
use spindle_report::RegisterError;

/// Why a command ended early, in one line.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The user can correct it: exit code 2.
    Usage(String),
    /// A flag is wrong or missing. This is bad usage, but the flag may come from a file.
    Setting(Setting),
    /// Something else went wrong: exit code 1.
    Other(String),
}

/// A mistake in a flag, reported as `--flag: problem`.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The flag's name without dashes. Empty if the mistake is not about a single flag.
    pub(crate) flag: String,
    /// The value that is wrong, if it is one of several.
    pub(crate) found: Option<String>,
    /// What is wrong, and what would be right. It continues after the flag's name.
    pub(crate) problem: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dashes = if self.flag.is_empty() { "" } else { "--" };
        write!(f, "{dashes}{}{}", self.flag, self.problem)
    }
}

impl Failure {
    /// A mistake in a flag. `problem` continues after its name.
    pub(crate) fn setting(flag: &str, problem: impl Into<String>) -> Self {
        Self::Setting(Setting {
            flag: flag.to_owned(),
            found: None,
            problem: problem.into(),
        })
    }

    /// Prints the line on standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("error: {}", self.line());
        ExitCode::from(match self {
            Self::Usage(_) | Self::Setting(_) => crate::USAGE,
            Self::Other(_) => 1,
        })
    }

    /// The failure in one line.
    pub(crate) fn line(&self) -> String {
        let text = match self {
            Self::Usage(text) | Self::Other(text) => text,
            Self::Setting(setting) => &setting.to_string(),
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The failure for a file that cannot be read or written.
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

impl From<UnknownName> for Failure {
    fn from(e: UnknownName) -> Self {
        Self::Usage(e.to_string())
    }
}

impl From<LockError> for Failure {
    fn from(e: LockError) -> Self {
        match e {
            LockError::Io { path, source } => Self::file(&path, "read or write", &source),
            LockError::Format { .. } | LockError::Scale { .. } => Self::Usage(e.to_string()),
            LockError::Changed { .. } => Self::Other(e.to_string()),
        }
    }
}

impl From<RegisterError> for Failure {
    fn from(e: RegisterError) -> Self {
        match e {
            RegisterError::Io { path, source } => Self::file(&path, "read", &source),
            RegisterError::Page(e) => Self::Other(e.to_string()),
            _ => Self::Usage(e.to_string()),
        }
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
            SweepError::Store(_) | SweepError::MixedVersions { .. } => Self::Other(e.to_string()),
        }
    }
}
