//! Files to which several threads append lines of JSON. Such a file can be continued after a process was killed
//! while it wrote.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// A store of results that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot {action} results: {source}")]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// "read" or "write".
    pub action: &'static str,
    /// What the system reported.
    pub source: io::Error,
}

fn failed(path: &Path, action: &'static str) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError {
        path: path.clone(),
        action,
        source,
    }
}

/// A file of lines that is open for writing.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: Mutex<File>,
}

impl Lines {
    /// Opens a file to continue it (`resume`), or empties it. The file and the directories above it are created
    /// if necessary. A last line that was cut short is terminated, so that the next line is complete.
    ///
    /// # Errors
    /// The error that the system reports.
    pub fn open(path: &Path, resume: bool) -> Result<Self, StoreError> {
        if let Some(dir) = path.parent() {
            // If this fails, opening the file reports the reason.
            let _ = std::fs::create_dir_all(dir);
        }
        let open = || {
            let mut file = OpenOptions::new()
                .create(true)
                .read(true)
                .append(resume)
                .write(true)
                .truncate(!resume)
                .open(path)?;
            if resume && !ends_whole(&mut file)? {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(open().map_err(failed(path, "write"))?),
        })
    }

    /// Appends a line and flushes it to the system.
    ///
    /// # Errors
    /// The error that the system reports.
    pub fn append(&self, line: &impl Serialize) -> Result<(), StoreError> {
        let write = || {
            let mut text = serde_json::to_string(line)?;
            text.push('\n');
            // A poisoned lock means that another run panicked. Its panic ends the sweep.
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes())?;
            file.flush()
        };
        write().map_err(failed(&self.path, "write"))
    }

    /// Returns the lines of a file with their numbers, from 1. A missing file has no lines.
    ///
    /// # Errors
    /// The error that the system reports, immediately or for each line.
    pub fn read(
        path: &Path,
    ) -> Result<impl Iterator<Item = Result<(usize, String), StoreError>>, StoreError> {
        let file = match File::open(path) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(failed(path, "read")(e)),
        };
        let wrong = failed(path, "read");
        let lines = file.into_iter().flat_map(|f| BufReader::new(f).lines());
        Ok(lines
            .enumerate()
            .map(move |(index, line)| Ok((index + 1, line.map_err(&wrong)?))))
    }
}

/// Seeks to the end of a file. Returns whether it is empty or its last line is terminated.
fn ends_whole(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &Path) -> Vec<(usize, String)> {
        Lines::read(path).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_file_is_continued_after_a_truncated_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.jsonl");
        assert_eq!(all(&path), []);
        Lines::open(&path, true).unwrap().append(&1).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1\n");
        std::fs::write(&path, "1\n{\"to").unwrap();
        let lines = Lines::open(&path, true).unwrap();
        lines.append(&"x").unwrap();
        lines.append(&[2]).unwrap();
        let found = ["1", "{\"to", "\"x\"", "[2]"].map(str::to_owned);
        assert_eq!(all(&path), (1..).zip(found).collect::<Vec<_>>());
        drop(Lines::open(&path, false).unwrap());
        assert_eq!(all(&path), []);
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        let text = Lines::open(dir.path(), true).unwrap_err().to_string();
        let start = format!("{}: cannot write results: ", dir.path().display());
        assert!(text.starts_with(&start), "{text}");
    }
}
