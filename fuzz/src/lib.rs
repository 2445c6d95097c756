//! What the fuzz targets share.

pub mod live;
pub mod parities;
pub mod seeded;
mod steps;
pub mod units;
