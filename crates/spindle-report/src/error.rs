//! Errors while a report is made.

use std::path::PathBuf;

use spindle_experiment::identity::RunIdentity;

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file or directory could not be written.
    #[error("cannot write report file {}: {source}; give a directory that can be written to", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// Runs of different versions of Spindle would stand side by side.
    #[error(
        "{place}: run made by version {found}, but the report is of version {expected}; \
         run both again with one version"
    )]
    MixedVersions {
        /// The place in the report: the transport or figure.
        place: String,
        /// The version of the report.
        expected: String,
        /// The version of the run.
        found: String,
    },
    /// Runs of different configurations would stand side by side.
    #[error(
        "{place}: run of configuration {found}, but the report is of configuration {expected}; \
         give runs of one experiment file with the same settings"
    )]
    MixedConfigurations {
        /// The place in the report: the transport or figure.
        place: String,
        /// The configuration hash of the report.
        expected: String,
        /// The configuration hash of the run.
        found: String,
    },
}

/// Checks that every run in `runs` has the version and configuration of `expected`.
///
/// # Errors
/// [`ReportError::MixedVersions`] or [`ReportError::MixedConfigurations`] for the first run that differs. `place`
/// describes its place in the report.
pub fn check_identities<'a>(
    expected: &RunIdentity,
    place: &str,
    runs: impl IntoIterator<Item = &'a RunIdentity>,
) -> Result<(), ReportError> {
    for run in runs {
        if run.version != expected.version {
            return Err(ReportError::MixedVersions {
                place: place.to_owned(),
                expected: expected.version.clone(),
                found: run.version.clone(),
            });
        }
        if run.configuration != expected.configuration {
            return Err(ReportError::MixedConfigurations {
                place: place.to_owned(),
                expected: expected.configuration.clone(),
                found: run.configuration.clone(),
            });
        }
    }
    Ok(())
}
