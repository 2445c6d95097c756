//! `spindle status`: the status of running gateways and connect services.

mod rates;

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use spindle_net::status::{self, Connection, ServiceStatus, Status, Subflow, Uplink};

use self::rates::{Rate, Rates};
use super::print;
use crate::failure::Failure;

/// The shortest and the longest time between two looks.
const LEAST_WATCH: Duration = Duration::from_millis(100);
const MOST_WATCH: Duration = Duration::from_secs(86_400);
/// Puts the cursor in the upper left corner and clears the screen (ECMA-48, CUP and ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `spindle status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Control socket of a gateway or connect; all that are found without
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// As JSON, a line for each program
    #[arg(long)]
    json: bool,
    /// Repeat every so many seconds, with the rates since the time before, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = parse_seconds)]
    watch: Option<Duration>,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.filter(|t| (LEAST_WATCH..=MOST_WATCH).contains(t))
        .ok_or_else(|| format!("found \"{text}\", want seconds from 0.1 to 86400"))
}

pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Other(format!("cannot start: {e}")))?;
    let mut rates = Rates::default();
    let Some(every) = args.watch else {
        return runtime.block_on(once(args, &mut rates));
    };
    let clear = !args.json && std::io::stdout().is_terminal();
    loop {
        let begin = Instant::now();
        if clear {
            print(CLEAR);
        }
        // A program may end and another one begin in the meantime.
        if let Err(failure) = runtime.block_on(once(args, &mut rates)) {
            failure.report();
        }
        if !args.json && !clear {
            print("\n");
        }
        std::thread::sleep(every.saturating_sub(begin.elapsed()));
    }
}

/// Asks all programs once, and prints what they answer.
async fn once(args: &StatusArgs, rates: &mut Rates) -> Result<ExitCode, Failure> {
    let paths = match &args.control {
        Some(path) => vec![path.clone()],
        None => status::sockets().map_err(|e| Failure::Other(e.to_string()))?,
    };
    if paths.is_empty() {
        return Err(Failure::Other(format!(
            "no gateway or connect of this user is running: no control socket in {}; ask as the user \
             that runs it (root with --tun: sudo spindle status), or name its socket with --control",
            status::directory().display()
        )));
    }
    let (mut code, mut answers) = (ExitCode::SUCCESS, 0);
    for path in &paths {
        match status::ask(path).await {
            Ok(status) => {
                answers += 1;
                print(&if args.json {
                    line(&status)?
                } else {
                    table(&status, rates)
                });
                rates.remember(&status, Instant::now());
            }
            Err(e) => {
                eprintln!("error: {e}{}", hint(e.kind()));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(if answers == 0 {
        ExitCode::FAILURE
    } else {
        code
    })
}

/// Advice about a socket that gave no answer.
fn hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConnectionRefused => {
            "; its program was killed: start it again, or remove the socket"
        }
        ErrorKind::PermissionDenied => "; ask as the user that runs it (root with --tun)",
        _ => "",
    }
}

fn line(status: &Status) -> Result<String, Failure> {
    let text = serde_json::to_string(status).map_err(|e| Failure::Other(e.to_string()))?;
    Ok(text + "\n")
}

/// The stage of a service, unless it runs.
fn stage(s: &Status) -> &'static str {
    match s.stage.as_deref() {
        Some("handed-over") => ", handed over, ends with its last connection",
        Some("draining") => ", draining",
        _ => "",
    }
}

fn table(s: &Status, rates: &Rates) -> String {
    let t = &s.totals;
    let mut text = format!(
        "{} {} (process {}{}), {:.0} s: {} to {}\n{} connections open; since the start {}, {} with MPTCP, {} fallen back\n\
         sent {} B, received {} B; {} retransmissions, {} timeouts, {} recoveries of which {} useful\n",
        s.kind,
        s.transport,
        s.pid,
        stage(s),
        s.uptime_s,
        s.listen.join(", "),
        s.to,
        s.connections.len(),
        t.connections,
        t.multipath,
        t.fallbacks,
        t.bytes_sent,
        t.bytes_received,
        t.retransmissions,
        t.timeouts,
        t.recoveries,
        t.recoveries_useful,
    );
    if let Some(u) = &s.udp {
        let _ = writeln!(
            text,
            "UDP: {} ids, {} unproven, {} evicted, {} refused; {} challenges, {} rebindings",
            u.ids, u.half_open, u.evicted, u.refused, u.challenges, u.rebindings
        );
    }
    services(&mut text, &s.services);
    uplinks(&mut text, &s.uplinks);
    for m in &s.metered {
        let share = 100.0 * m.used as f64 / m.limit.max(1) as f64;
        let _ = writeln!(
            text,
            "metered {}: {} of {} B in this {} ({share:.0} %)",
            m.device, m.used, m.limit, m.period
        );
    }
    if let Some(direct) = &s.direct {
        let _ = writeln!(
            text,
            "{} connections open directly, past the gateway; since the start {}; the gateway {}",
            direct.open,
            direct.total,
            if direct.gateway_silent {
                "cannot be reached"
            } else {
                "is tried first"
            }
        );
    }
    let rates = rates.since(s, Instant::now());
    for c in &s.connections {
        connection(&mut text, c, |subflow| rates.of(c.id, subflow));
    }
    text
}

fn services(text: &mut String, list: &[ServiceStatus]) {
    for s in list {
        let _ = writeln!(
            text,
            "service {}: {} to {}",
            s.name,
            s.listen.join(", "),
            s.to
        );
    }
}

fn uplinks(text: &mut String, list: &[Uplink]) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\nuplink           state   carrier  route                                     address"
    );
    for u in list {
        let carrier = if u.carrier { "up" } else { "down" };
        let route = match (&u.next_hop, u.route) {
            (Some(hop), _) => hop.as_str(),
            (None, true) => "direct",
            (None, false) => "-",
        };
        let device = if u.device.is_empty() { "-" } else { &u.device };
        let why = u.why.as_ref().map_or(String::new(), |w| format!(" ({w})"));
        let _ = writeln!(
            text,
            "{device:15}  {:6}  {carrier:7}  {route:40}  {}{why}",
            u.state, u.address
        );
    }
}

fn connection(text: &mut String, c: &Connection, rate: impl Fn(&Subflow) -> Option<Rate>) {
    let kind = if c.multipath { "mptcp" } else { "tcp" };
    let service = c
        .service
        .as_ref()
        .map_or(String::new(), |s| format!(" {s}"));
    let _ = writeln!(
        text,
        "\n#{}{service} {kind} {} - {} ({}), {:.1} s: written {} B, acknowledged {} B, received {} B",
        c.id, c.local, c.remote, c.outside, c.age_s, c.written, c.acknowledged, c.received
    );
    let _ = writeln!(
        text,
        "  subflow  state            rtt ms      cwnd  in flight        sent    received  lost  again  recovered  timeouts  silent s   Mbps out        in  path"
    );
    for s in &c.subflows {
        let rtt = s.rtt_ms.map_or("-".to_owned(), |t| format!("{t:.2}"));
        let backup = if s.backup { " (backup)" } else { "" };
        let dead = if s.dead { " (dead)" } else { "" };
        let mbps =
            |of: fn(Rate) -> f64| rate(s).map_or("-".to_owned(), |r| format!("{:.2}", of(r)));
        let (sent, received) = (mbps(|r| r.sent), mbps(|r| r.received));
        let _ = writeln!(
            text,
            "  {:7}  {:13} {rtt:>9} {:9} {:10} {:11} {:11} {:5} {:6} {:10} {:9} {:9.1} {sent:>10} {received:>9}  {} - {}{backup}{dead}",
            s.id,
            s.state,
            s.cwnd,
            s.in_flight,
            s.bytes_sent,
            s.bytes_received,
            s.losses,
            s.retransmissions,
            s.recoveries,
            s.timeouts,
            s.silent_s,
            s.local,
            s.remote,
        );
    }
    for e in &c.ended {
        let never = if e.established {
            ""
        } else {
            " (never established)"
        };
        let _ = writeln!(
            text,
            "  {:7}  ended {:.1} s ago: {}{never}  {} - {}",
            e.id, e.ago_s, e.reason, e.local, e.remote
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_net::status::EndedSubflow;

    #[test]
    fn uplinks_are_shown_with_their_state_and_the_reason_why_they_are_down() {
        let uplink = |device: &str, state: &str, why: Option<&str>| Uplink {
            device: device.into(),
            address: "10.0.0.2".into(),
            carrier: why.is_none(),
            route: why.is_none(),
            next_hop: (state == "used").then(|| "10.0.0.1".into()),
            state: state.into(),
            why: why.map(str::to_owned),
        };
        let mut text = String::new();
        uplinks(
            &mut text,
            &[
                uplink("eth0", "used", None),
                uplink("wlan0", "backup", None),
                uplink("", "down", Some("no carrier")),
            ],
        );
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let lines: Vec<_> = text.lines().skip(2).map(words).collect();
        assert_eq!(lines[0], ["eth0", "used", "up", "10.0.0.1", "10.0.0.2"]);
        assert_eq!(lines[1], ["wlan0", "backup", "up", "direct", "10.0.0.2"]);
        assert_eq!(
            lines[2],
            ["-", "down", "down", "-", "10.0.0.2", "(no", "carrier)"]
        );
    }

    /// A gateway with one connection, which has two subflows and an ended one.
    fn example() -> Status {
        let subflow = |id, remote: &str| Subflow {
            id,
            local: "10.9.0.1:80".into(),
            remote: remote.into(),
            state: "Established".into(),
            backup: id == 1,
            dead: id == 1,
            silent_s: f64::from(id) * 12.34,
            rtt_ms: (id == 0).then_some(12.345),
            cwnd: 14_600,
            in_flight: 2_920,
            bytes_sent: 100,
            bytes_received: 7,
            losses: 3,
            retransmissions: 2,
            recoveries: 1,
            timeouts: 0,
        };
        Status {
            version: status::VERSION,
            kind: "gateway".into(),
            transport: "fuso".into(),
            pid: 1,
            stage: None,
            uptime_s: 2.0,
            listen: vec!["10.9.0.1:80".into()],
            to: "127.0.0.1:80".into(),
            services: Vec::new(),
            totals: Default::default(),
            udp: None,
            uplinks: Vec::new(),
            metered: Vec::new(),
            direct: None,
            connections: vec![Connection {
                service: None,
                id: 4,
                local: "10.9.0.1:80".into(),
                remote: "10.1.1.2:4000".into(),
                outside: "10.1.1.2:4000".into(),
                age_s: 1.0,
                multipath: true,
                written: 100,
                acknowledged: 50,
                received: 7,
                subflows: vec![subflow(0, "10.1.1.2:4000"), subflow(1, "10.1.2.2:4001")],
                ended: vec![EndedSubflow {
                    id: 2,
                    local: "10.9.0.1:80".into(),
                    remote: "10.1.2.2:4002".into(),
                    established: true,
                    ago_s: 3.25,
                    end: "peer_reset".into(),
                    reason: "reset by the peer without a reason".into(),
                }],
            }],
        }
    }

    #[test]
    fn a_table_shows_every_subflow() {
        let status = example();
        let text = table(&status, &Rates::default());
        assert!(
            text.contains("#4 mptcp 10.9.0.1:80 - 10.1.1.2:4000"),
            "{text}"
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[6].contains("12.35") && lines[6].ends_with("10.1.1.2:4000"),
            "{text}"
        );
        let second = lines[7];
        assert!(second.ends_with("10.1.2.2:4001 (backup) (dead)"), "{text}");
        assert!(
            second.contains(" 12.3          -         -  10.9.0.1:80"),
            "{text}"
        );
        let ended =
            "ended 3.2 s ago: reset by the peer without a reason  10.9.0.1:80 - 10.1.2.2:4002";
        assert!(lines[8].ends_with(ended), "{text}");
    }

    #[test]
    fn a_table_shows_direct_connections_of_a_connect_that_may_open_them() {
        let mut status = example();
        assert!(!table(&status, &Rates::default()).contains("directly"));
        status.direct = Some(status::Direct {
            total: 12,
            open: 3,
            gateway_silent: true,
        });
        let text = table(&status, &Rates::default());
        let line = "3 connections open directly, past the gateway; since the start 12; the gateway cannot be reached\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_table_names_the_services_if_there_are_several() {
        let mut status = example();
        let service = |name: &str, listen: &str| ServiceStatus {
            name: name.into(),
            listen: vec![listen.into()],
            to: "127.0.0.1:80".into(),
        };
        status.services = vec![
            service("web", "10.9.0.1:80"),
            service("mail", "10.9.0.1:25"),
        ];
        status.connections[0].service = Some("web".into());
        let text = table(&status, &Rates::default());
        assert!(
            text.contains("service mail: 10.9.0.1:25 to 127.0.0.1:80"),
            "{text}"
        );
        assert!(text.contains("#4 web mptcp 10.9.0.1:80 - "), "{text}");
    }

    #[test]
    fn rates_are_those_since_the_last_status_of_the_same_process() {
        let (mut rates, mut status) = (Rates::default(), example());
        let begin = Instant::now();
        let later = begin + Duration::from_secs(2);
        let of = |rates: &Rates, status: &Status, n: usize| {
            let c = &status.connections[0];
            rates.since(status, later).of(c.id, &c.subflows[n])
        };
        assert_eq!(of(&rates, &status, 0), None, "nothing to compare with");
        rates.remember(&status, begin);
        status.connections[0].subflows[0].bytes_sent += 1_000_000;
        status.connections[0].subflows[1].id = 9;
        let rate = |sent, received| Some(Rate { sent, received });
        assert_eq!(of(&rates, &status, 0), rate(4.0, 0.0));
        let new = of(&rates, &status, 1).expect("a rate");
        assert!(new.sent > 0.0, "a new subflow has sent nothing before");
        status.pid += 1;
        assert_eq!(of(&rates, &status, 0), None, "another process");
    }
}
