//! Finished parts on disk, a line of JSON each, as the lab's store has them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use spindle_lab::identity::VERSION;

use crate::error::TestbedError;
use crate::part::PartOutput;

/// What makes a part the same as another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    /// A hash of the scenario and the transports' configurations.
    pub(crate) configuration: String,
    pub(crate) transport: String,
    pub(crate) seed: u64,
    pub(crate) part: u64,
    pub(crate) parts: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    experiment: String,
    version: String,
    set: Vec<(String, String)>,
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    output: PartOutput,
}

/// A store that is written to.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    file: Mutex<File>,
    experiment: String,
}

fn wrong(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> TestbedError {
    let path = path.to_owned();
    move |source| TestbedError::Store {
        path,
        action,
        source,
    }
}

impl Store {
    /// Opens a store to be continued, or begins it anew.
    pub(crate) fn open(path: &Path, resume: bool, experiment: &str) -> Result<Self, TestbedError> {
        if let Some(dir) = path.parent() {
            // If this fails, opening the file says why.
            let _ = std::fs::create_dir_all(dir);
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(resume)
            .write(true)
            .truncate(!resume)
            .open(path)
            .map_err(wrong(path, "write"))?;
        // A line that was cut short is ended.
        let whole = std::fs::read(path).is_ok_and(|b| b.last().is_none_or(|b| *b == b'\n'));
        if !whole {
            file.write_all(b"\n").map_err(wrong(path, "write"))?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            experiment: experiment.to_owned(),
        })
    }

    /// Appends a part.
    pub(crate) fn append(
        &self,
        set: &[(String, String)],
        key: &Key,
        output: &PartOutput,
    ) -> Result<(), TestbedError> {
        let line = Line {
            experiment: self.experiment.clone(),
            version: VERSION.to_owned(),
            set: set.to_vec(),
            key: key.clone(),
            output: output.clone(),
        };
        let write = || {
            let mut text = serde_json::to_string(&line)?;
            text.push('\n');
            // A poisoned lock means another part panicked; its panic ends the run by itself.
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes())?;
            file.flush()
        };
        write().map_err(wrong(&self.path, "write"))
    }
}

/// Reads the parts of this version; lines that were cut short or are of another version are passed
/// over.
pub(crate) fn read(path: &Path) -> Result<HashMap<Key, PartOutput>, TestbedError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(e) => return Err(wrong(path, "read")(e)),
    };
    let mut known = HashMap::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(wrong(path, "read"))?;
        if let Ok(l) = serde_json::from_str::<Line>(&line)
            && l.version == VERSION
        {
            known.insert(l.key, l.output);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(part: u64) -> Key {
        Key {
            configuration: "0f".to_owned(),
            transport: "udp:fuso".to_owned(),
            seed: 1,
            part,
            parts: 10,
        }
    }

    #[test]
    fn parts_come_back_and_torn_lines_do_not() {
        let name = format!("spindle-testbed-store-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut output = PartOutput {
            result: spindle_lab::metrics::RunResult::default(),
            real: crate::part::RealTime::default(),
        };
        output.result.fct_ns = vec![5, 7];
        output.real.fabric.lateness.record(1234);
        let set = [("loss".to_owned(), "2%".to_owned())];
        let store = Store::open(&path, false, "e").unwrap();
        store.append(&set, &key(0), &output).unwrap();
        drop(store);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"experiment\": \"to").unwrap();
        let store = Store::open(&path, true, "e").unwrap();
        store.append(&set, &key(1), &output).unwrap();
        let known = read(&path).unwrap();
        assert_eq!(known.len(), 2);
        assert_eq!(known[&key(1)].result.fct_ns, [5, 7]);
        assert_eq!(
            known[&key(0)].real.fabric.lateness,
            output.real.fabric.lateness
        );
        let _ = Store::open(&path, false, "e").unwrap();
        assert!(read(&path).unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap().is_empty());
    }
}
