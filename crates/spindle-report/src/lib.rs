//! Reports: pages of results with their pictures.
//!
//! [`present`] turns the results of an experiment into plain data. The types at the root take this data and write a
//! directory with one page and its pictures.
//!
//! [`CompareReport`] is the page of `compare` and `run`: distribution, tail, timeouts, table, and recovered
//! flows drawn per subflow. [`FigureReport`] has the pages of `reproduce` for a paper: a list of its figures, and a page
//! per figure with its claims next to it, the numbers that the paper prints, and links from each point to its runs. A
//! page opens from disk without a network. It follows the light or dark theme of its reader and is drawn for a desktop
//! and for a phone. Every picture is also written next to the page as a separate SVG file.
//!
//! [`Register`] holds the verdicts of several reproductions side by side. It is a page of Markdown, or a site whose
//! first page sorts and filters the claims.
//!
//! Runs of different versions or configurations are never shown side by side: [`ReportError`].

mod arena;
mod claims;
mod compare;
mod distinct;
mod error;
mod figure;
mod flow;
pub mod format;
mod model;
mod page;
pub mod palette;
mod plot;
pub mod present;
mod register;
mod runs;
mod story;
#[cfg(test)]
mod tests;

pub use arena::{Arena, ArenaNetwork, ArenaRow};
pub use error::{ReportError, check_identities};
pub use flow::write_flow;
pub use model::{
    AxisSpec, Beaten, ComparePoint, CompareReport, Estimate, Figure, FigureReport, LinePlot,
    LineSeries, OracleDistance, PaperNumber, RunGroup, RunList, RunRow, SeriesPoint,
    TransportResult,
};
pub use register::{ArenaPage, Register, RegisterError};
