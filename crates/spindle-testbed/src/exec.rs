//! Runs the user's own programs in the hosts instead of the workload.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration as StdDuration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use spindle_experiment::hosts::address;
use spindle_experiment::network::network_in_real_time;
use spindle_experiment::registry::Registry;
use spindle_experiment::{Experiment, TransportName};
use spindle_net::service::Signals;

use crate::error::TestbedError;
use crate::hosts::host::Host;
use crate::hosts::namespace::end_with_us;
use crate::model::fabric::FabricReport;
use crate::run::part::{Part, World, names};

/// A program in a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    /// The host's name.
    pub host: String,
    /// The command line, for `sh -c`.
    pub command: String,
}

impl Exec {
    /// Reads `HOST=COMMAND`.
    ///
    /// # Errors
    /// [`TestbedError::Exec`] if the host or the command is missing.
    pub fn parse(text: &str) -> Result<Self, TestbedError> {
        let wrong = || TestbedError::Exec {
            given: text.to_owned(),
            problem: "want HOST=COMMAND, such as client=\"ping -c 3 $server\"".to_owned(),
        };
        let (host, command) = text.split_once('=').ok_or_else(wrong)?;
        if host.is_empty() || command.trim().is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            command: command.to_owned(),
        })
    }
}

/// How often the programs' state is checked.
const LOOK: StdDuration = StdDuration::from_millis(20);
/// Exit code after a signal (that of a shell after SIGINT).
const INTERRUPTED: i32 = 130;

/// Runs the programs at the experiment's first point in hosts on the kernel's stack. All programs start at
/// once. The run ends when the program given last ends, or when this process receives SIGINT, SIGTERM or
/// SIGHUP. The other programs are then ended, with all processes that they started.
///
/// In each program's environment, every host's name is a variable with the host's first address (`-` in names
/// becomes `_`). Returns the exit code of the last program and the network's statistics.
///
/// # Errors
/// If a host does not exist or the system refuses an operation.
pub fn exec(
    experiment: &Experiment,
    registry: &Registry,
    programs: &[Exec],
) -> Result<(i32, FabricReport), TestbedError> {
    let Some(point) = experiment.points.first() else {
        return Err(TestbedError::Scenario(
            "the experiment has no point".to_owned(),
        ));
    };
    let all = names(&network_in_real_time(&point.scenario)?);
    if let Some(program) = programs.iter().find(|p| !all.contains(&p.host)) {
        return Err(TestbedError::Exec {
            given: format!("{}={}", program.host, program.command),
            problem: format!(
                "found host \"{}\", want one of {}",
                program.host,
                all.join(", ")
            ),
        });
    }
    let transport = TransportName {
        transport: "kernel-mptcp".to_owned(),
        balancer: None,
    };
    let part = Part {
        scenario: &point.scenario,
        transport: &transport,
        registry,
        seed: experiment.seed,
        part: 0,
        parts: experiment.parts(),
    };
    let World { fabric, hosts, .. } = part.build()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(TestbedError::system("start a runtime"))?;
    let code = runtime.block_on(async {
        // Signals are caught before the first program starts. A signal during the start must not leave a
        // program behind.
        let mut signals = Signals::catch().map_err(TestbedError::system("catch signals"))?;
        let mut children = Children(Vec::new());
        for program in programs {
            let host = all.iter().position(|n| *n == program.host).unwrap_or(0);
            children.0.push(start(program, &hosts[host], &all)?);
        }
        tokio::select! {
            code = children.last() => code,
            _ = signals.next() => Ok(INTERRUPTED),
        }
    })?;
    Ok((code, fabric.finish()))
}

fn start(program: &Exec, host: &Host, all: &[String]) -> Result<RunningGateway, TestbedError> {
    let Host::Kernel { namespace, .. } = host else {
        return Err(TestbedError::Exec {
            given: program.command.clone(),
            problem: "the host is not on the kernel's stack".to_owned(),
        });
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(&program.command);
    for (number, name) in all.iter().enumerate() {
        command.env(
            name.replace('-', "_"),
            address(number as u32, 0).to_string(),
        );
    }
    let what = || format!("start `{}` in {}", program.command, program.host);
    let guard = Guard::set().map_err(TestbedError::system(what()))?;
    // The guard's process group. Ending it ends all processes that the program starts.
    command.process_group(guard.group().as_raw());
    end_with_us(&mut command);
    let started = namespace.within(|| command.spawn());
    let child = started
        .and_then(|started| started)
        .map_err(TestbedError::system(what()))?;
    Ok(RunningGateway { child, guard })
}

/// A process that waits at the end of a pipe. If this process is killed, the pipe closes and the guard ends its
/// process group. The guard starts before the program, so that no program runs without one.
struct Guard(Child);

impl Guard {
    fn set() -> io::Result<Self> {
        let mut guard = Command::new("sh");
        guard
            .args(["-c", "read -r _; kill -s KILL -- \"-$$\""])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        guard.spawn().map(Self)
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Until the guard is waited for, its process id cannot be reused.
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// A program with all processes that it started. Ending the guard's group ends them.
struct RunningGateway {
    child: Child,
    guard: Guard,
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        // The program and the processes that it started may have ended already.
        let _ = killpg(self.guard.group(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Programs that are ended when this is dropped.
struct Children(Vec<RunningGateway>);

impl Children {
    /// Waits for the last program. Returns its exit code.
    async fn last(&mut self) -> Result<i32, TestbedError> {
        let Some(last) = self.0.last_mut() else {
            return Ok(0);
        };
        loop {
            let ended = last.child.try_wait();
            if let Some(status) = ended.map_err(TestbedError::system("wait for a program"))? {
                return Ok(status.code().unwrap_or(1));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Formats the network's statistics for people.
pub fn statistics(report: &FabricReport) -> String {
    let mut text =
        String::from("link                 packets        bytes  dropped     lost  max queue\n");
    for l in report
        .links
        .iter()
        .filter(|l| l.packets + l.dropped + l.lost > 0)
    {
        text += &format!(
            "{:16} {:>11} {:>12} {:>8} {:>8} {:>10}\n",
            l.link, l.packets, l.bytes, l.dropped, l.lost, l.max_queue
        );
    }
    let late = report.lateness.summary();
    text += &format!(
        "{} packets delivered, late by {} us (p50), {} us (p99), {} us (max)\n",
        late.packets, late.p50, late.p99, late.max
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_parsed() {
        let e = Exec::parse("client=curl http://$server/?a=b").unwrap();
        assert_eq!(
            (e.host.as_str(), e.command.as_str()),
            ("client", "curl http://$server/?a=b")
        );
        for wrong in ["client", "=x", "client= "] {
            assert!(
                matches!(Exec::parse(wrong), Err(TestbedError::Exec { .. })),
                "{wrong}"
            );
        }
    }
}
