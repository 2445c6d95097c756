//! Single flows of one run, as in `spindle trace`.

use pyo3::prelude::*;
use spindle_experiment::flow_trace::{FlowEventKind, FlowTrace};
use spindle_lab::driver::{self, RunError, RunOutput, RunRequest};

use crate::errors;
use crate::experiment::Experiment;
use crate::interrupt::{Stop, interruptible};
use crate::names::REGISTRY;
use crate::tables::{Columns, Table};

/// One run of an experiment's first transport: its point, seed, part and of how many parts.
type Run = (usize, u64, u64, u64);

fn make<T: Send>(
    py: Python<'_>,
    experiment: &Experiment,
    (point, seed, part, parts): Run,
    flow: Option<u32>,
    take: impl FnOnce(RunOutput, &RunRequest<'_>) -> T + Send,
) -> PyResult<T> {
    let read = experiment.read();
    let scenario = read.points.get(point).map(|p| &p.scenario);
    let (Some(scenario), Some(transport)) = (scenario, read.transports.first()) else {
        let last = read.points.len().saturating_sub(1);
        let text = format!("found point {point}, want 0 to {last}");
        return Err(errors::unknown_name(&text));
    };
    if part >= parts {
        let text = format!("found part {part} of {parts}, want 0 to below {parts}");
        return Err(errors::unknown_name(&text));
    }
    let stop = Stop::default();
    let flag = stop.flag();
    let work = || -> Result<T, RunError> {
        let request = RunRequest {
            seed,
            part,
            parts,
            record: flow,
            count_losses: flow.is_none(),
            stop: Some(stop.flag()),
            ..RunRequest::new(scenario, transport, &REGISTRY)
        };
        Ok(take(driver::run(&request)?, &request))
    };
    interruptible(py, &flag, work)?.map_err(|e| errors::run(&e))
}

/// Every flow of a run in the order of arrival.
#[pyfunction]
pub(crate) fn flows(
    py: Python<'_>,
    experiment: &Experiment,
    run: Run,
) -> PyResult<(Table, Vec<usize>)> {
    let output = make(py, experiment, run, None, |output, _| output)?;
    let flows = || output.flows.iter();
    let columns = Columns::default()
        .whole("flow", "", (0..output.flows.len()).map(|n| Some(n as u64)))
        .whole("bytes", "B", flows().map(|f| Some(f.bytes)))
        .whole("fct", "ns", flows().map(|f| f.fct_ns))
        .whole("losses", "", flows().map(|f| Some(f.losses)))
        .whole("timeouts", "", flows().map(|f| Some(f.timeouts)))
        .whole("recoveries", "", flows().map(|f| Some(f.recoveries)))
        .flag("background", flows().map(|f| f.background));
    Ok((columns.table()?, output.slowest()))
}

/// One flow of a run, event by event.
#[pyfunction]
pub(crate) fn trace(
    py: Python<'_>,
    experiment: &Experiment,
    run: Run,
    flow: u32,
) -> PyResult<Trace> {
    let (traced, flows) = make(py, experiment, run, Some(flow), |output, request| {
        (output.trace(request), output.flows.len())
    })?;
    traced.map(Trace).ok_or_else(|| {
        let text = match (flow as usize) < flows {
            true => format!("flow {flow} did not complete; choose another"),
            false => format!("found flow {flow}, want 0 to {}", flows.saturating_sub(1)),
        };
        errors::unknown_name(&text)
    })
}

/// What happened to one flow.
#[pyclass(frozen, module = "spindle._native")]
pub(crate) struct Trace(FlowTrace);

#[pymethods]
impl Trace {
    #[getter]
    fn transport(&self) -> &str {
        &self.0.transport
    }

    #[getter]
    fn number(&self) -> u32 {
        self.0.number
    }

    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    #[getter]
    fn subflows(&self) -> u8 {
        self.0.subflows
    }

    #[getter]
    fn completion_ns(&self) -> u64 {
        self.0.completion_time().as_nanos()
    }

    /// A line for each event.
    #[getter]
    fn text(&self) -> String {
        self.0.to_text()
    }

    /// A row for each event.
    fn events(&self) -> PyResult<Table> {
        let events = || self.0.events.iter();
        let window = |kind: &FlowEventKind| match kind {
            FlowEventKind::Window { cwnd, in_flight } => Some((*cwnd, *in_flight)),
            _ => None,
        };
        Columns::default()
            .whole(
                "time",
                "ns",
                events().map(|e| Some(e.at.since(self.0.issued).as_nanos())),
            )
            .whole("subflow", "", events().map(|e| Some(u64::from(e.subflow))))
            .text("kind", events().map(|e| Some(kind(&e.kind))))
            .text("event", events().map(|e| Some(e.kind.to_string())))
            .whole("offset", "B", events().map(|e| Some(e.dsn)))
            .whole("length", "B", events().map(|e| Some(u64::from(e.len))))
            .whole("cwnd", "B", events().map(|e| window(&e.kind).map(|w| w.0)))
            .whole(
                "in_flight",
                "B",
                events().map(|e| window(&e.kind).map(|w| w.1)),
            )
            .text("note", events().map(|e| Some(e.note.as_str())))
            .table()
    }
}

/// The name of an event's kind.
const fn kind(kind: &FlowEventKind) -> &'static str {
    match kind {
        FlowEventKind::New => "send",
        FlowEventKind::Retransmission => "retransmit",
        FlowEventKind::Recovery { .. } => "recover",
        FlowEventKind::Parity { .. } => "parity",
        FlowEventKind::Probe => "probe",
        FlowEventKind::Lost { .. } => "lost",
        FlowEventKind::ParityLost { .. } => "parity-lost",
        FlowEventKind::Arrived => "arrived",
        FlowEventKind::ParityArrived => "parity-arrived",
        FlowEventKind::Decoded => "decoded",
        FlowEventKind::AckedData => "data-ack",
        FlowEventKind::Rto => "timeout",
        FlowEventKind::FastRetransmit => "fast-retransmit",
        FlowEventKind::Window { .. } => "window",
    }
}
