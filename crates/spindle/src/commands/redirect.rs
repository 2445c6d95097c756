//! The flags by which the kernel redirects programs' connections to a connect: `--transparent`, `--redirect` and
//! `--redirect-except`.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use spindle_net::connect::Connect;
use spindle_net::setup::{IpNet, RedirectError, RedirectOptions, remove_redirection};
use spindle_net::{Target, Targets};

use super::service::bad;
use crate::args::service::Connect as Args;
use crate::failure::{Failure, Setting};

impl From<RedirectError> for Failure {
    fn from(e: RedirectError) -> Self {
        match e {
            RedirectError::Setup(e) => e.into(),
            e => Self::setting("redirect", format!(": {e}")),
        }
    }
}

/// Whether the kernel redirects the programs' connections.
pub(super) fn is_transparent(args: &Args) -> Result<bool, Failure> {
    if !args.transparent && args.redirect.is_empty() {
        return match args.redirect_except.first() {
            None => Ok(false),
            Some(_) => {
                let text = " belongs to --redirect, whose connections it leaves out";
                Err(Failure::setting("redirect-except", text))
            }
        };
    }
    let flag = match args.redirect.first() {
        Some(_) => "redirect",
        None => "transparent",
    };
    let other = [
        (args.socks5, "socks5"),
        (args.http_connect, "http-connect"),
        (args.proxy_users.is_some(), "proxy-users"),
    ];
    if let Some((_, other)) = other.into_iter().find(|(given, _)| *given) {
        let text = format!(
            " and --{other} exclude each other: programs whose connections the kernel redirects do not speak to a proxy; run a \
             second connect for the others"
        );
        return Err(Failure::setting(flag, text));
    }
    Ok(true)
}

/// What is redirected by rules of ours. The gateway is not known yet.
pub(super) fn options(args: &Args) -> Result<Option<RedirectOptions>, Failure> {
    if args.redirect.is_empty() {
        return Ok(None);
    }
    if let Some(text) = args.listen.iter().find(|l| has_port_0(l)) {
        let want = "a port other than 0 with --redirect: the rules that a killed connect left are found by it";
        return Err(bad("listen", text, want));
    }
    let redirected = args.redirect.iter().map(|text| {
        text.parse().map_err(|e: RedirectError| {
            Failure::Setting(Setting {
                flag: "redirect".to_owned(),
                found: Some(text.clone()),
                problem: format!(": {e}"),
            })
        })
    });
    let except = args.redirect_except.iter().map(|text| {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        let network = address.or_else(|_| text.parse::<IpNet>());
        let want = "an address or a network, such as 192.168.0.0/16";
        network.map_err(|_| bad("redirect-except", text, want))
    });
    Ok(Some(RedirectOptions {
        redirected: redirected.collect::<Result<_, _>>()?,
        except: except.collect::<Result<_, _>>()?,
    }))
}

/// Whether the system chooses the port.
fn has_port_0(listen: &str) -> bool {
    listen
        .parse::<SocketAddr>()
        .is_ok_and(|addr| addr.port() == 0)
}

/// `--remove-redirect`: removes the rules that a killed connect with these addresses has left.
pub(super) fn remove(listen: &[SocketAddr]) -> Result<ExitCode, Failure> {
    if let Some(first) = listen.first()
        && let Some(table) = remove_redirection(*first)?
    {
        eprintln!("removed the table inet {table}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs the rules, with the gateway's present addresses among the exceptions, and logs what they do.
pub(super) fn install(
    connect: &mut Connect,
    mut options: RedirectOptions,
    via: Option<&Targets>,
) -> Result<(), Failure> {
    let gateways = via.into_iter().flat_map(Targets::iter);
    options
        .except
        .extend(gateways.flat_map(addresses).map(IpNet::from));
    let whose: Vec<String> = options.redirected.iter().map(ToString::to_string).collect();
    let redirection = connect.redirect(&options)?;
    let table = redirection.table();
    tracing::info!(
        table = %format_args!("inet {table}"),
        "TCP connections are redirected: {}. UDP is not: QUIC, and names looked up by UDP, take the system's routes",
        whose.join(" ")
    );
    let missing = match redirection.families() {
        (true, true) => return Ok(()),
        (true, false) => "IPv6",
        (false, _) => "IPv4",
    };
    tracing::warn!(
        "{missing} connections are not redirected, since no --listen is an {missing} address"
    );
    Ok(())
}

/// The present addresses of a gateway. Those of a name may change later.
fn addresses(target: &Target) -> Vec<IpAddr> {
    match target.to_string().to_socket_addrs() {
        Ok(list) => list.map(|a| a.ip()).collect(),
        Err(error) => {
            tracing::warn!(
                via = %target, %error,
                "--via does not resolve at present: programs' own connections to it are redirected, too; restart connect when it does"
            );
            Vec::new()
        }
    }
}
