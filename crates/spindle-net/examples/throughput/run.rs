//! Runs the rows in rounds, so that other load of the machine affects all rows alike, and prints the results.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Outcome;
use crate::rows::{CONNECT, PARTS, PLAIN, Part, REFERENCE, ROWS, Row};

/// Time for the parts to begin listening.
pub(crate) const START: Duration = Duration::from_millis(1500);

struct Options {
    spindle: String,
    client: String,
    server: String,
    mib: u64,
    rounds: usize,
    only: String,
    json: Option<String>,
}

fn options(args: &[String]) -> Outcome<Options> {
    let mut named: HashMap<&str, &str> = HashMap::new();
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} has no value", pair[0]).into());
        };
        named.insert(name, value);
    }
    let text = |name: &str| named.get(name).map(|v| (*v).to_owned());
    let need = |name: &str| text(name).ok_or_else(|| format!("{name} is missing"));
    Ok(Options {
        spindle: need("--spindle")?,
        client: need("--client")?,
        server: need("--server")?,
        mib: text("--mib").map_or(Ok(1024), |n| n.parse())?,
        rounds: text("--rounds").map_or(Ok(5), |n| n.parse())?,
        only: text("--only").unwrap_or_default(),
        json: text("--json"),
    })
}

/// Child processes by name. They are killed when this value is dropped.
#[derive(Default)]
struct Parts(HashMap<&'static str, Child>);

impl Drop for Parts {
    fn drop(&mut self) {
        for child in self.0.values_mut() {
            // The process may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Parts {
    fn start(&mut self, options: &Options, part: &Part) -> Outcome {
        let namespace = if part.at_server {
            &options.server
        } else {
            &options.client
        };
        let program = if part.spindle {
            options.spindle.clone()
        } else {
            own_path()?
        };
        let mut command = within(namespace, &program, part.args);
        self.0
            .insert(part.name, command.stdin(Stdio::null()).spawn()?);
        Ok(())
    }

    /// CPU seconds so far of the named parts.
    fn cpu(&self, names: &[&str]) -> Outcome<f64> {
        let mut sum = 0.0;
        for name in names {
            let child = self.0.get(name).ok_or("no such part")?;
            sum += cpu_of(child.id()).map_err(|e| format!("{name} is gone: {e}"))?;
        }
        Ok(sum)
    }
}

pub(crate) fn own_path() -> Outcome<String> {
    Ok(std::env::current_exe()?.to_string_lossy().into_owned())
}

pub(crate) fn within(namespace: &str, program: &str, args: &str) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", namespace, program])
        .args(args.split_whitespace());
    command
}

/// CPU seconds of a process: utime and stime of proc(5), in ticks of 10 ms.
fn cpu_of(pid: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, which may contain anything, ends with the last parenthesis. utime is the twelfth field after
    // it.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |i: usize| -> Outcome<f64> { Ok(fields.get(i).ok_or("a short stat")?.parse()?) };
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

/// The results of one transfer.
#[derive(Clone, Copy)]
struct Measured {
    gbit_per_s: f64,
    cpu_per_gb: f64,
    /// Retransmissions by the connection timers of the kernels' MPTCP. In a run without loss, each is a stall
    /// of about 0.2 s.
    stalls: u64,
}

/// MPTCPRetrans of both namespaces since they were created.
fn stalls(options: &Options) -> Outcome<u64> {
    let mut sum = 0;
    for namespace in [&options.client, &options.server] {
        let output = within(namespace, "cat", "/proc/net/netstat").output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = text.lines().filter(|l| l.starts_with("MPTcpExt:"));
        let (names, values) = (lines.next(), lines.next());
        let (names, values) = names.zip(values).ok_or("no MPTCP counters")?;
        let mut both = names.split_whitespace().zip(values.split_whitespace());
        let found = both.find(|(name, _)| *name == "MPTCPRetrans");
        sum += found.ok_or("no MPTCPRetrans")?.1.parse::<u64>()?;
    }
    Ok(sum)
}

fn measure(options: &Options, parts: &Parts, row: &Row, down: bool) -> Outcome<Measured> {
    let (before, stalled) = (parts.cpu(row.parts)?, stalls(options)?);
    let direction = if down { "down" } else { "up" };
    let args = format!("{} {direction} {}", row.client, options.mib);
    let output = within(&options.client, &own_path()?, &args)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(seconds)), Some(Ok(cpu))) = (numbers.next(), numbers.next()) else {
        return Err(format!("{} {direction} failed", row.name).into());
    };
    // Work that is still being finished belongs to this transfer.
    sleep(Duration::from_millis(100));
    let gb = (options.mib << 20) as f64 * 1e-9;
    let spent = cpu + parts.cpu(row.parts)? - before;
    Ok(Measured {
        gbit_per_s: gb * 8.0 / seconds,
        cpu_per_gb: spent / gb,
        stalls: stalls(options)? - stalled,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        _ => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

/// All rounds of one row in one direction.
struct Series {
    row: &'static str,
    down: bool,
    rounds: Vec<Measured>,
}

fn all(options: &Options, parts: &Parts) -> Outcome<Vec<Series>> {
    let wanted = |r: &&Row| [PLAIN, REFERENCE].contains(&r.name) || r.name.contains(&options.only);
    let mut series = Vec::new();
    for down in [true, false] {
        series.extend(ROWS.iter().filter(wanted).map(|row| Series {
            row: row.name,
            down,
            rounds: Vec::new(),
        }));
    }
    for round in 1..=options.rounds {
        for s in &mut series {
            let row = ROWS.iter().find(|r| r.name == s.row);
            let one = measure(options, parts, row.ok_or("no such row")?, s.down)?;
            let direction = if s.down { "down" } else { "up" };
            eprintln!(
                "round {round}: {} {direction}: {:.2} Gbit/s, {:.2} CPU s/GB, {} stalls",
                s.row, one.gbit_per_s, one.cpu_per_gb, one.stalls
            );
            s.rounds.push(one);
        }
    }
    Ok(series)
}

fn rates(of: &Series) -> Vec<f64> {
    of.rounds.iter().map(|m| m.gbit_per_s).collect()
}

/// The median of the ratios to another row within each round, with all rounds counted.
fn ratio(all: &[Series], of: &Series, to: &str) -> f64 {
    let reference = all.iter().find(|s| s.row == to && s.down == of.down);
    let pairs = of
        .rounds
        .iter()
        .zip(reference.into_iter().flat_map(|r| &r.rounds));
    median(pairs.map(|(a, b)| a.gbit_per_s / b.gbit_per_s).collect())
}

/// The ratio of the medians. Of the reference, only rounds without a retransmission by its connection timer
/// count, since a comparison with a stalled round proves nothing. Not a number if there is no such round.
fn ratio_unstalled(all: &[Series], of: &Series) -> f64 {
    let reference = all
        .iter()
        .filter(|s| s.row == REFERENCE && s.down == of.down);
    let silent = reference.flat_map(|s| &s.rounds).filter(|m| m.stalls == 0);
    median(rates(of)) / median(silent.map(|m| m.gbit_per_s).collect())
}

fn print(all: &[Series]) {
    println!(
        "| | direction | Gbit/s | least-most | of kernel TCP | of kernel MPTCP, unstalled rounds \
         | of kernel MPTCP, all rounds | rounds with stalls | CPU s/GB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for s in all {
        let least = rates(s).into_iter().fold(f64::INFINITY, f64::min);
        let most = rates(s).into_iter().fold(0.0, f64::max);
        println!(
            "| {} | {} | {:.2} | {least:.2}-{most:.2} | {:.2} | {:.2} | {:.2} | {} of {} | {:.2} |",
            s.row,
            if s.down { "down" } else { "up" },
            median(rates(s)),
            ratio(all, s, PLAIN),
            ratio_unstalled(all, s),
            ratio(all, s, REFERENCE),
            s.rounds.iter().filter(|m| m.stalls > 0).count(),
            s.rounds.len(),
            median(s.rounds.iter().map(|m| m.cpu_per_gb).collect()),
        );
    }
}

fn document(options: &Options, all: &[Series]) -> Value {
    let rows = all.iter().map(|s| {
        let cpu: Vec<f64> = s.rounds.iter().map(|m| m.cpu_per_gb).collect();
        let stalls: Vec<u64> = s.rounds.iter().map(|m| m.stalls).collect();
        json!({
            "row": s.row,
            "direction": if s.down { "down" } else { "up" },
            "gbit_per_s": median(rates(s)),
            "of_kernel_tcp": ratio(all, s, PLAIN),
            "of_kernel_mptcp_unstalled": ratio_unstalled(all, s),
            "of_kernel_mptcp": ratio(all, s, REFERENCE),
            "cpu_s_per_gb": median(cpu.clone()),
            "rounds": { "gbit_per_s": rates(s), "cpu_s_per_gb": cpu, "stalls": stalls },
        })
    });
    json!({ "mib": options.mib, "rows": rows.collect::<Vec<_>>() })
}

/// Runs `throughput run`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = options(args)?;
    let mut parts = Parts::default();
    for part in &PARTS {
        parts.start(&options, part)?;
    }
    sleep(START);
    parts.start(&options, &CONNECT)?;
    sleep(START);
    let series = all(&options, &parts)?;
    print(&series);
    if let Some(path) = &options.json {
        fs::write(
            path,
            serde_json::to_vec_pretty(&document(&options, &series))?,
        )?;
    }
    Ok(())
}
