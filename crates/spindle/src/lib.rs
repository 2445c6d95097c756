//! The command line of Spindle, with the names of a [`Registry`].
//!
//! The program `spindle` is a call of [`cli`] with [`Registry::standard`]. A user's own crate gets the whole
//! command line for its own transports, balancers and topologies in the same way:
//!
//! ```no_run
//! use spindle::{Registry, cli};
//! use spindle::mptcp::Config;
//!
//! fn main() -> std::process::ExitCode {
//!     cli(Registry::standard().transport("mine", vec!["my own idea".into()], Config::default))
//! }
//! ```
//!
//! # Commands
//!
//! - The lab: `compare` and `run` execute experiments in virtual time, `reproduce` those of the papers, `flows`
//!   a reference flow file. `register` puts verdicts of several reproductions side by side. `trace` follows single flows. `explain` shows what a transport consists of, and
//!   `analyze` evaluates formulas of the papers.
//! - The testbed: `testbed` runs an experiment file in real time, on kernel and Spindle hosts in network
//!   namespaces.
//! - The network: `gateway` serves MPTCP and TCP clients in front of a TCP service, `connect` takes connections
//!   of local programs to a gateway or a server, `exec` runs a program whose connections go to a gateway, and `status` shows
//!   running services.
//! - Keys: `keygen` makes a gateway's authority and certificate, `enroll` a client's bundle, and `revoke` revokes a
//!   client.
//! - `pages` writes man pages and shell completions.
//!
//! # Modules, in the order in which to read them
//!
//! This crate parses arguments, calls the other crates, and prints results. Its modules are private, except for
//! the functions and re-exports below.
//!
//! 1. `lib.rs` reads the arguments and calls one function for each command.
//! 2. `args.rs`, `args/service.rs` and `args/keys.rs` define the arguments with clap. Their doc comments are the texts of
//!    `--help`. `docs/reference/command-line.md` is generated from these texts, and CI compares the two.
//! 3. `settings.rs` reads `--config FILE`, whose keys are the flags of `gateway` and `connect`, and the tables of a
//!    gateway's services.
//! 4. `commands/` has a file for each command. `commands/mod.rs` has what they share.
//! 5. `commands/service.rs` has the common parts of `gateway` and `connect`: the checks of their flags, and the
//!    life of the process from its set-up to its end. `commands/log.rs` is their log.
//! 6. `keys/` has the directory of keys that `keygen`, `enroll` and `revoke` change and `gateway --keys` reads.
//! 7. `failure.rs` turns errors into one line on standard error and an exit code.
//! 8. `version.rs` has the text of `--version`, for which `build.rs` finds the commit.
//! 9. `allocator.rs` makes a service's allocator return freed memory soon.
//!
//! Exit codes are 0 if all went well, 1 if flows did not finish, connections were reset or something could not
//! be read or written, and 2 for bad usage.

mod allocator;
mod args;
mod commands;
mod failure;
mod keys;
mod settings;
mod version;

use std::process::ExitCode;

use clap::Parser;

pub use spindle_experiment as experiment;
pub use spindle_experiment::registry::{Application, Registry, TopologyRequest};
pub use spindle_fabric as fabric;
pub use spindle_lab as lab;
pub use spindle_mptcp as mptcp;

use args::{Args, Command};
use failure::Failure;
use settings::Settings;

/// Exit code of bad usage: flags, files and names that are not accepted.
const USAGE: u8 = 2;

/// Runs the command that the process was started with. The exit code is 0 if all went well, 1 if
/// flows did not finish or something could not be read or written, 2 for bad usage.
pub fn cli(registry: Registry) -> ExitCode {
    run(registry, std::env::args_os())
}

/// Like [`cli`], with these arguments (the first is the program's name).
pub fn run<I, T>(registry: Registry, arguments: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<std::ffi::OsString> + Clone,
{
    let arguments = arguments.into_iter().map(Into::into).collect();
    let (arguments, settings) = match settings::read(arguments) {
        Ok(read) => read,
        Err(error) => return Failure::from(error).report(),
    };
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    let services = settings.as_ref().map_or(&[][..], Settings::services);
    let done = match args.command {
        Command::Compare(c) => commands::compare::compare(&registry, &c),
        Command::Run(r) => commands::compare::run(&registry, &r),
        Command::Reproduce(r) => commands::reproduce::reproduce(&registry, &r),
        Command::Register(r) => commands::register::register(&registry, &r),
        Command::Flows(f) => commands::flows::flows(&f),
        Command::Trace(t) => commands::trace::trace(&registry, &t),
        Command::Gateway(g) => commands::gateway::gateway(&registry, &g, services),
        Command::Connect(c) => commands::connect::connect(&registry, &c),
        Command::Exec(e) => commands::exec::exec(&registry, &e),
        Command::Testbed(t) => commands::testbed::testbed(&registry, &t),
        Command::Status(s) => commands::status::status(&s),
        Command::Keygen(k) => commands::keygen::keygen(&k),
        Command::Enroll(e) => commands::enroll::enroll(&e),
        Command::Revoke(r) => commands::revoke::revoke(&r),
        Command::Explain(e) => commands::explain::explain(&registry, &e),
        Command::Analyze(a) => commands::analyze::analyze(&a),
        Command::Pages(p) => commands::pages::pages(&p),
    };
    match (done, settings) {
        (Ok(code), _) => code,
        (Err(failure), Some(settings)) => settings.place(failure).report(),
        (Err(failure), None) => failure.report(),
    }
}

/// Prints help and version to standard output unchanged, and a mistake as one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let kept = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("Usage:") && !l.starts_with("For more"));
    let line = kept.collect::<Vec<_>>().join("; ");
    let line = line.replace(":; ", ": ");
    eprintln!("{}", if line.is_empty() { text.trim() } else { &line });
    ExitCode::from(USAGE)
}
