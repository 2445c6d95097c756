//! A queue discipline that sends packets without data first, but not too many of them in a row.

use std::collections::VecDeque;

use spindle_experiment::ExperimentError;
use spindle_experiment::document::Section;
use spindle_fabric::{QueueDiscipline, QueuePort, QueuedPacket, Queueing};

/// The discipline in one line.
pub const SUMMARY: &str = "packets without data are sent first, up to `burst` in a row";

/// Two FIFO queues that share the port's buffer.
#[derive(Debug, Default)]
pub struct AcksFirst {
    burst: u32,
    /// Packets without data that were sent since the last packet with data.
    in_a_row: u32,
    acks: VecDeque<QueuedPacket>,
    data: VecDeque<QueuedPacket>,
}

impl QueueDiscipline for AcksFirst {
    fn admit(&mut self, packet: &mut QueuedPacket, port: &mut QueuePort<'_>) -> bool {
        let fits = port.has_room(packet.wire_len()) || packet.is_exempt();
        fits && port.mark_above_threshold(packet)
    }

    fn push(&mut self, packet: QueuedPacket, _: &mut QueuePort<'_>) {
        match packet.is_data() {
            true => self.data.push_back(packet),
            false => self.acks.push_back(packet),
        }
    }

    fn next(&mut self, _: &mut QueuePort<'_>) -> Option<QueuedPacket> {
        let data_is_due = self.in_a_row >= self.burst && !self.data.is_empty();
        if !data_is_due && let Some(ack) = self.acks.pop_front() {
            self.in_a_row += 1;
            return Some(ack);
        }
        self.in_a_row = 0;
        self.data.pop_front()
    }

    fn len(&self) -> usize {
        self.acks.len() + self.data.len()
    }

    fn clear(&mut self) -> Vec<QueuedPacket> {
        self.acks.drain(..).chain(self.data.drain(..)).collect()
    }
}

/// Reads the key `burst` of `[queue]`. The text of the discipline contains all of its settings.
pub fn read(section: &Section<'_>) -> Result<Queueing, ExperimentError> {
    let burst: u32 = section.or("burst", 8)?;
    if burst == 0 {
        return Err(section.error("burst", "found 0, want 1 or more"));
    }
    let text = format!("acks-first, burst {burst}");
    Ok(Queueing::new(text, move |_| {
        Box::new(AcksFirst {
            burst,
            ..AcksFirst::default()
        })
    }))
}
