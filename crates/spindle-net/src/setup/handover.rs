//! The set-up of a device is handed over to another process, which undoes it in place of this one.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use socket2::Socket;

use super::{Dnat, Entry, Forwarding, SetupError, SetupGuard, SetupOptions};
use crate::error::NetError;
use crate::tun::TunLink;

/// Whether a process undoes the set-up at its end: only if no other process can need it then. All clones share one state.
#[derive(Clone, Debug)]
pub struct Ownership(Arc<[AtomicBool; 2]>);

impl Ownership {
    /// The state of a process that has made the set-up itself, or has got it from a predecessor.
    pub(super) fn new(has_predecessor: bool) -> Self {
        Self(Arc::new([has_predecessor.into(), false.into()]))
    }

    /// Whether this process undoes the set-up.
    pub fn owns(&self) -> bool {
        !self.0.iter().any(|other| other.load(Ordering::Relaxed))
    }

    /// Whether the process that was taken over goes on in place of this one if this one fails.
    pub fn set_predecessor(&self, goes_on: bool) {
        self.0[0].store(goes_on, Ordering::Relaxed);
    }

    /// Whether another process has taken over.
    pub fn set_successor(&self, exists: bool) {
        self.0[1].store(exists, Ordering::Relaxed);
    }
}

/// What another process must know about a set-up. It has no commands and no paths: what the other process undoes
/// follows from its own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupState {
    device: String,
    mtu: u16,
    addresses: Vec<IpAddr>,
    /// The fields of [`Dnat`].
    dnat: Vec<(SocketAddr, SocketAddr)>,
    /// What was switched on, and is switched off when the set-up is undone.
    forwarding: Forwarding,
}

impl SetupState {
    pub(super) fn of(options: &SetupOptions) -> Self {
        let mut state = Self {
            device: options.tun.name.clone(),
            mtu: options.tun.mtu,
            addresses: options.addresses.clone(),
            dnat: options
                .dnat
                .iter()
                .map(|Dnat { from, to }| (*from, *to))
                .collect(),
            forwarding: Forwarding::default(),
        };
        state.addresses.sort_unstable();
        state.dnat.sort_unstable();
        state
    }

    /// What differs in the set-up that these options describe.
    fn difference(&self, options: &SetupOptions) -> Option<&'static str> {
        let wanted = Self::of(options);
        if wanted.device != self.device {
            Some("--tun")
        } else if wanted.mtu != self.mtu {
            Some("--mtu")
        } else if wanted.addresses != self.addresses {
            Some("--listen or --announce")
        } else if wanted.dnat != self.dnat {
            Some("--listen, --announce or --dnat")
        } else {
            None
        }
    }
}

/// A set-up that may be handed over: its state, and the sockets that reserve addresses.
#[derive(Debug)]
pub struct Share {
    /// The state.
    pub state: SetupState,
    /// Duplicates of the sockets that keep other programs from the rewritten addresses.
    pub reserved: Vec<OwnedFd>,
    /// Whether this process undoes the set-up.
    pub ownership: Ownership,
}

impl SetupGuard {
    /// What another process needs to take the set-up over.
    ///
    /// # Errors
    /// The system's error.
    pub fn share(&self) -> std::io::Result<Share> {
        let copy = |s: &Socket| s.try_clone().map(OwnedFd::from);
        Ok(Share {
            state: SetupState {
                forwarding: self.forwarding,
                ..self.state.clone()
            },
            reserved: self.reserved.iter().map(copy).collect::<Result<_, _>>()?,
            ownership: self.ownership.clone(),
        })
    }
}

/// Takes over the device and the set-up of another process. The guard undoes nothing as long as its [`Ownership`] has a
/// predecessor.
///
/// # Errors
/// [`SetupError::Net`] with [`NetError::Handover`] if the options are not those of the other process.
pub fn adopt(
    options: &SetupOptions,
    state: SetupState,
    device: OwnedFd,
    reserved: Vec<OwnedFd>,
) -> Result<(TunLink, SetupGuard), SetupError> {
    if let Some(flag) = state.difference(options) {
        let text = format!("{flag} is not as it was there; want the same, or stop it first");
        return Err(NetError::Handover(text).into());
    }
    if !options.source_routes.is_empty() {
        let text = "routes by source address cannot be taken over";
        return Err(NetError::Handover(text.to_owned()).into());
    }
    let guard = guard(options, state, reserved);
    Ok((TunLink::from_descriptor(&options.tun, device), guard))
}

/// A guard that undoes what [`setup`](super::setup) does with these options.
fn guard(options: &SetupOptions, state: SetupState, reserved: Vec<OwnedFd>) -> SetupGuard {
    let name = &options.tun.name;
    let routes = options.addresses.iter().map(|addr| Entry::Host {
        to: *addr,
        device: name.clone(),
    });
    SetupGuard {
        undo: routes.collect(),
        table: (!options.dnat.is_empty()).then(|| name.clone()),
        reserved: reserved.into_iter().map(Socket::from).collect(),
        forwarding: state.forwarding,
        ownership: Ownership::new(true),
        state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tun::TunOptions;

    #[test]
    fn what_is_undone_follows_from_the_own_options_whatever_the_other_process_says() {
        let options = SetupOptions {
            tun: TunOptions::new("spin0"),
            addresses: vec!["10.7.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            dnat: vec![Dnat {
                from: "192.0.2.1:80".parse().unwrap(),
                to: "10.7.0.1:80".parse().unwrap(),
            }],
            source_routes: Vec::new(),
            forwarding: true,
        };
        let mut said = serde_json::to_value(SetupState::of(&options)).unwrap();
        said["undo"] = serde_json::json!(["link del dev eth0"]);
        said["table"] = "other".into();
        said["switches"] = serde_json::json!([["/etc/passwd", "0"]]);
        said["forwarding"] = serde_json::json!({"v4": true, "v6": false});
        let state: SetupState = serde_json::from_value(said).unwrap();
        assert_eq!(state.difference(&options), None);
        let guard = guard(&options, state, Vec::new());
        let routes: Vec<String> = guard.undo.iter().map(Entry::to_string).collect();
        assert_eq!(
            routes,
            ["route 10.7.0.1/32 dev spin0", "route fd00::1/128 dev spin0"]
        );
        assert_eq!(guard.table.as_deref(), Some("spin0"));
        let paths: Vec<_> = guard.forwarding.paths().collect();
        assert_eq!(paths, ["/proc/sys/net/ipv4/ip_forward"]);
        assert!(!guard.ownership.owns());
    }

    #[test]
    fn a_process_between_two_others_undoes_nothing_until_both_have_ended() {
        let ownership = Ownership::new(true);
        assert!(!ownership.owns());
        ownership.set_successor(true);
        ownership.set_predecessor(false);
        assert!(!ownership.owns(), "the successor needs it");
        ownership.set_successor(false);
        assert!(ownership.owns());
    }

    #[test]
    fn only_a_set_up_with_the_same_addresses_is_taken_over() {
        let mut options = SetupOptions {
            tun: TunOptions::new("spin0"),
            addresses: vec!["10.7.0.1".parse().unwrap(), "10.7.0.2".parse().unwrap()],
            dnat: Vec::new(),
            source_routes: Vec::new(),
            forwarding: true,
        };
        let state = SetupState::of(&options);
        options.addresses.reverse();
        assert_eq!(state.difference(&options), None);
        options.tun.mtu = 1400;
        assert_eq!(state.difference(&options), Some("--mtu"));
        options.tun.mtu = 1500;
        options.addresses.pop();
        assert_eq!(state.difference(&options), Some("--listen or --announce"));
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<SetupState>(&text).unwrap(), state);
    }
}
