//! Acknowledgements that arrive together, as real hosts pass them on: the stack transmits after the last of them.

#[expect(dead_code, reason = "shared by tests that each use a part")]
mod script;

use std::sync::Arc;

use script::{MSS, Peer, plain};
use spindle_mptcp::congestion::{ControllerFactory, Cubic, DelayBounded, Reno};
use spindle_mptcp::{Config, InitialWindow};
use spindle_units::Duration;
use spindle_wire::Flags;

/// How acknowledgements of single segments arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arrive {
    Apart,
    Together,
}

fn config(congestion: impl ControllerFactory + 'static) -> Config {
    let mut config = plain();
    config.tcp.initial_window = InitialWindow::PerSubflow(10);
    config.congestion = Arc::new(congestion);
    config.loss.frto = false;
    config
}

/// The peer acknowledges segments `from` to `to` one by one, 20 ms after it received them. Returns how many the stack sends.
fn acknowledge(p: &mut Peer, from: u32, to: u32, how: Arrive) -> usize {
    p.now += Duration::from_millis(20);
    let mut sent = 0;
    for upto in from + 1..=to {
        let mut seg = p.segment(Flags::ACK);
        seg.ack = p.ack + upto * MSS;
        p.stack.receive(p.now, seg);
        if how == Arrive::Apart {
            sent += p.drain().len();
        }
    }
    sent + p.drain().len()
}

/// The window in segments after the first ten segments are acknowledged, and what was sent then.
fn after_first_flight(congestion: impl ControllerFactory + 'static, how: Arrive) -> (u64, usize) {
    let mut p = Peer::establish(config(congestion));
    assert_eq!(p.send(55 * MSS).len(), 10);
    let sent = acknowledge(&mut p, 0, 10, how);
    (p.info().cwnd / u64::from(MSS), sent)
}

#[test]
fn slow_start_doubles_the_window_whether_acknowledgements_arrive_together_or_not() {
    for how in [Arrive::Apart, Arrive::Together] {
        let cubic = after_first_flight(Cubic, how);
        assert_eq!(cubic, (20, 20), "CUBIC, {how:?}");
        let bounded = after_first_flight(DelayBounded::default(), how);
        assert_eq!(bounded, (20, 20), "delay-bounded, {how:?}");
    }
}

#[test]
fn congestion_avoidance_grows_whether_acknowledgements_arrive_together_or_not() {
    let grown = |how| {
        let mut p = Peer::establish(config(Reno));
        let mut sent = p.send(55 * MSS).len() as u32;
        // The first segment is lost. Recovery ends with half of the window.
        for right in 2..=10 {
            let mut seg = p.segment(Flags::ACK);
            seg.options.sack.push(p.ack + MSS, p.ack + right * MSS);
            sent += p.push(seg).len() as u32;
        }
        // One of them was the first segment again.
        sent -= 1;
        sent += acknowledge(&mut p, 9, 10, Arrive::Apart) as u32;
        let before = p.info().cwnd / u64::from(MSS);
        assert_eq!(u64::from(sent - 10), before, "the window is full");
        let mut acked = 10;
        for _ in 0..3 {
            let more = acknowledge(&mut p, acked, sent, how) as u32;
            (acked, sent) = (sent, sent + more);
        }
        (before, p.info().cwnd / u64::from(MSS))
    };
    let (before, after) = grown(Arrive::Apart);
    assert!(after >= before + 2, "{before} {after}");
    assert_eq!(grown(Arrive::Together), (before, after));
}

#[test]
fn window_that_the_application_does_not_fill_does_not_grow() {
    for how in [Arrive::Apart, Arrive::Together] {
        let mut p = Peer::establish(config(DelayBounded::default()));
        assert_eq!(p.send(4 * MSS).len(), 4);
        acknowledge(&mut p, 0, 4, how);
        assert_eq!(p.info().cwnd, 10 * u64::from(MSS), "{how:?}");
    }
}
