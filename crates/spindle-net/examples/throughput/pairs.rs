//! Runs two transports over UDP by turns, and reports the ratio of the processor time they need.

use std::collections::HashMap;
use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::Outcome;
use crate::run::{START, own_path, within};

/// The services' addresses, which are those of `scripts/throughput`.
const AT: [&str; 2] = ["10.9.0.2:7101", "10.9.0.2:7102"];
const FROM: &str = "10.9.0.1";

struct Options {
    client: String,
    server: String,
    mib: u64,
    pairs: usize,
    transports: [String; 2],
    subflows: String,
    /// Bytes of the receive window. No more bytes are in flight, so that no queue overflows.
    window: String,
}

fn options(args: &[String]) -> Outcome<Options> {
    let mut named: HashMap<&str, &str> = HashMap::new();
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} has no value", pair[0]).into());
        };
        named.insert(name, value);
    }
    let text = |name: &str, or: &str| (*named.get(name).unwrap_or(&or)).to_owned();
    let need = |name: &str| named.get(name).ok_or_else(|| format!("{name} is missing"));
    let transports = text("--transports", "fuso,cofuso");
    let both = transports.split_once(',');
    let (first, second) = both.ok_or("--transports takes two names, with a comma between")?;
    Ok(Options {
        client: (*need("--client")?).to_owned(),
        server: (*need("--server")?).to_owned(),
        mib: text("--mib", "1024").parse()?,
        pairs: text("--pairs", "12").parse()?,
        transports: [first.to_owned(), second.to_owned()],
        subflows: text("--subflows", "3"),
        window: text("--window", "200000"),
    })
}

/// A service, which is killed when this value is dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    fn start(options: &Options, which: usize) -> Outcome<Self> {
        let args = format!("udp-service {}", AT[which]);
        let mut command = within(&options.server, &own_path()?, &args);
        command
            .env("THROUGHPUT_TRANSPORT", &options.transports[which])
            .env("THROUGHPUT_WINDOW", &options.window);
        Ok(Self(command.stdin(Stdio::null()).spawn()?))
    }

    /// Seconds that its threads have spent on a processor so far (Linux, schedstat: nanoseconds, first field).
    fn cpu(&self) -> Outcome<f64> {
        let mut sum = 0.0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let spent = text.split_whitespace().next().ok_or("an empty schedstat")?;
            sum += spent.parse::<f64>()? * 1e-9;
        }
        Ok(sum)
    }
}

/// Processor seconds of both ends for a gigabyte, measured over a download and an upload.
fn measure(options: &Options, which: usize, service: &Service) -> Outcome<f64> {
    let before = service.cpu()?;
    let mut spent = 0.0;
    for direction in ["down", "up"] {
        let args = format!(
            "udp-client {FROM} {} {direction} {}",
            AT[which], options.mib
        );
        let output = within(&options.client, &own_path()?, &args)
            .env("THROUGHPUT_TRANSPORT", &options.transports[which])
            .env("THROUGHPUT_SUBFLOWS", &options.subflows)
            .env("THROUGHPUT_WINDOW", &options.window)
            .stderr(Stdio::inherit())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = text.lines();
        let numbers = lines.next().unwrap_or_default();
        let cpu = numbers.split_whitespace().nth(1).map(str::parse::<f64>);
        let Some(Ok(cpu)) = cpu else {
            return Err(format!("{} {direction} failed", options.transports[which]).into());
        };
        let said = lines.next().unwrap_or_default();
        eprintln!(
            "  {} {direction}: {numbers} s; {said}",
            options.transports[which]
        );
        spent += cpu;
        // Work that is still being finished belongs to this transfer.
        sleep(Duration::from_millis(100));
    }
    let gb = (options.mib << 20) as f64 * 1e-9;
    Ok((spent + service.cpu()? - before) / (2.0 * gb))
}

/// Student's t at 97.5 % for this many degrees of freedom, 3 or more, by the expansion around the normal
/// quantile (Abramowitz and Stegun, 26.7.5). It is accurate to 1 % from 4 on.
fn student(degrees: f64) -> f64 {
    let x: f64 = 1.959_964;
    let g = [
        (x.powi(3) + x) / 4.0,
        (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0,
        (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0,
    ];
    let terms = g.iter().enumerate();
    x + terms
        .map(|(i, g)| g / degrees.powi(i as i32 + 1))
        .sum::<f64>()
}

/// The geometric mean of the ratios, and the ends of its 95 % interval.
fn interval(ratios: &[f64]) -> [f64; 3] {
    let n = ratios.len() as f64;
    let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|l| (l - mean).powi(2)).sum();
    let half = student(n - 1.0) * (squares / (n - 1.0) / n).sqrt();
    [mean, mean - half, mean + half].map(f64::exp)
}

/// Runs `throughput pairs`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = options(args)?;
    if options.pairs < 4 {
        return Err("--pairs: want 4 or more, for an interval".into());
    }
    let services = [Service::start(&options, 0)?, Service::start(&options, 1)?];
    sleep(START);
    let [first, second] = &options.transports;
    println!("| pair | {first}, CPU s/GB | {second}, CPU s/GB | ratio |");
    println!("|---|---|---|---|");
    let mut ratios = Vec::new();
    for pair in 0..options.pairs {
        let mut spent = [0.0; 2];
        // Each transport goes first equally often.
        for turn in 0..2 {
            let which = (pair + turn) % 2;
            spent[which] = measure(&options, which, &services[which])?;
        }
        let ratio = spent[1] / spent[0];
        println!(
            "| {} | {:.3} | {:.3} | {ratio:.3} |",
            pair + 1,
            spent[0],
            spent[1]
        );
        ratios.push(ratio);
    }
    let [mean, low, high] = interval(&ratios);
    println!(
        "{second} takes {mean:.3} of the processor time of {first}, 95 % {low:.3} to {high:.3}: {} pairs of \
         {} MiB each way, {} subflows, a window of {} bytes",
        options.pairs, options.mib, options.subflows, options.window
    );
    Ok(())
}
