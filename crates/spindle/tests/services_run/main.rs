//! `gateway` and `connect` as programs: over UDP on loopback, without privileges, and over TUN in network
//! namespaces, which requires root.

mod certificates;
mod exec;
mod fallback;
mod forward;
mod keys;
mod load;
mod managed;
mod memory;
mod outages;
mod program;
mod ready;
mod redirect;
mod restarts;
mod roaming;
#[path = "../wire/service.rs"]
mod service;
mod services;
mod several;
mod tun;
#[expect(dead_code, reason = "shared with the wire's tests")]
#[path = "../wire/two_hosts.rs"]
mod two_hosts;
mod udp;
mod uplinks;
