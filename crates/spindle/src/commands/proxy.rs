//! The flags by which programs name their targets: `--forward` of a gateway; `--socks5`, `--http-connect` and
//! `--proxy-users` of a connect.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;

use spindle_net::Targets;
use spindle_net::backends::{BackendAddr, Backends, MOST_BACKENDS};
use spindle_net::connect::Destination;
use spindle_net::fallback::Fallback;
use spindle_net::forward::{Forwarder, Rule, Rules};
use spindle_net::gateway::Backend;
use spindle_net::proxy::{AnswerEarly, Proxy};
use spindle_net::sources::MOST_SOURCES;
use spindle_net::users::Users;

use super::gateway::Asked;
use super::redirect;
use super::service::{bad, is_loopback, needed};
use crate::args::service::{AnswerEarlyArg, Connect, FallbackArg, Gateway};
use crate::failure::{Failure, Setting};

/// What `--to` and `--forward` accept.
const SERVICE: &str = "the service's address or name that resolves, and its port, such as 127.0.0.1:8080; or --forward RULE, for the \
                       targets that clients name";

/// What may follow an address of `--to`.
const WEIGHT: &str = "HOST:PORT, or HOST:PORT,weight=N with N from 1 to 1000";
const MOST_WEIGHT: u32 = 1000;

/// What is behind a service of a gateway.
pub(super) fn backend(args: &Asked) -> Result<Backend, Failure> {
    if args.forward.is_empty() {
        let (list, sources) = backends_and_sources(args)?;
        let sources = sources.into_iter().collect();
        return Ok(Backend::Service(Backends::new(list).with_sources(sources)));
    }
    let forwarder = forwarder(args)?;
    let sources = sources(args)?.into_iter().collect();
    Ok(Backend::Forward(forwarder.with_sources(sources)))
}

/// The back ends of a gateway's service, and the addresses of this host from which they are connected to. Each back end has
/// a source address of its family, if there are any.
pub(super) fn backends_and_sources(
    args: &Asked,
) -> Result<(Vec<BackendAddr>, Vec<IpAddr>), Failure> {
    let (list, sources) = (backends(args)?, sources(args)?);
    let served =
        |to: SocketAddr| sources.is_empty() || sources.iter().any(|a| a.is_ipv4() == to.is_ipv4());
    if let Some(BackendAddr { addr, .. }) = list.iter().find(|b| !served(b.addr)) {
        let family = if addr.is_ipv4() { "IPv4" } else { "IPv6" };
        let text = format!(": no {family} address, which the back end {addr} needs; add one");
        return Err(Failure::setting("source", text));
    }
    Ok((list, sources))
}

/// The addresses of `--source`.
pub(super) fn sources(args: &Asked) -> Result<Vec<IpAddr>, Failure> {
    let mut list: Vec<IpAddr> = Vec::new();
    for text in &args.source {
        let addr = text.parse().ok().filter(|a: &IpAddr| !a.is_unspecified());
        let addr = addr.ok_or_else(|| bad("source", text, "an address of this host"))?;
        if list.contains(&addr) {
            return Err(bad("source", text, "each address once"));
        }
        list.push(addr);
    }
    match list.len() {
        0..=MOST_SOURCES => Ok(list),
        n => {
            let text = format!(": found {n} addresses, want {MOST_SOURCES} at most");
            Err(Failure::setting("source", text))
        }
    }
}

/// The rules for the targets that clients of a service name.
fn forwarder(args: &Asked) -> Result<Forwarder, Failure> {
    if !args.to.is_empty() {
        let text = " and --to exclude each other: either clients name their targets, or all connections go to one \
                    service; leave one of them out";
        return Err(Failure::setting("forward", text));
    }
    if args.proxy_protocol {
        let text = " is for the service of --to: the targets of --forward are servers that do not expect its header; \
                    leave it out";
        return Err(Failure::setting("proxy-protocol", text));
    }
    Ok(Forwarder::new(rules(args)?))
}

/// The rules of `--forward`.
pub(super) fn rules(args: &Asked) -> Result<Rules, Failure> {
    let rule = |text: &String| {
        text.parse::<Rule>().map_err(|e| {
            Failure::Setting(Setting {
                flag: "forward".to_owned(),
                found: Some(text.clone()),
                problem: format!(" {text}: {e}"),
            })
        })
    };
    let rules = args
        .forward
        .iter()
        .map(rule)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Rules::from(rules))
}

/// The back ends of a gateway's service: for a name, each of its addresses.
fn backends(args: &Asked) -> Result<Vec<BackendAddr>, Failure> {
    let mut list: Vec<BackendAddr> = Vec::new();
    for text in &args.to {
        let (place, weight) = weighted(text)?;
        let found = place.to_socket_addrs().map(Iterator::collect);
        let found: Vec<SocketAddr> = found.unwrap_or_default();
        let usable = |a: &SocketAddr| a.port() != 0 && !a.ip().is_unspecified();
        if found.is_empty() || !found.iter().all(usable) {
            return Err(bad("to", text, SERVICE));
        }
        if found.iter().any(|a| list.iter().any(|b| b.addr == *a)) {
            return Err(bad("to", text, "each address once"));
        }
        list.extend(found.into_iter().map(|addr| BackendAddr { addr, weight }));
    }
    match list.len() {
        0 => Err(needed("to", SERVICE)),
        1..=MOST_BACKENDS => Ok(list),
        n => {
            let text = format!(": found {n} addresses, want {MOST_BACKENDS} at most");
            Err(Failure::setting("to", text))
        }
    }
}

/// The parts of `HOST:PORT` or `HOST:PORT,weight=N`.
fn weighted(text: &str) -> Result<(&str, NonZeroU32), Failure> {
    let Some((place, rest)) = text.split_once(',') else {
        return Ok((text, NonZeroU32::MIN));
    };
    let weight = rest.strip_prefix("weight=").and_then(|w| w.parse().ok());
    let weight = weight.filter(|w: &NonZeroU32| w.get() <= MOST_WEIGHT);
    let weight = weight.ok_or_else(|| bad("to", text, WEIGHT))?;
    Ok((place, weight))
}

/// Refuses to forward for clients without a certificate beyond loopback, unless the user allows it: anyone could
/// connect in the name of the gateway's host to all that the rules allow.
pub(super) fn closed(outside: &[SocketAddr], to: &Backend, args: &Gateway) -> Result<(), Failure> {
    let open = outside.iter().find(|a| !is_loopback(a.ip()));
    match open {
        Some(open)
            if matches!(to, Backend::Forward(_))
                && args.service.tls_ca.is_none()
                && args.keys.is_none()
                && !args.insecure =>
        {
            Err(Failure::Setting(Setting {
                flag: "listen".to_owned(),
                found: Some(open.to_string()),
                problem: format!(
                    " {open}: a gateway with --forward serves any client there; give --keys or --tls-ca, so that clients need a \
                     certificate, or --insecure if only trusted clients reach it"
                ),
            }))
        }
        _ => Ok(()),
    }
}

/// Where the connections of a connect service go. `via` has the targets of `--via`.
pub(super) fn destination(args: &Connect, via: Option<Targets>) -> Result<Destination, Failure> {
    let usage = |flag, text: &str| Err(Failure::setting(flag, text));
    let (socks5, http_connect) = (args.socks5, args.http_connect);
    let redirected = redirect::is_transparent(args)?;
    if !socks5 && !http_connect && !redirected {
        fallback(args, via.as_ref(), false)?;
        if args.proxy_users.is_some() {
            let text = " belongs to --socks5 and --http-connect, by which programs can send a user and a password";
            return usage("proxy-users", text);
        }
        return match via {
            Some(via) => Ok(Destination::Via(via)),
            None => usage(
                "",
                "want --bundle FILE, --via ADDR:PORT, or --socks5, --http-connect or --transparent for programs that say where to",
            ),
        };
    }
    if args.service.udp && via.is_none() {
        let flag = match (socks5, http_connect) {
            (true, _) => "socks5",
            (_, true) => "http-connect",
            _ => "transparent",
        };
        let text = " needs --via over --udp: the gateway with --forward that connects to the targets of the programs; \
                    without a gateway they are reached over --tun only";
        return usage(flag, text);
    }
    let fallback = fallback(args, via.as_ref(), true)?;
    let users = match &args.proxy_users {
        None => None,
        Some(path) => {
            let users = Users::load(path);
            Some(users.map_err(|e| Failure::setting("proxy-users", format!(": {e}")))?)
        }
    };
    Ok(Destination::Programs(Proxy {
        via,
        fallback,
        answer_early: answer_early(args.answer_early),
        socks5,
        http_connect,
        redirected,
        names: None,
        users,
    }))
}

/// What `--answer-early` asks for.
pub(super) fn answer_early(which: AnswerEarlyArg) -> AnswerEarly {
    match which {
        AnswerEarlyArg::None => AnswerEarly::None,
        AnswerEarlyArg::Known => AnswerEarly::Known,
        AnswerEarlyArg::All => AnswerEarly::All,
    }
}

/// What `--fallback` asks for. `targets`: whether programs' targets are known.
pub(super) fn fallback(
    args: &Connect,
    via: Option<&Targets>,
    targets: bool,
) -> Result<Option<Fallback>, Failure> {
    let text = match (args.fallback, targets, via) {
        (FallbackArg::None, ..) => return Ok(None),
        (FallbackArg::Direct, true, Some(_)) => return Ok(Some(Fallback::default())),
        (_, false, _) => {
            " direct: the targets of the programs are not known, only the gateway's address; give --socks5, --http-connect, \
             --transparent or --redirect, or leave it out"
        }
        (_, true, None) => {
            " direct: there is no gateway that could be unreachable, since programs' targets are reached over --tun without \
             --via; leave it out"
        }
    };
    Err(Failure::setting("fallback", text))
}

/// The fallback of a destination, for the status.
pub(super) fn fallback_of(destination: &Destination) -> Option<Fallback> {
    match destination {
        Destination::Programs(proxy) => proxy.fallback.clone(),
        Destination::Via(_) => None,
    }
}

/// The destination in words, for the log and the status.
pub(super) fn described(destination: &Destination) -> String {
    match destination {
        Destination::Via(via) => via.to_string(),
        Destination::Programs(Proxy { via: Some(via), .. }) => {
            format!("where the program says, via {via}")
        }
        Destination::Programs(Proxy { via: None, .. }) => "where the program says".to_owned(),
    }
}

/// The users that programs must be.
pub(super) fn users(destination: &Destination) -> Option<Users> {
    match destination {
        Destination::Programs(proxy) => proxy.users.clone(),
        Destination::Via(_) => None,
    }
}
