//! `--write-lock` and `--check-lock` of `spindle reproduce`.

use std::path::Path;

use spindle_experiment::Scale;
use spindle_experiment::results::{Lock, LockError, Verdicts};

use crate::args::Reproduce;
use crate::failure::Failure;

/// What is done with a lock of verdicts after the runs.
pub(super) enum LockStep<'a> {
    /// Nothing.
    None,
    /// The verdicts of the runs replace those in the lock, which is then written.
    Write(Lock, &'a Path),
    /// The verdicts of the runs are compared with those in the lock.
    Check(Lock, &'a Path),
}

impl<'a> LockStep<'a> {
    /// Reads the lock before the runs, so that a mistake in it is found early. A lock that is written for all
    /// experiments begins empty, as does one whose file does not exist.
    pub(super) fn of(args: &'a Reproduce, scale: Scale) -> Result<Self, Failure> {
        match (&args.write_lock, &args.check_lock) {
            (Some(path), _) if args.all || !path.exists() => {
                Ok(Self::Write(Lock::new(scale), path))
            }
            (Some(path), _) => Ok(Self::Write(Lock::read(path, scale)?, path)),
            (None, Some(path)) => Ok(Self::Check(Lock::read(path, scale)?, path)),
            (None, None) => Ok(Self::None),
        }
    }

    /// Writes or checks the lock.
    pub(super) fn finish(self, verdicts: &[Verdicts]) -> Result<(), Failure> {
        match self {
            Self::None => Ok(()),
            Self::Write(mut lock, path) => {
                for of in verdicts {
                    lock.insert(of);
                }
                Ok(lock.write(path)?)
            }
            Self::Check(lock, path) => {
                let differences = lock.differences(verdicts);
                match differences.is_empty() {
                    true => Ok(()),
                    false => Err(LockError::Changed {
                        path: path.to_owned(),
                        differences,
                    })?,
                }
            }
        }
    }
}
