//! A parsed TOML document: values that know where they were written, and typed reading of their keys.
//!
//! [`Section`] reads a table key by key. Extensions use it to read their own keys from experiment files. Every
//! error is one line that names the file, the line, the key, what was found and what is accepted.
//!
//! ```
//! use spindle_experiment::document::{Node, Section, Size};
//!
//! let file = Node::parse("mine.toml", "planes = 4\nbuffer = \"64KB\"\n")?;
//! let section = Section::new("", &file)?;
//! let planes: u32 = section.or("planes", 2)?;
//! let buffer: Size = section.need("buffer")?;
//! section.finish()?;
//! assert_eq!((planes, buffer.0), (4, 64_000));
//! # Ok::<(), spindle_experiment::ExperimentError>(())
//! ```

mod error;
mod node;
mod section;

pub use error::{ExperimentError, Origin, UnknownName, suggestion};
pub use node::{Node, Value};
pub use section::{FromNode, Load, Section, Share, Size};
