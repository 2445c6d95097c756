//! The results of a run from the applications' point of view.

use std::collections::BTreeMap;

use spindle_experiment::metrics::{DeadlinesOfFlows, RunResult, TimersOfFlows};
use spindle_experiment::traffic::Role;
use spindle_mptcp::stage::coding::estimator::Periods;
use spindle_mptcp::{SendCounters, Stack};
use spindle_units::{Duration, Instant};

use super::observe::Observer;
use super::{App, Group, Wake};
use crate::driver::conn::{Class, Conn};
use crate::driver::ids::FlowId;

impl App {
    /// Schedules the time from which flows count.
    pub(super) fn wake_to_count(&mut self, start: Instant) {
        match self.plan.counts_from {
            Duration::ZERO => self.counting = true,
            after => self.wake(start + after, Wake::Count),
        }
    }

    /// Starts to count. Background flows in progress that count do so with what they do from now on.
    pub(super) fn count_from_now(&mut self, now: Instant, stacks: &[Stack]) {
        self.counting = true;
        for (flow, planned) in self.flows.iter_mut().zip(&self.plan.flows) {
            let under_way = flow.issued.is_some() && !flow.over;
            if under_way && planned.is_background() && planned.counted {
                let conn = flow.conns[0].map(|c| &self.conns[c.index()]);
                flow.counts = Some((now, conn.map_or(0, |c| c.arrived(stacks))));
            }
        }
    }

    /// Counts a group of flows that is over.
    pub(super) fn count_group(&mut self, now: Instant, flow: FlowId, group: &Group) {
        let before = self.flows[flow.index()].counts;
        let first = before.map(|(from, _)| from).or(group.first);
        let time = first.map_or(Duration::ZERO, |first| now.since(first));
        let bytes = group.bytes - before.map_or(0, |(_, bytes)| bytes.min(group.bytes));
        let goodput = bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9);
        let r = &mut self.result;
        match (group.role, group.aborted) {
            (Role::Bystander, aborted) => {
                let Some(bystanders) = &mut r.observed.bystanders else {
                    return;
                };
                match aborted {
                    true => bystanders.aborted += 1,
                    false => bystanders.goodput_sum_bps += goodput,
                }
            }
            (Role::Background, true) => r.background.aborted += 1,
            (Role::Background, false) => {
                r.background.completed += 1;
                r.background.goodput_sum_bps += goodput;
                if self.plan.push {
                    r.background.goodput_squares += goodput * goodput;
                }
            }
            (Role::Measured, true) => {
                r.aborted += 1;
                r.given_up += u64::from(group.given_up);
            }
            (Role::Measured, false) => {
                r.completed += 1;
                r.goodput_sum_bps += goodput;
            }
        }
        if group.role == Role::Measured {
            r.flows_with_timeout += u64::from(group.timeouts > 0);
        }
    }

    /// Totals of the sampling periods of the estimators that hosts share (CAPS).
    pub(crate) fn shared_coding_periods(&self) -> Periods {
        let others = self.usage.background.iter().chain(&self.usage.bystander);
        let configs = std::iter::once(&self.usage.config).chain(others);
        let codings = configs.filter_map(|c| c.coding.as_ref());
        let periods = codings.map(|c| c.estimates.shared_periods());
        periods.fold(Periods::default(), Periods::plus)
    }

    /// Bytes of flows that have arrived so far, in order or not, by sender and receiver. Bytes on the second
    /// connection of a request are not included.
    pub(crate) fn arrived(&self, stacks: &[Stack]) -> BTreeMap<(u32, u32), u64> {
        let mut all = BTreeMap::new();
        for conn in self.conns.iter().filter(|c| c.class != Class::Replica) {
            let (ends, bytes) = match self.plan.push {
                true => ((conn.client_host, conn.server_host), conn.arrived(stacks)),
                false => (
                    (conn.server_host, conn.client_host),
                    conn.responses.received,
                ),
            };
            *all.entry(ends).or_default() += bytes;
        }
        all
    }

    /// The run's result without the simulation engine's own numbers.
    pub(crate) fn result(&self, stacks: &[Stack]) -> RunResult {
        self.measured
            .clone()
            .unwrap_or_else(|| self.measure_result(stacks))
    }

    pub(super) fn measure_result(&self, stacks: &[Stack]) -> RunResult {
        let mut result = self.result.clone();
        result.fct_ns = self.completion_times(Role::Measured);
        if let Some(bystanders) = &mut result.observed.bystanders {
            bystanders.fct_ns = self.completion_times(Role::Bystander);
        }
        if self.plan.cuts_off() {
            self.count_what_goes_on(&mut result, stacks);
        }
        if let Some(deadline) = self.plan.message.and_then(|m| m.deadline) {
            let late = |ns: &&u64| **ns > deadline.as_nanos();
            let met = result.fct_ns.len() - result.fct_ns.iter().filter(late).count();
            let flows = result.flows - result.cut_off;
            result.observed.deadlines = Some(DeadlinesOfFlows {
                flows,
                missed: flows.saturating_sub(met as u64),
            });
        }
        if self.plan.observe.timers {
            result.observed.timers = Some(self.timers(stacks));
        }
        let mut waited_for = 0;
        let mut all = 0;
        for conn in &self.conns {
            result.bytes_corrupted += conn.responses.corrupted;
            if matches!(conn.class, Class::Background | Class::Bystander) || !conn.counted {
                continue;
            }
            let now = conn.totals(stacks);
            let since = |f: fn(&SendCounters) -> u64| f(&now).saturating_sub(f(&conn.base));
            let spent = conn.spent(&now, &conn.base);
            result.payload_bytes += spent.payload;
            result.extra_bytes += spent.extra;
            let (sum, count) = conn.flow_extra(&now);
            result.flow_extra_sum += sum;
            result.flow_extra_count += count;
            result.fast_retransmits += since(|c| c.fast_retransmits);
            result.spurious_retransmits += since(|c| c.spurious_retransmits);
            all += since(|c| c.timeouts);
            waited_for += conn.timeouts_waited_for(conn.timeouts(stacks));
        }
        result.recovery = self.observer.as_ref().map(Observer::result);
        if self.plan.observe.sizes {
            let flows = self.plan.flows.iter();
            let foreground = flows.filter(|f| f.counted && f.role == Role::Measured);
            result.sizes = foreground.map(|f| f.bytes).collect();
        }
        result.timeouts = waited_for;
        result.late_timeouts = all.saturating_sub(waited_for);
        result
    }

    /// Counts the flows that the end of the run cut off. The goodput of a background flow uses what had
    /// arrived.
    fn count_what_goes_on(&self, result: &mut RunResult, stacks: &[Stack]) {
        let end = self.ended.unwrap_or(Instant::ZERO);
        for (flow, planned) in self.flows.iter().zip(&self.plan.flows) {
            let (Some(issued), false, true) = (flow.issued, flow.over, planned.counted) else {
                continue;
            };
            match (planned.role, &mut result.observed.bystanders) {
                (Role::Measured, _) => result.cut_off += 1,
                (Role::Bystander, Some(bystanders)) => bystanders.cut_off += 1,
                (Role::Bystander, None) | (Role::Background, _) => {}
            }
            if planned.role != Role::Background {
                continue;
            }
            let conn = flow.conns[0].map(|c| &self.conns[c.index()]);
            let (from, bytes) = match flow.counts {
                None => (issued, conn.map_or(0, Conn::uploaded)),
                // There may be holes now, or there were at that time. Data beyond a hole counts as arrived.
                Some((from, before)) => {
                    let arrived = conn.map_or(0, |c| c.arrived(stacks));
                    (from, arrived.saturating_sub(before))
                }
            };
            let goodput = bytes as f64 * 8.0 / end.since(from).as_secs_f64().max(1e-9);
            result.background.completed += 1;
            result.background.goodput_sum_bps += goodput;
            result.background.goodput_squares += goodput * goodput;
        }
    }

    /// How many timers fired, and how often fast recovery began, for each flow of the transport under test. Flows
    /// that the end of the run cut off are included.
    fn timers(&self, stacks: &[Stack]) -> TimersOfFlows {
        let mut timers = TimersOfFlows::default();
        for (flow, planned) in self.flows.iter().zip(&self.plan.flows) {
            if planned.role != Role::Measured || !planned.counted || flow.issued.is_none() {
                continue;
            }
            let own = flow.conns.into_iter().flatten();
            let totals = own.map(|c| self.conns[c.index()].totals(stacks));
            let counts = totals.fold((0, 0), |sum, t| {
                (sum.0 + t.timeouts, sum.1 + t.fast_retransmits)
            });
            timers.add(
                counts.0.saturating_sub(flow.base_timeouts),
                counts.1.saturating_sub(flow.base_retransmits),
            );
        }
        timers
    }

    /// Completion times of the complete groups with this role, in the order of issue.
    fn completion_times(&self, role: Role) -> Vec<u64> {
        let mut last = vec![None::<Instant>; self.groups.len()];
        for (flow, planned) in self.flows.iter().zip(&self.plan.flows) {
            let at = &mut last[planned.group as usize];
            *at = (*at).max(flow.completed);
        }
        self.groups
            .iter()
            .zip(last)
            .filter(|(g, _)| g.left == 0 && g.counted && !g.aborted && g.role == role)
            .filter_map(|(g, last)| Some(last?.since(g.first?).as_nanos()))
            .collect()
    }
}
