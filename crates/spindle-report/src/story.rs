//! A flow's notable events in words.

use spindle_experiment::flow_trace::{FlowEvent, FlowEventKind, FlowTrace};

use super::format::micros;

/// The largest number of events that are listed.
const MOST_TOLD: usize = 24;

/// Time and text of each notable event, and the number of events left out.
pub(crate) fn lines(trace: &FlowTrace) -> (Vec<(String, String)>, usize) {
    let origin = trace
        .events
        .iter()
        .find(|e| e.kind == FlowEventKind::New)
        .map_or(0, |e| e.dsn);
    let since = |at: spindle_units::Instant| micros(at.since(trace.issued).as_nanos() as f64 / 1e3);
    let mut out: Vec<(String, String)> = Vec::new();
    let mut more = 0;
    let mut done = false;
    for e in &trace.events {
        if !done && e.at > trace.completed {
            done = true;
            out.push((
                since(trace.completed),
                "the last byte is there: done".to_owned(),
            ));
        }
        let Some(text) = tell(e, origin) else {
            continue;
        };
        if out.len() < MOST_TOLD {
            out.push((since(e.at), text));
        } else {
            more += 1;
        }
    }
    if out.is_empty() && more == 0 {
        return (out, 0);
    }
    if !done {
        out.push((
            since(trace.completed),
            "the last byte is there: done".to_owned(),
        ));
    }
    (out, more)
}

fn tell(e: &FlowEvent, origin: u64) -> Option<String> {
    let first = e.dsn.wrapping_sub(origin) as i64;
    let range = format!("bytes {first} to {}", i128::from(first) + i128::from(e.len));
    let text = match &e.kind {
        FlowEventKind::Lost { link } => format!("{range} lost on subflow {} at {link}", e.subflow),
        FlowEventKind::Recovery { copy_of_subflow } => {
            format!(
                "{range} of subflow {copy_of_subflow} copied on subflow {}",
                e.subflow
            )
        }
        FlowEventKind::ParityLost { link } => {
            format!("parity of {range} lost on subflow {} at {link}", e.subflow)
        }
        FlowEventKind::Parity {
            of_subflow,
            packets,
            again,
        } => {
            let again = if *again { " again" } else { "" };
            format!(
                "parity of {packets} packets of subflow {of_subflow}, {range}, sent{again} on subflow {}",
                e.subflow
            )
        }
        FlowEventKind::Decoded => format!("{range} of subflow {} told from parities", e.subflow),
        FlowEventKind::Retransmission => format!("{range} retransmitted on subflow {}", e.subflow),
        FlowEventKind::Probe => format!("loss probe on subflow {}: {range}", e.subflow),
        FlowEventKind::Rto => format!("timeout on subflow {}", e.subflow),
        FlowEventKind::FastRetransmit => {
            format!("subflow {} finds {range} lost without a timeout", e.subflow)
        }
        FlowEventKind::New
        | FlowEventKind::Arrived
        | FlowEventKind::ParityArrived
        | FlowEventKind::AckedData
        | FlowEventKind::Window { .. } => return None,
    };
    Some(if e.note.is_empty() {
        text
    } else {
        format!("{text} ({})", e.note)
    })
}
