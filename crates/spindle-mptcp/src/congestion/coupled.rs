//! The common part of the coupled controllers: Reno, except that the increase depends on all subflows of the
//! connection. In some controllers the decrease depends on them, too.

use std::fmt::Debug;
use std::marker::PhantomData;

use spindle_units::Instant;

use super::reno::L;
use super::window::{MIN_SSTHRESH_SEGMENTS, Window};
use super::{AckSample, Congestion, Coupling, CouplingRow, Parameters, Signal};
use crate::types::SubflowPosition;

/// The part in which coupled controllers differ. It is used only while at least two subflows are active,
/// including this one. A single subflow behaves like Reno.
pub(super) trait Rule: Debug + Send + 'static {
    /// The lowest ssthresh, in segments.
    const FLOOR: u64;

    /// The increase of subflow `me` in congestion avoidance, as a multiple of Reno's, which is MSS * acked /
    /// cwnd.
    fn increase(coupling: &Coupling, me: usize) -> f64;

    /// ssthresh of subflow `me` in bytes after a loss with `in_flight` bytes outstanding.
    fn decrease(_coupling: &Coupling, _me: usize, in_flight: u64) -> u64 {
        in_flight / 2
    }
}

/// A coupled controller. Slow start, the response to a timeout and the bounds are RFC 5681's
/// (RFC 6356, section 3).
#[derive(Clone, Debug)]
pub(super) struct Coupled<R> {
    window: Window,
    subflow: usize,
    /// The last computed value of [`Rule::increase`].
    increase: f64,
    /// How long that value is valid: the next byte to be sent when it was computed, and the coupling's epoch
    /// (RFC 6356, section 4.1, computes alpha once per window or after a loss).
    window_end: SubflowPosition,
    epoch: Option<u64>,
    rule: PhantomData<R>,
}

impl<R: Rule> Coupled<R> {
    /// A controller in slow start.
    pub(super) fn new(p: &Parameters) -> Self {
        Self {
            window: Window::new(p),
            subflow: p.subflow,
            increase: 1.0,
            window_end: SubflowPosition::SYN,
            epoch: None,
            rule: PhantomData,
        }
    }

    fn increase(&mut self, s: &AckSample, coupling: &Coupling) -> f64 {
        if self.epoch != Some(coupling.epoch()) || s.acked_to >= self.window_end {
            self.increase = if self.alone(coupling) {
                1.0
            } else {
                R::increase(coupling, self.subflow)
            };
            self.epoch = Some(coupling.epoch());
            self.window_end = s.next;
        }
        self.increase
    }

    fn alone(&self, coupling: &Coupling) -> bool {
        let takes_part = coupling.rows().get(self.subflow).is_some_and(|r| r.active);
        !takes_part || coupling.active().nth(1).is_none()
    }

    fn floor(&self, coupling: &Coupling) -> u64 {
        if self.alone(coupling) {
            MIN_SSTHRESH_SEGMENTS
        } else {
            R::FLOOR
        }
    }
}

impl<R: Rule> Congestion for Coupled<R> {
    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn on_ack(&mut self, sample: &AckSample, coupling: &mut Coupling) {
        let before = self.window.coupled_cwnd(sample.recovering);
        coupling.update(self.subflow, before, sample.srtt);
        coupling.count_acked(self.subflow, sample.acked);
        if self.window.may_grow(sample) {
            let rest = self.window.slow_start(sample.acked, L);
            if rest > 0 {
                let increase = self.increase(sample, coupling);
                self.window.congestion_avoidance(rest as f64 * increase);
            }
            let after = self.window.coupled_cwnd(sample.recovering);
            if after != before {
                coupling.update(self.subflow, after, None);
            }
        }
    }

    fn on_signal(&mut self, _: Instant, in_flight: u64, _: Signal, coupling: &mut Coupling) {
        coupling.update(self.subflow, self.window.coupled_cwnd(false), None);
        let ssthresh = if self.alone(coupling) {
            in_flight / 2
        } else {
            R::decrease(coupling, self.subflow, in_flight)
        };
        self.window.reduce(ssthresh, self.floor(coupling));
        coupling.count_loss(self.subflow);
        coupling.update(self.subflow, self.window.cwnd(), None);
    }

    fn on_timeout(&mut self, _: Instant, in_flight: u64, first: bool, coupling: &mut Coupling) {
        self.window
            .timeout(in_flight / 2, self.floor(coupling), first);
        if first {
            coupling.count_loss(self.subflow);
        }
        coupling.update(self.subflow, self.window.cwnd(), None);
    }
}

/// A row in the units of the formulas.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathState {
    /// cwnd in bytes.
    pub(super) w: f64,
    /// Round-trip time in seconds, above zero.
    pub(super) rtt: f64,
    /// OLIA's l in bytes.
    pub(super) l: f64,
}

impl PathState {
    /// w / rtt in bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.w / self.rtt
    }
}

/// The active rows, and the conversion of any row to the units of the formulas. A subflow whose round-trip time
/// is not yet measured uses the shortest measured round-trip time. If no round-trip time is measured, all
/// subflows count as equal.
pub(super) struct Paths<'a> {
    coupling: &'a Coupling,
    shortest: f64,
}

impl<'a> Paths<'a> {
    pub(super) fn new(coupling: &'a Coupling) -> Self {
        let shortest = coupling.active().filter_map(|r| r.srtt).min();
        Self {
            coupling,
            shortest: shortest.map_or(1.0, |d| d.as_nanos().max(1) as f64 * 1e-9),
        }
    }

    /// All active subflows.
    pub(super) fn all(&self) -> impl Iterator<Item = PathState> {
        self.coupling.active().map(|r| self.state(r))
    }

    /// Subflow `me`.
    pub(super) fn one(&self, me: usize) -> PathState {
        self.state(&self.coupling.rows()[me])
    }

    /// The sum of the rates.
    pub(super) fn total_rate(&self) -> f64 {
        self.all().map(|p| p.rate()).sum()
    }

    fn state(&self, r: &CouplingRow) -> PathState {
        let rtt = r
            .srtt
            .map_or(self.shortest, |d| d.as_nanos().max(1) as f64 * 1e-9);
        PathState {
            w: r.cwnd as f64,
            rtt,
            l: r.between_losses() as f64,
        }
    }
}

/// `a / b`, or `otherwise` if that is not finite (a connection whose windows are all zero).
pub(super) fn ratio(a: f64, b: f64, otherwise: f64) -> f64 {
    let q = a / b;
    if q.is_finite() { q } else { otherwise }
}

#[cfg(test)]
impl<R: Rule> super::tests::Path<Coupled<R>> {
    /// The multiple of Reno's increase that is in use.
    pub(super) fn increase(&self) -> f64 {
        self.cc.increase
    }
}
