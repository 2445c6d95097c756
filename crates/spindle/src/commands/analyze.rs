//! `spindle analyze caps`: what coding costs and gains by the paper's formulas, for the user's own numbers.

mod caps;
mod page;

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

use spindle_mptcp::stage::coding::formulas::{Blocking, Conditions, Units};
use spindle_units::{BitRate, Duration};

use super::{json_on_stdout, print, write_json};
use crate::args::{Analyze, Caps, Formulas};
use crate::failure::Failure;
use caps::{Analysis, Question};

/// The largest window: the packets that a host may have in flight with a rate and round trip far above those
/// that the formulas are for.
const MOST_PACKETS: u32 = 4096;

/// The largest ratio of the packets of long flows to those of short flows.
const MOST_RATIO: f64 = 1e6;

pub(crate) fn analyze(args: &Analyze) -> Result<ExitCode, Failure> {
    let Formulas::Caps(args) = &args.formulas;
    let analysis = Analysis::of(&question(args)?);
    let quiet = json_on_stdout(args.json.as_deref());
    if !quiet {
        print(&analysis.table());
    }
    if let Some(path) = &args.json {
        write_json(path, &analysis)?;
    }
    if let Some(dir) = &args.report {
        let index = page::write(&analysis, dir)?;
        if !quiet {
            print(&format!("report: {}\n", index.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn question(args: &Caps) -> Result<Question, Failure> {
    let window = packets("--window", &args.window, MOST_PACKETS)?;
    let rate: BitRate = read("--rate", &args.rate)?;
    if rate.0 == 0 {
        return Err(wrong(
            "--rate",
            &args.rate,
            "a rate above 0 such as \"1Gbps\"",
        ));
    }
    let conditions = Conditions {
        rate,
        packet: packets("--mss", &args.mss, 65_535)?,
        rtt_short: read::<Duration>("--rtt-short", &args.rtt_short)?,
        rtt_long: read::<Duration>("--rtt-long", &args.rtt_long)?,
    };
    if conditions.rtt_long < conditions.rtt_short {
        let want = format!("no less than --rtt-short, {}", conditions.rtt_short);
        return Err(wrong("--rtt-long", &args.rtt_long, &want));
    }
    let ratio = args.ratio.parse().ok();
    let ratio = ratio.filter(|g| (0.0..=MOST_RATIO).contains(g));
    let ratio = ratio.ok_or_else(|| {
        let want =
            format!("a number from 0 to {MOST_RATIO}, long flows' packets over short flows'");
        wrong("--ratio", &args.ratio, &want)
    })?;
    let shares = args.blocking.split(',').map(|t| read("--blocking", t));
    Ok(Question {
        units: match &args.k {
            Some(list) => ks(list, window)?,
            None => (1..=window).collect(),
        },
        window,
        blocking: shares.collect::<Result<Vec<Blocking>, _>>()?,
        conditions,
        ratio,
        rounding: if args.whole {
            Units::Whole
        } else {
            Units::Fraction
        },
    })
}

/// Parses a list such as `1,4,8..16`. The numbers are sorted, without duplicates.
fn ks(list: &str, window: u32) -> Result<Vec<u32>, Failure> {
    let want = format!("packets of a unit from 1 to the window, {window}, as in 1,4,8..16");
    let one = |text: &str| match text.trim().parse() {
        Ok(k) if (1..=window).contains(&k) => Ok(k),
        _ => Err(wrong("--k", text.trim(), &want)),
    };
    let mut all = Vec::new();
    for part in list.split(',') {
        match part.split_once("..") {
            None => all.push(one(part)?),
            Some((from, to)) => {
                let (from, to) = (one(from)?, one(to.trim_start_matches('='))?);
                if from > to {
                    return Err(wrong(
                        "--k",
                        part.trim(),
                        &format!("{want}, the smaller first"),
                    ));
                }
                all.extend(from..=to);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn packets(flag: &str, text: &str, most: u32) -> Result<u32, Failure> {
    match text.trim().parse() {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(wrong(
            flag,
            text,
            &format!("a whole number from 1 to {most}"),
        )),
    }
}

fn read<T: FromStr<Err: Display>>(flag: &str, text: &str) -> Result<T, Failure> {
    let trimmed = text.trim();
    trimmed
        .parse()
        .map_err(|e: T::Err| Failure::Usage(format!("{flag}: {e}")))
}

fn wrong(flag: &str, found: &str, want: &str) -> Failure {
    Failure::Usage(format!("{flag}: found \"{found}\", want {want}"))
}
