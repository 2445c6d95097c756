//! The pictures as SVG that follows the page's light or dark theme.

mod bars;
mod ccdf;
mod flow;
mod frame;
mod lines;
mod scale;
mod svg;

pub(crate) use bars::{BarPanel, BarRow, bar_panels};
pub(crate) use ccdf::{Distribution, ccdf};
pub(crate) use flow::{FlowView, flow_picture};
pub(crate) use lines::line_plot;
pub(crate) use svg::{Picture, STYLE};

/// The width for which a picture is drawn. Each picture is drawn for both, since text in a picture that is
/// scaled down to a phone would be unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A desktop window: 920 units wide.
    Wide,
    /// A phone: 380 units wide.
    Narrow,
}

impl Layout {
    /// Both layouts.
    pub(crate) const ALL: [Self; 2] = [Self::Wide, Self::Narrow];

    /// The width of the picture in user units.
    pub(crate) const fn width(self) -> f64 {
        match self {
            Self::Wide => 920.0,
            Self::Narrow => 380.0,
        }
    }

    /// Whether the picture is for a phone.
    pub(crate) const fn is_narrow(self) -> bool {
        matches!(self, Self::Narrow)
    }

    /// `wide` or `narrow`, whichever this is.
    pub(crate) const fn pick(self, wide: f64, narrow: f64) -> f64 {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }
}
