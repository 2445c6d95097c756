//! The user's own programs in the hosts instead of the workload.

use std::process::{Child, Command};
use std::time::Duration as StdDuration;

use spindle_lab::driver::{address, network};
use spindle_lab::experiment::{Experiment, TransportName};
use spindle_lab::registry::Registry;

use crate::error::TestbedError;
use crate::fabric::FabricReport;
use crate::host::Host;
use crate::namespace::end_with_us;
use crate::part::{Part, World, names};

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
    /// [`TestbedError::Exec`] without a host or command.
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

/// How often the programs are looked at.
const LOOK: StdDuration = StdDuration::from_millis(20);

/// Runs the programs at the experiment's first point in hosts on the kernel's stack, all at once, in
/// the order given; when the last given ends, the others are ended. In their environment each
/// host's name stands for its first address (`-` in names becomes `_`). Gives the last program's
/// exit code and what the network did.
///
/// # Errors
/// If a host is not there or the system refuses something.
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
    let all = names(&network(&point.scenario, registry)?);
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
    let mut children = Children(Vec::new());
    for program in programs {
        let host = all.iter().position(|n| *n == program.host).unwrap_or(0);
        children.0.push(start(program, &hosts[host], &all)?);
    }
    let code = loop {
        let Some(last) = children.0.last_mut() else {
            break 0;
        };
        match last
            .try_wait()
            .map_err(TestbedError::system("wait for a program"))?
        {
            Some(status) => break status.code().unwrap_or(1),
            None => std::thread::sleep(LOOK),
        }
    };
    drop(children);
    Ok((code, fabric.finish()))
}

fn start(program: &Exec, host: &Host, all: &[String]) -> Result<Child, TestbedError> {
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
    end_with_us(&mut command);
    let started = namespace.within(|| command.spawn());
    let what = || format!("start `{}` in {}", program.command, program.host);
    started
        .and_then(|started| started)
        .map_err(TestbedError::system(what()))
}

/// Programs that end when this is dropped.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The network's statistics for people.
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
    fn programs_are_read() {
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
