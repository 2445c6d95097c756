//! Experiments as data: topology, traffic, transports, sweeps, metrics, claims and reports.

pub mod pcap;
pub mod report;
