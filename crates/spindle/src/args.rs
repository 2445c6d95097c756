//! The command-line arguments.

pub(crate) mod keys;
pub(crate) mod service;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use spindle_experiment::Overrides;
use spindle_experiment::variations::Variation;

/// Multipath TCP that recovers lost packets before anyone waits for them.
#[derive(Debug, Parser)]
#[command(name = "spindle", version = crate::version::version(), disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare transports: web-search queries, one of three paths loses packets
    Compare(Compare),
    /// Run an experiment file
    Run(Run),
    /// Reproduce figures and tables of the papers and check their claims
    Reproduce(Reproduce),
    /// Write a page with the verdicts of several reproductions side by side
    Register(Register),
    /// Run a reference flow file over a fat tree: speed and completion times
    Flows(Flows),
    /// Follow single flows of an experiment: the slowest ones, or one event by event
    Trace(Trace),
    /// Put Spindle in front of a TCP service
    Gateway(Box<service::Gateway>),
    /// Take local programs' connections to a gateway, or to any MPTCP server
    Connect(Box<service::Connect>),
    /// Run a program whose TCP connections all go to a gateway, without its knowing and without root
    Exec(Box<service::Exec>),
    /// Make the keys of a gateway: its authority and its certificate
    Keygen(keys::Keygen),
    /// Make a client's bundle: all that its `spindle connect` needs, in one file
    Enroll(keys::Enroll),
    /// Revoke a client's certificates
    Revoke(keys::Revoke),
    /// Run an experiment file in real time, with hosts on the kernel's stack and on Spindle
    Testbed(Testbed),
    /// Show running gateways and connects: live connections and their subflows
    Status(crate::commands::status::StatusArgs),
    /// Say what a transport is made of
    Explain(Explain),
    /// Evaluate a paper's formulas for your own numbers
    Analyze(Analyze),
    /// Write the man pages and shell completions of these commands
    Pages(Pages),
}

/// Short flags of `compare`, `run` and `testbed` that override parts of an experiment.
#[derive(Debug, ClapArgs)]
pub(crate) struct Size {
    /// Flows per transport and seed
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) flows: Option<String>,
    /// How many seeds
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) seeds: Option<String>,
    /// First seed
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) seed: Option<String>,
    /// Loss rate, or several separated by commas
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) loss: Option<String>,
}

impl Size {
    pub(crate) fn overrides(&self, transports: Option<&String>, set: &[String]) -> Overrides {
        Overrides {
            set: set.to_vec(),
            loss: self.loss.clone(),
            flows: self.flows.clone(),
            seeds: self.seeds.clone(),
            seed: self.seed.clone(),
            transports: transports.cloned(),
            scale: None,
            reading: None,
            variation: None,
        }
    }
}

/// The arguments that `compare` and `run` share.
#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// Transports, separated by commas; `name@balancer` to use another balancer
    #[arg(long, value_name = "A,B@RPS")]
    pub(crate) transports: Option<String>,
    #[command(flatten)]
    pub(crate) size: Size,
    /// Set a key of the experiment, such as traffic.load=20Mbps
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Threads; one per core if not given
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Responses carry this file's bytes, over and over, and are verified
    #[arg(long, value_name = "FILE")]
    pub(crate) payload: Option<PathBuf>,
    /// Write the results as JSON to a file, or to standard output with -
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report with pictures into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Write captures into this directory, one file per run
    #[arg(long, value_name = "DIR")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write each finished run to this file, a line of JSON each; without --resume it begins empty
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// Take finished runs from --store instead of making them again
    #[arg(long, requires = "store")]
    pub(crate) resume: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Compare {
    /// An experiment's id or file instead of the usual comparison
    pub(crate) scenario: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The experiment file
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Reproduce {
    /// Experiments by their ids; `arena`: all transports in all networks, in one table
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// All experiments of a paper
    #[arg(long, value_name = "PAPER", conflicts_with = "ids")]
    pub(crate) paper: Option<String>,
    /// All experiments
    #[arg(long, conflicts_with_all = ["ids", "paper"])]
    pub(crate) all: bool,
    /// List the experiments, or those that are named
    #[arg(long)]
    pub(crate) list: bool,
    /// A paper in five minutes on two cores (the default)
    #[arg(long)]
    pub(crate) quick: bool,
    /// A paper in a hundred minutes
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,
    /// The papers' own counts
    #[arg(long, conflicts_with_all = ["quick", "full"])]
    pub(crate) paper_scale: bool,
    /// Another reading of the paper: choices for what it leaves open, for all of its experiments
    #[arg(long, value_name = "NAME")]
    pub(crate) reading: Option<String>,
    /// With a printed value changed in all experiments, to see whether verdicts depend on it: other-seeds, smaller-mss,
    /// half-buffers, double-buffers, half-min-rto, double-min-rto, lower-load, higher-load
    #[arg(long, value_name = "NAME", value_parser = Variation::find)]
    pub(crate) vary: Option<Variation>,
    /// Where results, and the report, go
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the verdicts as JSON to a file, or to standard output with -
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Write the hash and the verdict of each claim to a file; experiments that are not run keep their entries
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reading", "vary", "seed", "check_lock", "list"])]
    pub(crate) write_lock: Option<PathBuf>,
    /// Compare the hash and the verdict of each claim with those of such a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reading", "vary", "seed", "list"])]
    pub(crate) check_lock: Option<PathBuf>,
    /// Take finished runs from --out instead of making them again
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// First seed
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) seed: Option<String>,
    /// Threads; one per core if not given
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Register {
    /// Files of `reproduce --json`: those of one scale and reading form a column, those with
    /// a variation show whether its verdicts are robust
    #[arg(value_name = "RESULTS.json", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The page, in Markdown; standard output if neither this nor another page is asked for
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write a page, in Markdown, on the verdicts that files of `reproduce --vary` change
    #[arg(long, value_name = "FILE")]
    pub(crate) robustness: Option<PathBuf>,
    /// Write a page, in Markdown, with the paper's and the measured value of each claim
    #[arg(long, value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// Write a page, in Markdown, with the transports of each network of the arena and their price. Files of
    /// `reproduce arena --vary other-seeds` show whether the order depends on the seeds
    #[arg(long, value_name = "FILE")]
    pub(crate) arena: Option<PathBuf>,
    /// Write a site that filters and sorts the claims. Its rows lead to the figures that `reproduce --all --out` wrote to
    /// the same directory
    #[arg(long, value_name = "DIR")]
    pub(crate) site: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Flows {
    /// The flow file: id src dst pkts start_ns fpath rpath
    #[arg(value_name = "FILE.flows")]
    pub(crate) file: PathBuf,
    /// Ports of a switch of the fat tree
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    pub(crate) k: String,
    /// With selective acknowledgements
    #[arg(long)]
    pub(crate) sack: bool,
    /// Repeat with every start shifted by less than a microsecond, to see how far chance goes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) shifts: u64,
    /// Write the results as JSON to a file, or to standard output with -
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Trace {
    /// An experiment's id or file
    #[arg(value_name = "ID|FILE.toml")]
    pub(crate) scenario: String,
    /// The transport to follow
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: String,
    /// This flow, event by event, by its number in the order of arrival from 0
    #[arg(long, value_name = "N", conflicts_with = "slowest")]
    pub(crate) flow: Option<u32>,
    /// List so many of the slowest flows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) slowest: usize,
    /// Draw --flow, to be zoomed in a browser, into this directory
    #[arg(long, value_name = "DIR", requires = "flow")]
    pub(crate) report: Option<PathBuf>,
    /// Write a capture of the run into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) pcap: Option<PathBuf>,
    /// Draw the same flow under this transport below it
    #[arg(long, value_name = "NAME", requires = "report")]
    pub(crate) against: Option<String>,
    /// This point of the sweep, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) point: usize,
    /// One of the parts that a seed's flows are split into, from 0, such as 3/10; all in one run
    /// without
    #[arg(long, value_name = "K/N")]
    pub(crate) part: Option<String>,
    /// With the reading of reproduce --reading
    #[arg(long, value_name = "NAME")]
    pub(crate) reading: Option<String>,
    /// With the variation of reproduce --vary
    #[arg(long, value_name = "NAME", value_parser = Variation::find)]
    pub(crate) vary: Option<Variation>,
    /// At the scale of reproduce --quick
    #[arg(long)]
    pub(crate) quick: bool,
    /// At the scale of reproduce --full
    #[arg(long, conflicts_with = "quick")]
    pub(crate) full: bool,
    /// At the scale of reproduce --paper-scale
    #[arg(long, conflicts_with_all = ["quick", "full"])]
    pub(crate) paper_scale: bool,
    /// Flows of the run
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) flows: Option<String>,
    /// The seed
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) seed: Option<String>,
    /// Loss rate
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) loss: Option<String>,
    /// Set a key of the experiment, such as traffic.load=20Mbps
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The transport, or variants (+held) or a balancer (@rps); without it all names are listed
    pub(crate) transport: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Analyze {
    #[command(subcommand)]
    pub(crate) formulas: Formulas,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Formulas {
    /// Coding units of CAPS: redundancy, probability, delay, overhead, and the best size
    Caps(Caps),
}

/// The defaults are the constants of the paper's Fig 9, and short flows with a tenth of all packets.
#[derive(Debug, ClapArgs)]
pub(crate) struct Caps {
    /// Packets of a unit, as in 1,4,8..16; all from 1 to the window if not given
    #[arg(long, value_name = "K,K..K", allow_hyphen_values = true)]
    pub(crate) k: Option<String>,
    /// Packets of the congestion window
    #[arg(
        long,
        value_name = "W",
        default_value = "64",
        allow_hyphen_values = true
    )]
    pub(crate) window: String,
    /// Share of packets blocked by long flows, or several separated by commas: 0.2, 20% or 4/20
    #[arg(
        long,
        value_name = "P,P",
        default_value = "20%,25%,30%,35%",
        allow_hyphen_values = true
    )]
    pub(crate) blocking: String,
    /// Rate of the bottleneck
    #[arg(
        long,
        value_name = "RATE",
        default_value = "1Gbps",
        allow_hyphen_values = true
    )]
    pub(crate) rate: String,
    /// Bytes of a coded packet
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1500",
        allow_hyphen_values = true
    )]
    pub(crate) mss: String,
    /// Longest round trip on paths without long flows
    #[arg(
        long,
        value_name = "TIME",
        default_value = "100us",
        allow_hyphen_values = true
    )]
    pub(crate) rtt_short: String,
    /// Longest round trip on paths with long flows
    #[arg(
        long,
        value_name = "TIME",
        default_value = "3ms",
        allow_hyphen_values = true
    )]
    pub(crate) rtt_long: String,
    /// Packets of long flows over those of short flows
    #[arg(
        long,
        value_name = "G",
        default_value = "9",
        allow_hyphen_values = true
    )]
    pub(crate) ratio: String,
    /// Count whole units of a window only, where the equations have w/k
    #[arg(long)]
    pub(crate) whole: bool,
    /// Write the results as JSON to a file, or to standard output with -
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page of pictures into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Pages {
    /// Where to: `man1`, `bash`, `zsh` and `fish` are made in it
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Testbed {
    /// The experiment file
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Run this program in a host instead of the traffic; the last one given ends the run. Host
    /// names are variables with their addresses
    #[arg(long, value_name = "HOST=COMMAND")]
    pub(crate) exec: Vec<String>,
    /// Transports, separated by commas; `server>client` for different ends; `tun:`, `udp:` or
    /// `gateway:` before a preset is what carries it
    #[arg(long, value_name = "A,B>C,udp:D")]
    pub(crate) transports: Option<String>,
    #[command(flatten)]
    pub(crate) size: Size,
    /// Set a key of the experiment, such as traffic.first_path=2
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// A row is invalid if 1 in 100 packets is delivered later than this [default: 1ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) late: Option<String>,
    /// Parts of rows that run at a time, each in a network of its own [default: 4 per core, at most
    /// 16; 1 for each 2 cores if there are short and long flows]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Write each finished part to this file, a line of JSON each; without --resume it begins empty
    #[arg(long, value_name = "FILE")]
    pub(crate) store: Option<PathBuf>,
    /// Take finished parts from --store instead of running them again, unless they were late
    #[arg(long, requires = "store")]
    pub(crate) resume: bool,
    /// Write the results as JSON to a file, or to standard output with -
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use spindle_experiment::registry::Registry;
    use spindle_experiment::{causes, library};

    use super::*;

    /// Reads the experiment of a command with the transports and the changes that it asks for.
    fn read(command: &Command) {
        let registry = Registry::standard();
        let (id, overrides) = match command {
            Command::Compare(c) => {
                let common = &c.common;
                let overrides = common
                    .size
                    .overrides(common.transports.as_ref(), &common.set);
                (c.scenario.as_deref(), overrides)
            }
            Command::Trace(t) => {
                let overrides = Overrides {
                    transports: Some(t.transport.clone()),
                    ..Overrides::default()
                };
                (Some(t.scenario.as_str()), overrides)
            }
            Command::Reproduce(r) => {
                let ids = library::of_ids(r.ids.iter().map(String::as_str)).unwrap();
                let papers: Vec<&str> = ids.iter().filter_map(|b| b.paper).collect();
                let reading = r.reading.as_deref();
                let reading = reading.map(|n| spindle_experiment::readings::find(n, &papers));
                let overrides = Overrides {
                    reading: reading.transpose().unwrap(),
                    ..Overrides::default()
                };
                (ids.first().map(|b| b.id), overrides)
            }
            other => panic!("found {other:?}, want compare, trace or reproduce"),
        };
        let built_in = library::find(id.unwrap()).unwrap();
        built_in.read(&registry, &overrides).unwrap();
    }

    #[test]
    fn help_and_the_script_of_results_name_every_variation() {
        let mut command = <Args as clap::CommandFactory>::command();
        let reproduce = command.find_subcommand_mut("reproduce").unwrap();
        let help = reproduce.render_help().to_string();
        let script = include_str!("../../../scripts/results-site");
        for variation in Variation::ALL {
            assert!(help.contains(variation.name()), "{}", variation.name());
            let quoted = format!("\"{}\"", variation.name());
            assert!(script.contains(&quoted), "{quoted}");
        }
    }

    #[test]
    fn command_of_every_cause_is_accepted() {
        for cause in causes::all() {
            let words = cause.command.split_whitespace();
            let args = Args::try_parse_from(words).map_err(|e| e.to_string());
            read(
                &args
                    .unwrap_or_else(|e| panic!("{}: {e}", cause.command))
                    .command,
            );
        }
    }
}
