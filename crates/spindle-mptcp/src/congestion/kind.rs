//! The choice of a controller: the configuration value, its name, and the constructor.

use std::fmt;
use std::str::FromStr;

use super::Congestion;
use super::balia::Balia;
use super::coupled::Coupled;
use super::cubic::Cubic;
use super::dctcp::Dctcp;
use super::fully_coupled::FullyCoupled;
use super::lia::Lia;
use super::olia::Olia;
use super::reno::Reno;

/// The congestion control of a connection's subflows, as configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CongestionKind {
    /// RFC 5681, each subflow independently: "reno".
    #[default]
    Reno,
    /// RFC 9438, each subflow independently: "cubic".
    Cubic,
    /// RFC 8257, each subflow independently: "dctcp". Needs ECN.
    Dctcp,
    /// Linked increases, RFC 6356: "lia".
    Lia,
    /// Opportunistic linked increases, draft-khalili-mptcp-congestion-control-05: "olia".
    Olia,
    /// Balanced linked adaptation, draft-walid-mptcp-congestion-control-04: "balia".
    Balia,
    /// Fully coupled control, in which the sum of the windows behaves like one window: "fully-coupled".
    FullyCoupled,
}

impl CongestionKind {
    /// Every kind.
    pub const ALL: &[Self] = &[
        Self::Reno,
        Self::Cubic,
        Self::Dctcp,
        Self::Lia,
        Self::Olia,
        Self::Balia,
        Self::FullyCoupled,
    ];

    /// Its name in experiment files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Dctcp => "dctcp",
            Self::Lia => "lia",
            Self::Olia => "olia",
            Self::Balia => "balia",
            Self::FullyCoupled => "fully-coupled",
        }
    }
}

impl fmt::Display for CongestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No congestion control has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control {name:?}; known are {}", known())]
pub struct UnknownCongestion {
    /// The requested name.
    pub name: String,
}

fn known() -> String {
    let names: Vec<_> = CongestionKind::ALL.iter().map(|k| k.name()).collect();
    names.join(", ")
}

impl FromStr for CongestionKind {
    type Err = UnknownCongestion;

    /// Returns the kind with this name.
    ///
    /// # Errors
    /// [`UnknownCongestion`] if no kind has this name. The error lists the known names.
    fn from_str(name: &str) -> Result<Self, UnknownCongestion> {
        Self::ALL
            .iter()
            .copied()
            .find(|k| k.name() == name)
            .ok_or_else(|| UnknownCongestion {
                name: name.to_owned(),
            })
    }
}

/// The initial parameters of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Segment size in bytes (SMSS). Zero counts as one.
    pub mss: u64,
    /// Initial window in bytes.
    pub initial_window: u64,
    /// The subflow's row in [`super::Coupling`].
    pub subflow: usize,
    /// cwnd never exceeds this many bytes. `u64::MAX` means no cap. One segment is always allowed.
    pub max_window: u64,
    /// Initial ssthresh in bytes. `u64::MAX` means unlimited (RFC 5681, section 3.1: arbitrarily high). A value
    /// below two segments is raised to two segments.
    pub initial_ssthresh: u64,
    /// Whether CUBIC's initial slow start uses HyStart++ (RFC 9406). All other controllers ignore it.
    pub hystart: bool,
    /// Whether slow start counts every acknowledged byte. RFC 5681, equation 2, allows one segment per
    /// acknowledgement. If segments are coalesced, one acknowledgement stands for many segments (RFC 9406,
    /// section 4.2, leaves L unbounded for paced senders; Linux does so for all senders).
    pub stretch_acks: bool,
}

/// Creates a controller of this kind.
pub fn build(kind: CongestionKind, p: Parameters) -> Box<dyn Congestion> {
    match kind {
        CongestionKind::Reno => Box::new(Reno::new(&p)),
        CongestionKind::Cubic => Box::new(Cubic::new(&p)),
        CongestionKind::Dctcp => Box::new(Dctcp::new(&p)),
        CongestionKind::Lia => Box::new(Coupled::<Lia>::new(&p)),
        CongestionKind::Olia => Box::new(Coupled::<Olia>::new(&p)),
        CongestionKind::Balia => Box::new(Coupled::<Balia>::new(&p)),
        CongestionKind::FullyCoupled => Box::new(Coupled::<FullyCoupled>::new(&p)),
    }
}
