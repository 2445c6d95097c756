//! Peers that lie about data, mappings, windows and signals: their connection is refused, reset or bounded,
//! memory stays within its limits, and other connections on the same stack continue.

#[path = "../peer/mod.rs"]
mod peer;

mod contradictions;
mod data_fin;
mod floods;
mod forged;
mod malformed;
mod mappings;
mod mp_fail;
mod receivers;
mod signals;
mod support;
mod windows;
