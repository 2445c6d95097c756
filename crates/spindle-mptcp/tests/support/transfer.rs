//! Transfers of a number of bytes from one end to the other, and the segments they put on the wire.

use std::sync::Arc;

use spindle_mptcp::{Config, Event, Handle};
use spindle_units::{Duration, Instant};
use spindle_wire::Payload;

use super::{CLIENT, Logged, Net, Path, SERVER, endpoint};

pub(crate) fn paths(n: u64, apart: Duration) -> Vec<Path> {
    (0..n)
        .map(|k| Path::clean(Duration::from_millis(1) + apart * k))
        .collect()
}

pub(crate) fn net(paths: Vec<Path>) -> Net {
    let mut net = Net::new(7, paths);
    net.keep_log = true;
    net
}

/// A connection whose `sender` sends `bytes` once it is established. Both ends close when all bytes have
/// arrived.
pub(crate) struct Transfer {
    pub(crate) client: Handle,
    pub(crate) server: Option<Handle>,
    pub(crate) sender: usize,
    pub(crate) left: u64,
    pub(crate) got: u64,
    pub(crate) bytes: u64,
    /// Whether real bytes are sent, instead of payload lengths only.
    pub(crate) real: bool,
}

impl Transfer {
    pub(crate) fn begin(
        net: &mut Net,
        port: u16,
        configs: [&Config; 2],
        sender: usize,
        bytes: u64,
    ) -> Self {
        let to = endpoint(2, port);
        let listening = Arc::new(configs[1].clone());
        net.stacks[SERVER].listen(to, listening).expect("free");
        let opening = Arc::new(configs[0].clone());
        let h = net.stacks[CLIENT].connect(net.now, endpoint(1, 0), to, opening);
        Self {
            client: h.expect("connects"),
            server: None,
            sender,
            left: bytes,
            got: 0,
            bytes,
            real: false,
        }
    }

    pub(crate) fn on_event(&mut self, net: &mut Net, now: Instant, side: usize, event: Event) {
        match event {
            Event::Accepted { handle, .. } if side == SERVER && self.server.is_none() => {
                self.server = Some(handle);
            }
            _ => {}
        }
        let Some(server) = self.server else { return };
        let ends = [self.client, server];
        let to = 1 - self.sender;
        while let Ok(Some(p)) = net.stacks[to].recv(now, ends[to], 1 << 20) {
            self.got += p.len() as u64;
        }
        if self.left > 0 {
            let data = match self.real {
                true => Payload::from(vec![0; self.left as usize]),
                false => Payload::Length(self.left as u32),
            };
            let sent = net.stacks[self.sender].send(now, ends[self.sender], data);
            self.left -= sent.unwrap_or(0) as u64;
        }
        if self.got == self.bytes {
            net.stacks[CLIENT].close(now, self.client);
            net.stacks[SERVER].close(now, server);
        }
    }
}

/// Runs until all transfers are complete.
pub(crate) fn run(net: &mut Net, transfers: &mut [Transfer]) {
    let limit = net.now + Duration::from_secs(60);
    let mut seen = 0;
    while net.step(limit) && transfers.iter().any(|t| t.got < t.bytes) {
        while seen < net.events.len() {
            let (now, side, event) = net.events[seen];
            seen += 1;
            let accepted = match event {
                Event::Accepted { handle, .. } => Some(handle),
                _ => None,
            };
            for t in &mut *transfers {
                // An accepted connection belongs to the transfer with the same client port.
                let of = |h: Handle| net.stacks[SERVER].info(h).map(|i| i.subflows[0].remote);
                let ours = net.stacks[CLIENT]
                    .info(t.client)
                    .map(|i| i.subflows[0].local);
                let other = accepted.is_some_and(|h| of(h) != ours);
                if !other {
                    t.on_event(net, now, side, event);
                }
            }
        }
    }
    for t in transfers {
        assert_eq!(t.got, t.bytes);
    }
    // The last segments of the connections are exchanged.
    let limit = net.now + Duration::from_millis(100);
    while net.step(limit) {}
}

pub(crate) fn transfer(
    net: &mut Net,
    configs: [&Config; 2],
    sender: usize,
    bytes: u64,
) -> Transfer {
    let mut t = [Transfer::begin(net, 80, configs, sender, bytes)];
    run(net, &mut t);
    let [t] = t;
    t
}

pub(crate) fn data(net: &Net, side: usize) -> impl Iterator<Item = &Logged> {
    net.log
        .iter()
        .filter(move |l| l.side == side && !l.segment.payload.is_empty())
}
