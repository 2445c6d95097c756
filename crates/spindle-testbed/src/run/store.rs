//! Finished parts on disk, one line of JSON each, like the lab's store.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use spindle_experiment::results::{Lines, RunKey, StoreError};

use crate::run::part::PartOutput;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    experiment: String,
    version: String,
    set: Vec<(String, String)>,
    #[serde(flatten)]
    key: RunKey,
    #[serde(flatten)]
    output: PartOutput,
}

/// A store that is open for writing.
#[derive(Debug)]
pub(crate) struct Store {
    lines: Lines,
    experiment: String,
    version: &'static str,
}

impl Store {
    /// Opens a store for parts of this version of an experiment. It is continued if `resume` is set, and
    /// emptied otherwise.
    pub(crate) fn open(
        path: &Path,
        resume: bool,
        experiment: &str,
        version: &'static str,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            lines: Lines::open(path, resume)?,
            experiment: experiment.to_owned(),
            version,
        })
    }

    /// Appends a part.
    pub(crate) fn append(
        &self,
        set: &[(String, String)],
        key: &RunKey,
        output: &PartOutput,
    ) -> Result<(), StoreError> {
        self.lines.append(&Line {
            experiment: self.experiment.clone(),
            version: self.version.to_owned(),
            set: set.to_vec(),
            key: key.clone(),
            output: output.clone(),
        })
    }
}

/// Reads the parts of this version. Lines that were cut short or have another version are skipped.
pub(crate) fn read(path: &Path, version: &str) -> Result<HashMap<RunKey, PartOutput>, StoreError> {
    let mut known = HashMap::new();
    for line in Lines::read(path)? {
        if let Ok(l) = serde_json::from_str::<Line>(&line?.1)
            && l.version == version
        {
            known.insert(l.key, l.output);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn key(part: u64) -> RunKey {
        RunKey {
            configuration: "0f".to_owned(),
            transport: "udp:fuso".to_owned(),
            seed: 1,
            part,
            parts: 10,
        }
    }

    #[test]
    fn parts_are_read_back_and_truncated_lines_are_skipped() {
        let name = format!("spindle-testbed-store-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut output = PartOutput {
            result: spindle_experiment::metrics::RunResult::default(),
            real: crate::run::part::RealTime::default(),
        };
        output.result.fct_ns = vec![5, 7];
        output.real.fabric.lateness.record(1234);
        let set = [("loss".to_owned(), "2%".to_owned())];
        let store = Store::open(&path, false, "e", "1").unwrap();
        store.append(&set, &key(0), &output).unwrap();
        drop(store);
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(b"{\"experiment\": \"to").unwrap();
        let store = Store::open(&path, true, "e", "1").unwrap();
        store.append(&set, &key(1), &output).unwrap();
        let known = read(&path, "1").unwrap();
        assert_eq!(known.len(), 2);
        assert!(read(&path, "2").unwrap().is_empty(), "of another version");
        assert_eq!(known[&key(1)].result.fct_ns, [5, 7]);
        assert_eq!(
            known[&key(0)].real.fabric.lateness,
            output.real.fabric.lateness
        );
        let _ = Store::open(&path, false, "e", "1").unwrap();
        assert!(read(&path, "1").unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path, "1").unwrap().is_empty());
    }
}
