//! The lock of verdicts: a file with the hash and the verdict of each claim of a small run, so that a change of
//! the code, of a claim or of a size that changes a verdict is noticed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::comparison::Verdicts;
use crate::claims::Verdict;
use crate::file::Scale;

/// The verdicts on the claims of several experiments, at one scale and in the papers' default reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The name of the scale ([`Scale::name`]).
    pub scale: String,
    /// The experiments by their ids.
    pub experiments: BTreeMap<String, Locked>,
}

/// The verdicts on the claims of one experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// The version that made the runs. It is information only: a check does not compare it.
    pub version: String,
    /// The hash of the sizes and of all claims ([`super::Registration::hash`]).
    pub hash: String,
    /// The sizes, as text.
    pub sizes: String,
    /// The claims, in the order of the file.
    pub claims: Vec<LockedClaim>,
}

/// The verdict on one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedClaim {
    /// The claim's id.
    pub id: String,
    /// The hash of its text and its rule.
    pub hash: String,
    /// The verdict.
    pub verdict: Verdict,
}

/// Why a lock cannot be read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be read or written.
    #[error("{}: cannot be read or written: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// The file is not a lock.
    #[error("{}: found no lock of verdicts: {source}; want a file that --write-lock has written", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The mistake.
        source: serde_json::Error,
    },
    /// A run has other claims, sizes or verdicts than the lock.
    #[error(
        "{}: differs from this run: {}; if that is intended, run --write-lock",
        path.display(),
        differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The differences. There is at least one.
        differences: Vec<Difference>,
    },
    /// The lock has verdicts of another scale.
    #[error("{}: found verdicts of --{locked}, want those of --{run}, the scale of this run", path.display())]
    Scale {
        /// The file.
        path: PathBuf,
        /// The scale of the lock.
        locked: String,
        /// The scale of the run.
        run: String,
    },
}

/// A difference between a lock and a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The lock does not contain the experiment.
    NotLocked {
        /// The experiment.
        experiment: String,
    },
    /// The sizes differ.
    Sizes {
        /// The experiment.
        experiment: String,
        /// The sizes in the lock.
        locked: String,
        /// The sizes of the run. They may have the same text if only values of the sweep differ.
        run: String,
    },
    /// The lock does not contain the claim.
    NewClaim {
        /// The claim.
        claim: String,
    },
    /// The experiment no longer has the claim.
    RemovedClaim {
        /// The claim.
        claim: String,
    },
    /// The text or the rule of the claim differs.
    Rule {
        /// The claim.
        claim: String,
    },
    /// The verdict differs.
    Verdict {
        /// The claim.
        claim: String,
        /// The verdict in the lock.
        locked: Verdict,
        /// The verdict of the run.
        run: Verdict,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLocked { experiment } => write!(f, "{experiment}: not in the lock"),
            Self::Sizes {
                experiment,
                locked,
                run,
            } if locked == run => {
                write!(
                    f,
                    "{experiment}: the transports, seeds or values of the sweep changed"
                )
            }
            Self::Sizes {
                experiment,
                locked,
                run,
            } => write!(f, "{experiment}: the sizes are {run}, were {locked}"),
            Self::NewClaim { claim } => write!(f, "{claim}: new, not in the lock"),
            Self::RemovedClaim { claim } => {
                write!(f, "{claim}: in the lock, but no longer a claim")
            }
            Self::Rule { claim } => write!(f, "{claim}: its text or rule changed"),
            Self::Verdict { claim, locked, run } => {
                write!(f, "{claim}: {}, was {}", run.word(), locked.word())
            }
        }
    }
}

impl Locked {
    /// The entry of a lock for the verdicts of a run.
    pub fn of(verdicts: &Verdicts) -> Self {
        let registered = &verdicts.registered;
        let claims = registered.claims.iter().zip(&verdicts.claims);
        Self {
            version: verdicts.version.clone(),
            hash: registered.hash.clone(),
            sizes: registered.sizes.clone(),
            claims: claims
                .map(|((id, hash), outcome)| LockedClaim {
                    id: id.clone(),
                    hash: hash.clone(),
                    verdict: outcome.verdict,
                })
                .collect(),
        }
    }

    /// The differences between this entry and that of a run.
    fn differences(&self, experiment: &str, run: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        for new in &run.claims {
            let claim = new.id.clone();
            let Some(old) = self.claims.iter().find(|c| c.id == new.id) else {
                found.push(Difference::NewClaim { claim });
                continue;
            };
            if old.hash != new.hash {
                found.push(Difference::Rule {
                    claim: claim.clone(),
                });
            }
            if old.verdict != new.verdict {
                found.push(Difference::Verdict {
                    claim,
                    locked: old.verdict,
                    run: new.verdict,
                });
            }
        }
        let removed = |old: &&LockedClaim| !run.claims.iter().any(|c| c.id == old.id);
        found.extend(self.claims.iter().filter(removed).map(|old| {
            let claim = old.id.clone();
            Difference::RemovedClaim { claim }
        }));
        let same_claims = self
            .claims
            .iter()
            .map(|c| &c.hash)
            .eq(run.claims.iter().map(|c| &c.hash));
        if self.sizes != run.sizes || (same_claims && self.hash != run.hash) {
            found.push(Difference::Sizes {
                experiment: experiment.to_owned(),
                locked: self.sizes.clone(),
                run: run.sizes.clone(),
            });
        }
        found
    }
}

impl Lock {
    /// A lock without experiments.
    pub fn new(scale: Scale) -> Self {
        Self {
            scale: scale.name().to_owned(),
            experiments: BTreeMap::new(),
        }
    }

    /// Reads a lock of verdicts at a scale.
    ///
    /// # Errors
    /// The file cannot be read, is not a lock, or has verdicts of another scale.
    pub fn read(path: &Path, scale: Scale) -> Result<Self, LockError> {
        let text = std::fs::read_to_string(path).map_err(|source| LockError::Io {
            path: path.to_owned(),
            source,
        })?;
        let lock: Self = serde_json::from_str(&text).map_err(|source| LockError::Format {
            path: path.to_owned(),
            source,
        })?;
        if lock.scale != scale.name() {
            return Err(LockError::Scale {
                path: path.to_owned(),
                locked: lock.scale,
                run: scale.name().to_owned(),
            });
        }
        Ok(lock)
    }

    /// Writes the lock, with one line for each claim.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        std::fs::write(path, self.to_string()).map_err(|source| LockError::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// Replaces the entry of an experiment by the verdicts of a run. Experiments without claims have no entry.
    pub fn insert(&mut self, verdicts: &Verdicts) {
        if !verdicts.claims.is_empty() {
            self.experiments
                .insert(verdicts.id.clone(), Locked::of(verdicts));
        }
    }

    /// The differences between the lock and the verdicts of a run. Experiments that were not run are not compared.
    pub fn differences<'a>(&self, run: impl IntoIterator<Item = &'a Verdicts>) -> Vec<Difference> {
        let of = |verdicts: &Verdicts| match self.experiments.get(&verdicts.id) {
            _ if verdicts.claims.is_empty() => Vec::new(),
            Some(locked) => locked.differences(&verdicts.id, &Locked::of(verdicts)),
            None => vec![Difference::NotLocked {
                experiment: verdicts.id.clone(),
            }],
        };
        run.into_iter().flat_map(of).collect()
    }
}

/// JSON with one line for each experiment and each claim.
impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let scale = json(&self.scale);
        write!(f, "{{ \"scale\": {scale},\n  \"experiments\": {{")?;
        for (n, (id, locked)) in self.experiments.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let (id, version, hash) = (json(id), json(&locked.version), json(&locked.hash));
            let sizes = json(&locked.sizes);
            write!(
                f,
                "{comma}\n    {id}: {{ \"version\": {version}, \"hash\": {hash},"
            )?;
            write!(f, "\n      \"sizes\": {sizes},\n      \"claims\": [")?;
            for (n, claim) in locked.claims.iter().enumerate() {
                let comma = if n > 0 { "," } else { "" };
                let (id, hash) = (json(&claim.id), json(&claim.hash));
                let verdict = json(claim.verdict.word());
                write!(
                    f,
                    "{comma}\n        {{ \"id\": {id}, \"hash\": {hash}, \"verdict\": {verdict} }}"
                )?;
            }
            write!(f, "\n      ] }}")?;
        }
        writeln!(f, "\n  }}\n}}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registration;
    use super::*;
    use crate::claims::{Kind, Outcome};

    fn verdicts(id: &str, sizes: &str, claims: &[(&str, &str, Verdict)]) -> Verdicts {
        let outcome = |(id, _, verdict): &(&str, &str, Verdict)| Outcome {
            id: (*id).to_owned(),
            kind: Kind::Numeric,
            text: String::new(),
            paper: String::new(),
            measured: String::new(),
            verdict: *verdict,
            why: String::new(),
            points: Vec::new(),
        };
        let hash = |(id, hash, _): &(&str, &str, Verdict)| ((*id).to_owned(), (*hash).to_owned());
        Verdicts {
            id: id.to_owned(),
            version: "1".to_owned(),
            registered: Registration {
                hash: format!("{sizes}{claims:?}"),
                sizes: sizes.to_owned(),
                claims: claims.iter().map(hash).collect(),
            },
            claims: claims.iter().map(outcome).collect(),
        }
    }

    fn lock() -> Lock {
        let mut lock = Lock::new(Scale::Quick);
        let claims = [
            ("a-n1", "1f", Verdict::Holds),
            ("a-n2", "2f", Verdict::Tied),
        ];
        lock.insert(&verdicts("a", "10 flows", &claims));
        lock.insert(&verdicts(
            "b",
            "20 flows",
            &[("b-n1", "3f", Verdict::NotCheckable)],
        ));
        lock.insert(&verdicts("c", "20 flows", &[]));
        lock
    }

    fn texts(run: &[Verdicts]) -> Vec<String> {
        let found = lock().differences(run);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lock_is_read_as_it_was_written_with_a_line_for_each_claim() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock.json");
        lock().write(&path).unwrap();
        assert_eq!(Lock::read(&path, Scale::Quick).unwrap(), lock());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|l| l.contains("\"verdict\""));
        assert_eq!(lines.count(), 3, "{text}");
        let wrong = Lock::read(&path, Scale::Full).unwrap_err().to_string();
        assert!(
            wrong.contains("found verdicts of --quick, want those of --full"),
            "{wrong}"
        );
    }

    #[test]
    fn file_that_is_no_lock_is_refused_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock.json");
        std::fs::write(&path, "{}").unwrap();
        let wrong = Lock::read(&path, Scale::Quick).unwrap_err().to_string();
        assert!(
            wrong.contains("lock.json: found no lock of verdicts"),
            "{wrong}"
        );
    }

    #[test]
    fn same_verdicts_of_some_experiments_have_no_difference() {
        let claims = [
            ("a-n1", "1f", Verdict::Holds),
            ("a-n2", "2f", Verdict::Tied),
        ];
        assert!(texts(&[verdicts("a", "10 flows", &claims)]).is_empty());
        assert!(texts(&[verdicts("d", "10 flows", &[])]).is_empty());
    }

    #[test]
    fn each_claim_whose_verdict_or_rule_changed_is_named() {
        let claims = [
            ("a-n1", "1f", Verdict::Fails),
            ("a-n2", "ff", Verdict::Tied),
            ("a-n3", "4f", Verdict::Tied),
        ];
        let changed = [
            "a-n1: fails, was holds",
            "a-n2: its text or rule changed",
            "a-n3: new, not in the lock",
        ];
        assert_eq!(texts(&[verdicts("a", "10 flows", &claims)]), changed);
        let removed = [("a-n1", "1f", Verdict::Holds)];
        let changed = ["a-n2: in the lock, but no longer a claim"];
        assert_eq!(texts(&[verdicts("a", "10 flows", &removed)]), changed);
    }

    #[test]
    fn changed_sizes_and_unknown_experiments_are_named() {
        let claims = [("b-n1", "3f", Verdict::NotCheckable)];
        let sizes = ["b: the sizes are 40 flows, were 20 flows"];
        assert_eq!(texts(&[verdicts("b", "40 flows", &claims)]), sizes);
        assert_eq!(
            texts(&[verdicts("d", "40 flows", &claims)]),
            ["d: not in the lock"]
        );
        let mut other = verdicts("b", "20 flows", &claims);
        other.registered.hash.clear();
        let text = "b: the transports, seeds or values of the sweep changed";
        assert_eq!(texts(&[other]), [text]);
    }
}
