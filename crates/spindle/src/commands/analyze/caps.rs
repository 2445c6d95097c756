//! Evaluates the formulas. The result is a table or JSON.

use std::fmt::Write as _;

use serde::Serialize;
use spindle_experiment::metrics::show_us;
use spindle_mptcp::stage::coding::formulas::{
    Blocking, Conditions, Units, optimal_unit, overhead, overhead_unrounded, unblocked,
};
use spindle_units::Duration;

/// The input of an analysis.
pub(super) struct Question {
    /// Sizes of units.
    pub(super) units: Vec<u32>,
    /// Packets of the window, w.
    pub(super) window: u32,
    /// Shares of blocked packets, p_B.
    pub(super) blocking: Vec<Blocking>,
    pub(super) conditions: Conditions,
    /// Packets of long flows over those of short flows, g.
    pub(super) ratio: f64,
    pub(super) rounding: Units,
}

/// The result of an analysis.
#[derive(Debug, Serialize)]
pub(super) struct Analysis {
    pub(super) window: u32,
    pub(super) rate_bps: u64,
    pub(super) mss: u32,
    pub(super) rtt_short_us: f64,
    pub(super) rtt_long_us: f64,
    pub(super) ratio: f64,
    /// Whether a window counts as whole units only.
    pub(super) whole_units: bool,
    pub(super) blocking: Vec<OfShare>,
}

/// The result for one share of blocked packets.
#[derive(Debug, Serialize)]
pub(super) struct OfShare {
    /// The share, 0 to 0.99.
    pub(super) p_b: f64,
    /// The share as text.
    #[serde(skip)]
    pub(super) shown: String,
    /// The k from 1 to the window with the smallest d_w.
    pub(super) optimal_k: u32,
    /// The d_w of this k.
    pub(super) optimal_d_w_us: f64,
    /// The window's mean time without coding (equation 5).
    pub(super) d_wnc_us: f64,
    /// The overhead of redundancy that is not rounded up to whole packets (equation 7).
    pub(super) eta_unrounded: f64,
    pub(super) units: Vec<OfUnit>,
}

/// The result for one size of units.
#[derive(Debug, Serialize)]
pub(super) struct OfUnit {
    pub(super) k: u32,
    /// Redundant packets.
    pub(super) r: u32,
    /// Probability that a unit passes unblocked (equation 2).
    pub(super) p_s: f64,
    /// Mean wait for the rest of a unit (equation 3).
    pub(super) d_b_us: f64,
    /// Mean time of the window (equation 4).
    pub(super) d_w_us: f64,
    /// Overhead over all traffic (equation 7).
    pub(super) eta: f64,
}

fn us(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e3
}

impl Analysis {
    pub(super) fn of(question: &Question) -> Self {
        let c = &question.conditions;
        Self {
            window: question.window,
            rate_bps: c.rate.0,
            mss: c.packet,
            rtt_short_us: us(c.rtt_short),
            rtt_long_us: us(c.rtt_long),
            ratio: question.ratio,
            whole_units: question.rounding == Units::Whole,
            blocking: question
                .blocking
                .iter()
                .map(|b| share(question, *b))
                .collect(),
        }
    }

    /// A table for each share; the optimal k has an asterisk.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for share in &self.blocking {
            let _ = writeln!(
                text,
                "p_B {}: a window of {} packets takes {} without coding (d_wnc), {} with units of {} \
                 (the optimum)",
                share.shown,
                self.window,
                show_us(share.d_wnc_us),
                show_us(share.optimal_d_w_us),
                share.optimal_k,
            );
            let _ = writeln!(
                text,
                "{:>5}  {:>5} {:>9} {:>10} {:>10} {:>8}",
                "k", "r", "p_S", "d_B", "d_w", "eta"
            );
            for u in &share.units {
                let mark = if u.k == share.optimal_k { '*' } else { ' ' };
                let _ = writeln!(
                    text,
                    "{:>5}{mark} {:>5} {:>9.5} {:>10} {:>10} {:>7.3}%",
                    u.k,
                    u.r,
                    u.p_s,
                    show_us(u.d_b_us),
                    show_us(u.d_w_us),
                    u.eta * 100.0
                );
            }
            let _ = writeln!(
                text,
                "eta {:.3}% with redundancy not rounded up to whole packets\n",
                share.eta_unrounded * 100.0
            );
        }
        text
    }
}

fn share(question: &Question, blocking: Blocking) -> OfShare {
    let (w, c) = (question.window, &question.conditions);
    let optimal_k = optimal_unit(w, blocking, c, question.rounding);
    OfShare {
        p_b: blocking.get(),
        shown: blocking.to_string(),
        optimal_k,
        optimal_d_w_us: unit(question, blocking, optimal_k).d_w_us,
        d_wnc_us: us(c.uncoded_delay(w, blocking)),
        eta_unrounded: overhead_unrounded(blocking, question.ratio),
        units: question
            .units
            .iter()
            .map(|k| unit(question, blocking, *k))
            .collect(),
    }
}

fn unit(question: &Question, blocking: Blocking, k: u32) -> OfUnit {
    let c = &question.conditions;
    let r = blocking.redundancy(k);
    let p_s = unblocked(k, r, blocking);
    OfUnit {
        k,
        r,
        p_s,
        d_b_us: us(c.buffering_delay(k)),
        d_w_us: us(c.coded_delay(question.window, k, p_s, question.rounding)),
        eta: overhead(k, r, question.ratio),
    }
}
