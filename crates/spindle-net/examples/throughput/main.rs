//! Throughput of one connection compared with the kernel's, in one run: the rows, and the programs that they
//! need. `scripts/throughput` creates the namespaces and starts it.
//!
//! `throughput run --spindle FILE --client NETNS --server NETNS [--mib N] [--rounds N] [--only TEXT] [--json
//! FILE]` prints a table. A transfer is a request of nine bytes (direction and number of bytes), then the
//! bytes, and for an upload one byte back. Its time is measured by the client, from before it connects until it
//! has read the last byte.
//!
//! `throughput pairs --client NETNS --server NETNS [--mib N] [--pairs N] [--transports A,B] [--subflows N]
//! [--window BYTES]` compares the processor time of two of Spindle's transports over UDP, which run by turns.

mod kernel;
mod ours;
mod pairs;
mod rows;
mod run;

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes of a write and of a read.
pub(crate) const PIECE: usize = 256 << 10;

/// A client's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Whether the bytes go from the service to the client.
    pub(crate) down: bool,
    pub(crate) bytes: u64,
}

impl Request {
    /// Bytes of a request.
    pub(crate) const LEN: usize = 9;

    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0] = if self.down { b'd' } else { b'u' };
        out[1..].copy_from_slice(&self.bytes.to_be_bytes());
        out
    }

    pub(crate) fn decode(bytes: [u8; Self::LEN]) -> Self {
        let [kind, rest @ ..] = bytes;
        Self {
            down: kind == b'd',
            bytes: u64::from_be_bytes(rest),
        }
    }
}

fn request(args: &[String]) -> Outcome<Request> {
    let [direction, mib, ..] = args else {
        return Err("down or up and a number of MiB are missing".into());
    };
    Ok(Request {
        down: direction == "down",
        bytes: mib.parse::<u64>()? << 20,
    })
}

/// Seconds that this process has spent on a CPU, in user mode and in the system.
fn own_cpu() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let spent = usage.user_time() + usage.system_time();
    Ok(spent.num_microseconds() as f64 * 1e-6)
}

/// Runs a client's transfer and prints its wall clock and CPU seconds.
fn timed<T>(transfer: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let (begin, before) = (Instant::now(), own_cpu()?);
    let result = transfer()?;
    let seconds = begin.elapsed().as_secs_f64();
    println!("{seconds} {}", own_cpu()? - before);
    Ok(result)
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let at = |i: usize| args.get(i).map_or("", String::as_str);
    let addr = |i: usize| at(i).parse::<SocketAddr>();
    match at(0) {
        "run" => run::run(&args[1..]),
        "pairs" => pairs::run(&args[1..]),
        "service" => kernel::service(kernel::protocol(at(1))?, addr(2)?),
        "proxy" => kernel::proxy(addr(1)?, addr(2)?),
        "client" => {
            let (protocol, to) = (kernel::protocol(at(1))?, addr(2)?);
            let request = request(&args[3..])?;
            timed(|| kernel::client(protocol, to, request))
        }
        "tun-service" => ours::tun_service(at(1), addr(2)?),
        "udp-service" => ours::udp_service(addr(1)?),
        "udp-client" => {
            let (local, to) = (at(1).parse::<IpAddr>()?, addr(2)?);
            let request = request(&args[3..])?;
            println!("{}", timed(|| ours::udp_client(local, to, request))?);
            Ok(())
        }
        other => Err(format!("no such part: {other:?}").into()),
    }
}
