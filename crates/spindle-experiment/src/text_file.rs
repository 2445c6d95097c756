//! Text files that an experiment file names with the key `path`, such as traces.

use std::path::Path;

use crate::document::{ExperimentError, Section, Value};

/// A text file.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// The name for error messages.
    pub(crate) name: String,
    /// The contents.
    pub(crate) text: String,
}

impl TextFile {
    /// The file of the key `path`: a path that starts from `directory`, or `{ name, text }` with the contents, as in
    /// rewritten experiment files. It has at most `most` bytes.
    ///
    /// # Errors
    /// If the key is missing, or if the file cannot be read or is too large.
    pub(crate) fn read(
        s: &Section<'_>,
        directory: &Path,
        most: u64,
    ) -> Result<Self, ExperimentError> {
        if let Some(node) = s.node("path")
            && matches!(node.value, Value::Table(_))
        {
            let contents = Section::new(s.path("path"), node)?;
            let file = Self {
                name: contents.need("name")?,
                text: contents.need("text")?,
            };
            contents.finish()?;
            return Ok(file);
        }
        let path = directory.join(s.need::<String>("path")?);
        let name = path.display().to_string();
        let wrong = |problem: String| s.error("path", format!("{name}: {problem}"));
        let cannot = |e: std::io::Error| wrong(format!("cannot be read: {e}"));
        let bytes = std::fs::metadata(&path).map_err(cannot)?.len();
        if bytes > most {
            return Err(wrong(format!("has {bytes} bytes, want at most {most}")));
        }
        let text = std::fs::read_to_string(&path).map_err(cannot)?;
        Ok(Self { name, text })
    }
}
