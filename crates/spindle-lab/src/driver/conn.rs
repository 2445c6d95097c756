//! One request/response connection as the application at both ends sees it.

use std::collections::VecDeque;

use bytes::Bytes;
use spindle_mptcp::recovery::MessageHints;
use spindle_mptcp::{Handle, SendCounters, Stack};
use spindle_units::Instant;
use spindle_wire::Payload;

use super::ids::{FlowId, Transfer};

/// The content of responses.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Lengths only.
    Length,
    /// These bytes, repeated: byte n of a connection's responses is byte n modulo the length.
    Bytes(Bytes),
}

impl Content {
    /// `len` bytes (or fewer) from stream offset `offset` on.
    fn piece(&self, offset: u64, len: u64) -> Payload {
        // Writes are limited to one megabyte. A response larger than the buffer is written in parts anyway.
        let len = len.min(1 << 20);
        match self {
            Self::Length => Payload::Length(len as u32),
            Self::Bytes(all) => {
                let start = (offset % all.len() as u64) as usize;
                let end = all.len().min(start + len as usize);
                Payload::Bytes(all.slice(start..end))
            }
        }
    }

    /// Number of bytes of `found`, received from stream offset `offset` on, that differ from what was sent.
    fn differences(&self, offset: u64, found: &Payload) -> u64 {
        match (self, found) {
            (Self::Length, _) => 0,
            (Self::Bytes(_), Payload::Length(n)) => u64::from(*n),
            (Self::Bytes(all), Payload::Bytes(found)) => {
                let mut at = (offset % all.len() as u64) as usize;
                let mut wrong = 0;
                let mut rest = &found[..];
                while !rest.is_empty() {
                    let n = rest.len().min(all.len() - at);
                    if rest[..n] != all[at..at + n] {
                        let pairs = rest[..n].iter().zip(&all[at..at + n]);
                        wrong += pairs.filter(|(a, b)| a != b).count() as u64;
                    }
                    rest = &rest[n..];
                    at = 0;
                }
                wrong
            }
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Requests by the transport under test.
    First,
    /// Repeated requests: the second connection of a replicating transport.
    Replica,
    /// Background traffic.
    Background,
    /// Requests by the bystanders' transport.
    Bystander,
}

/// Payload bytes sent, and how many of them are extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) payload: u64,
    pub(crate) extra: u64,
}

/// A connection between a client and a server host.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) client_host: u32,
    pub(crate) server_host: u32,
    pub(crate) client: Handle,
    pub(crate) server: Option<Handle>,
    pub(crate) class: Class,
    /// Whether what the connection sends is part of the result.
    pub(crate) counted: bool,
    /// The code point of what both ends send.
    pub(crate) dscp: u8,
    pub(crate) connected: bool,
    /// Number of further subflows that are established.
    pub(crate) joined: usize,
    pub(crate) dead: bool,
    /// One end gave the connection up, because nothing arrived from the other end for as long as it tries.
    pub(crate) given_up: bool,
    /// The flow to request once the connection, or all its subflows, are established.
    pub(crate) to_ask: Option<FlowId>,
    /// Whether a client that waits for its joins has sent the data that makes them possible.
    pub(crate) greeted: bool,
    /// Whether all subflows took part in the warm-up.
    pub(crate) warmed_whole: bool,
    requests: Requests,
    pub(crate) responses: Responses,
    /// Totals at the start of the measurement.
    pub(crate) base: SendCounters,
    measured: Measured,
}

/// The stream from the client to the server: requests, or transfers.
#[derive(Debug, Default)]
struct Requests {
    /// Transfers that have not arrived completely: the flow, and its end in the stream.
    uploads: VecDeque<(FlowId, u64)>,
    /// The end of the last transfer in the stream.
    upload_end: u64,
    /// Bytes that the client has not passed to its stack.
    left: u64,
    /// Bytes that the server has read, without those of requests that it has started to answer.
    read: u64,
}

/// The stream from the server to the client.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    /// Requests that are not answered yet, and the end of each response in the stream.
    pub(crate) waiting: VecDeque<(Transfer, u64)>,
    /// Sizes of the responses that the server has not started, and what it says about them.
    answers: VecDeque<(u64, Option<MessageHints>)>,
    /// The end of the last requested response in the stream.
    end: u64,
    /// Bytes of started responses that the server has not passed to its stack.
    left: u64,
    /// Bytes that the server has passed to its stack.
    sent: u64,
    /// Bytes that the client has read.
    pub(crate) received: u64,
    /// Bytes that the client has read and that differ from those sent.
    pub(crate) corrupted: u64,
}

/// What was measured on a connection.
#[derive(Debug)]
struct Measured {
    /// Totals at the start of the last measured flow that found the connection idle, if any.
    flow_base: Option<SendCounters>,
    /// Extra shares of all flows so far: their sum and their number.
    flow_extra: (f64, u64),
    /// The last totals of an end that no longer exists.
    last: [SendCounters; 2],
    /// Number of flows that are being measured on the connection now.
    busy: u32,
    /// Number of timeouts when the first of these flows started.
    busy_base: u64,
    /// Number of timeouts in earlier periods with measured flows.
    in_window: u64,
}

impl Conn {
    pub(crate) fn new(client_host: u32, server_host: u32, client: Handle, class: Class) -> Self {
        Self {
            client_host,
            server_host,
            client,
            server: None,
            class,
            counted: true,
            dscp: 0,
            connected: false,
            joined: 0,
            dead: false,
            given_up: false,
            to_ask: None,
            greeted: false,
            warmed_whole: false,
            requests: Requests::default(),
            responses: Responses::default(),
            base: SendCounters::default(),
            measured: Measured {
                flow_base: None,
                flow_extra: (0.0, 0),
                last: [SendCounters::default(); 2],
                busy: 0,
                busy_base: 0,
                in_window: 0,
            },
        }
    }

    /// Makes both ends mark what they send. The server's end is skipped if it does not exist yet.
    pub(crate) fn tag(&self, stacks: &mut [Stack]) {
        stacks[self.client_host as usize].set_dscp(self.client, self.dscp);
        if let Some(server) = self.server {
            stacks[self.server_host as usize].set_dscp(server, self.dscp);
        }
    }

    /// Records that the client requests `bytes` bytes for `transfer` with a request of `request` bytes. The
    /// server gives its stack the `hints` when it starts to answer.
    pub(crate) fn ask(
        &mut self,
        transfer: Transfer,
        request: u64,
        (bytes, hints): (u64, Option<MessageHints>),
    ) {
        let responses = &mut self.responses;
        responses.end += bytes;
        responses.waiting.push_back((transfer, responses.end));
        responses.answers.push_back((bytes, hints));
        self.requests.left += request;
    }

    /// Records that the client sends `bytes` bytes for `flow`, without a response.
    pub(crate) fn upload(&mut self, flow: FlowId, bytes: u64) {
        let requests = &mut self.requests;
        requests.upload_end += bytes;
        requests.uploads.push_back((flow, requests.upload_end));
        requests.left += bytes;
    }

    /// Whether no flow waits on the connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.responses.waiting.is_empty() && self.requests.uploads.is_empty()
    }

    /// Removes and returns what waits on the connection, which no longer exists.
    pub(crate) fn take_waiting(&mut self) -> Vec<Transfer> {
        let uploads = self.requests.uploads.drain(..).map(|(flow, _)| flow);
        let flows = uploads.chain(self.to_ask.take()).map(Transfer::Flow);
        let waiting = self.responses.waiting.drain(..).map(|(of, _)| of);
        waiting.chain(flows).collect()
    }

    /// Bytes of transfers that the server has read.
    pub(crate) fn uploaded(&self) -> u64 {
        self.requests.read
    }

    /// Bytes that have arrived at the server, in order or not.
    pub(crate) fn arrived(&self, stacks: &[Stack]) -> u64 {
        let server = self.server.map(|h| (&stacks[self.server_host as usize], h));
        let info = server.and_then(|(stack, h)| stack.info(h));
        info.map_or(self.requests.read, |i| {
            i.data.bytes_received.max(self.requests.read)
        })
    }

    /// Passes to the client's stack as much of the requests as it accepts.
    pub(crate) fn push_request(&mut self, now: Instant, stack: &mut Stack) {
        if self.requests.left > 0 {
            stack.message_ends_after(self.client, self.requests.left);
        }
        while self.requests.left > 0 && !self.dead {
            let len = self.requests.left.min(1 << 20) as u32;
            match stack.send(now, self.client, Payload::Length(len)) {
                Ok(0) => return,
                Ok(n) => self.requests.left -= n as u64,
                Err(_) => self.dead = true,
            }
        }
    }

    /// Reads requests at the server and passes to its stack as much of the responses as it accepts. Transfers
    /// that have arrived are added to `done`.
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        request: u64,
        content: &Content,
        done: &mut Vec<Transfer>,
    ) {
        let (requests, responses) = (&mut self.requests, &mut self.responses);
        let Some(server) = self.server else { return };
        while let Ok(Some(piece)) = stack.recv(now, server, usize::MAX) {
            requests.read += piece.len() as u64;
        }
        let arrived = requests.read;
        while let Some((flow, _)) = requests.uploads.pop_front_if(|(_, end)| *end <= arrived) {
            done.push(Transfer::Flow(flow));
        }
        while requests.read >= request {
            let Some((bytes, hints)) = responses.answers.pop_front() else {
                break;
            };
            if let Some(hints) = hints {
                stack.set_message(server, hints);
            }
            requests.read -= request;
            responses.left += bytes;
            stack.message_ends_after(server, responses.left);
        }
        while responses.left > 0 {
            let piece = content.piece(responses.sent, responses.left);
            match stack.send(now, server, piece) {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    responses.left -= n as u64;
                    responses.sent += n as u64;
                }
            }
        }
    }

    /// Whether the server has passed all requested data to its stack.
    pub(crate) fn is_answered(&self) -> bool {
        self.responses.sent == self.responses.end
    }

    /// Reads responses at the client. The transfers whose last byte has arrived are added to `done`.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        content: &Content,
        done: &mut Vec<Transfer>,
    ) {
        let responses = &mut self.responses;
        while let Ok(Some(piece)) = stack.recv(now, self.client, usize::MAX) {
            responses.corrupted += content.differences(responses.received, &piece);
            responses.received += piece.len() as u64;
        }
        let received = responses.received;
        while let Some((of, _)) = responses.waiting.pop_front_if(|(_, end)| *end <= received) {
            done.push(of);
        }
    }

    /// Sending totals of both ends. For an end that no longer exists, the totals that were last recorded.
    pub(crate) fn totals(&self, stacks: &[Stack]) -> SendCounters {
        let [client, server] = self.ends(stacks);
        sum(&client, &server)
    }

    fn ends(&self, stacks: &[Stack]) -> [SendCounters; 2] {
        let client = stacks[self.client_host as usize].totals(self.client);
        let server = self
            .server
            .and_then(|h| stacks[self.server_host as usize].totals(h));
        [
            client.unwrap_or(self.measured.last[0]),
            server.unwrap_or(self.measured.last[1]),
        ]
    }

    /// Records the totals, for the time when an end no longer exists.
    pub(crate) fn note_totals(&mut self, stacks: &[Stack]) {
        self.measured.last = self.ends(stacks);
    }

    /// Retransmission timeouts of both ends so far.
    pub(crate) fn timeouts(&self, stacks: &[Stack]) -> u64 {
        self.totals(stacks).timeouts
    }

    /// Records that a measured flow starts to wait on this connection.
    pub(crate) fn begin(&mut self, totals: &SendCounters) {
        if self.measured.busy == 0 {
            self.measured.busy_base = totals.timeouts;
            self.measured.flow_extra = self.flow_extra(totals);
            self.measured.flow_base = Some(*totals);
        }
        self.measured.busy += 1;
    }

    /// The sum of the extra shares of the flows so far, and their number. Whatever is sent between a flow and
    /// the next one belongs to the former.
    pub(crate) fn flow_extra(&self, totals: &SendCounters) -> (f64, u64) {
        let (sum, count) = self.measured.flow_extra;
        let spent = self
            .measured
            .flow_base
            .map(|base| self.spent(totals, &base));
        match spent.filter(|s| s.payload > 0) {
            Some(s) => (sum + s.extra as f64 / s.payload as f64, count + 1),
            None => (sum, count),
        }
    }

    /// Bytes sent between two totals.
    pub(crate) fn spent(&self, now: &SendCounters, base: &SendCounters) -> Spent {
        let since = |f: fn(&SendCounters) -> u64| f(now).saturating_sub(f(base));
        let payload = since(|c| c.bytes);
        let recovery = since(|c| c.bytes_recovery) + since(|c| c.bytes_reinjected);
        let repeats = since(|c| c.bytes_retransmitted);
        let first = match self.class {
            Class::Replica => payload.saturating_sub(recovery + repeats),
            Class::First | Class::Background | Class::Bystander => 0,
        };
        Spent {
            payload,
            extra: recovery + first,
        }
    }

    /// Records that a measured flow no longer waits on this connection.
    pub(crate) fn end(&mut self, timeouts: u64) {
        if self.measured.busy == 1 {
            self.measured.in_window += timeouts - self.measured.busy_base;
        }
        self.measured.busy = self.measured.busy.saturating_sub(1);
    }

    /// Timeouts until now while a measured flow waited.
    pub(crate) fn timeouts_waited_for(&self, timeouts: u64) -> u64 {
        let open = if self.measured.busy > 0 {
            timeouts - self.measured.busy_base
        } else {
            0
        };
        self.measured.in_window + open
    }
}

/// The sum of two ends' counters, as far as the lab uses them.
fn sum(a: &SendCounters, b: &SendCounters) -> SendCounters {
    SendCounters {
        bytes: a.bytes + b.bytes,
        bytes_retransmitted: a.bytes_retransmitted + b.bytes_retransmitted,
        bytes_recovery: a.bytes_recovery + b.bytes_recovery,
        bytes_reinjected: a.bytes_reinjected + b.bytes_reinjected,
        recoveries: a.recoveries + b.recoveries,
        timeouts: a.timeouts + b.timeouts,
        fast_retransmits: a.fast_retransmits + b.fast_retransmits,
        probes: a.probes + b.probes,
        spurious_retransmits: a.spurious_retransmits + b.spurious_retransmits,
        ..*a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_repeats_and_wrong_bytes_are_counted() {
        let content = Content::Bytes(Bytes::from_static(b"abcde"));
        assert_eq!(
            content.piece(7, 100),
            Payload::Bytes(Bytes::from_static(b"cde"))
        );
        let found = Payload::Bytes(Bytes::from_static(b"deabcXea"));
        assert_eq!(content.differences(3, &found), 1);
        assert_eq!(content.differences(4, &found), 8);
        assert_eq!(content.differences(0, &Payload::Length(3)), 3);
        assert_eq!(Content::Length.differences(0, &Payload::Length(3)), 0);
    }
}
