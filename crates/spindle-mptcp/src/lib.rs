//! A sans-IO Multipath TCP (RFC 8684) with proactive multipath loss recovery.
//!
//! [`Stack`] is a host: give it segments and the time, take segments and events. What a connection
//! is made of is one [`Config`]; the papers' schemes are [`preset`]s of it. A recovery scheme of
//! one's own implements [`recovery::Recovery`].

mod config;
mod connection;
mod host;
mod presets;
mod random;
mod ranges;
pub mod recovery;
mod secrets;
pub mod stage;
mod steps;
mod subflow;

pub use config::{
    AnnouncedAddresses, Config, EcnMode, Flight, InitialWindow, JoinPolicy, Keepalive, LossConfig,
    MultipathConfig, PathManager, TailLossProbe, TcpConfig,
};
pub use connection::ended::{EndedSubflow, SubflowEnd, SubflowEnds};
pub use connection::info::{ConnectionInfo, DataCounters, SubflowInfo};
pub use connection::scheduler;
pub use connection::trace::{Coded, TraceEvent, TraceKind};
pub use connection::{CloseReason, PathError, Role};
pub use host::{Event, Handle, ListenerId, Stack, StackConfig, StackCounters, StackError, keys};
pub use presets::{
    PRESETS, Preset, VARIANTS, Variant, for_unmodified_receivers, preset, preset_names, variant,
};
pub use subflow::congestion;
pub use subflow::sender::{SendCounters, SendKind};
pub use subflow::{SubflowId, TcpState};
