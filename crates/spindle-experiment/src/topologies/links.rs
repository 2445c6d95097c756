//! Settings that the links of a topology have in common.

use spindle_fabric::Buffer as PortBuffer;
use spindle_units::{BitRate, Bytes, Duration};

use crate::document::{ExperimentError, Section, Size};

/// Queue size of a host's own port, in packets. A host does not drop what it sends itself (the reference flows'
/// value).
const HOST_BUFFER: PortBuffer = PortBuffer::Packets(1000);

/// The largest factor between the rate of hosts' links and other links: 100 Gbps next to 10 Mbps (our choice).
const MAX_HOST_SPEEDUP: f64 = 10_000.0;

/// Settings that links have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSettings {
    /// Rate of each link, except that [`Self::host_speedup`] applies to the hosts' links.
    pub rate: BitRate,
    /// How many times [`Self::rate`] the rate of the hosts' links is, above 0 and at most 10,000. 1 by
    /// default. A load that a file gives as a rate does not change with it.
    pub host_speedup: f64,
    /// Base round-trip time of the longest path. All its links, in both directions, have an equal share of it.
    pub rtt: Duration,
    /// Queue size of a port.
    pub buffer: Buffer,
    /// Queue length from which packets are marked (ECN). `None` disables marking.
    pub ecn_threshold: Option<u64>,
    /// Like [`Self::ecn_threshold`], but for the hosts' own ports.
    pub host_ecn_threshold: Option<u64>,
    /// Whether packets that cannot be marked are dropped where others are marked (Linux's RED).
    pub drop_unmarkable: bool,
    /// Queue size of a host's own port. If `None`, the queue is long enough never to drop what the host sends
    /// itself.
    pub host_buffer: Option<Buffer>,
    /// Whether ports have two strict priorities. The DSCP of a packet determines its priority.
    pub priorities: bool,
}

/// Size of a port's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// In bytes.
    Bytes(u64),
    /// In packets.
    Packets(u32),
}

impl Buffer {
    /// The size as the fabric has it.
    pub fn port(self) -> PortBuffer {
        match self {
            Self::Bytes(n) => PortBuffer::Bytes(Bytes(n)),
            Self::Packets(n) => PortBuffer::Packets(n),
        }
    }
}

impl Default for LinkSettings {
    /// The queues and marking of FUSO's testbed (mechanisms T1) at 1 Gbps. The base RTT is our choice for its
    /// hardware.
    fn default() -> Self {
        Self {
            rate: BitRate(1_000_000_000),
            host_speedup: 1.0,
            rtt: Duration::from_micros(100),
            buffer: Buffer::Bytes(128_000),
            ecn_threshold: Some(32_000),
            host_ecn_threshold: None,
            drop_unmarkable: false,
            host_buffer: None,
            priorities: false,
        }
    }
}

impl LinkSettings {
    /// Reads the settings from the table of a topology. A setting that the table does not have is taken from
    /// `defaults`.
    ///
    /// # Errors
    /// A value that is out of range.
    pub fn read(s: &Section<'_>, defaults: Self) -> Result<Self, ExperimentError> {
        let buffer = buffer(s)?.unwrap_or(defaults.buffer);
        let ecn_threshold = match s.get::<Size>("ecn_threshold")? {
            Some(Size(0)) => None,
            Some(Size(bytes)) => Some(bytes),
            None => defaults.ecn_threshold,
        };
        let host_ecn_threshold = match s.get::<Size>("host_ecn_threshold")? {
            Some(Size(0)) => None,
            Some(Size(bytes)) => Some(bytes),
            None => defaults.host_ecn_threshold,
        };
        let priorities = s.or("priorities", defaults.priorities)?;
        let host_buffer = match s.get::<u32>("host_buffer_packets")? {
            Some(0) => {
                let problem = "found 0, want room for one packet or more";
                return Err(s.error("host_buffer_packets", problem));
            }
            Some(packets) => Some(Buffer::Packets(packets)),
            None => defaults.host_buffer,
        };
        Ok(Self {
            host_buffer,
            rate: rate(s, "rate", defaults.rate)?,
            host_speedup: host_speedup(s, defaults.host_speedup)?,
            rtt: s.or("rtt", defaults.rtt)?,
            buffer,
            ecn_threshold,
            host_ecn_threshold,
            drop_unmarkable: s.or("drop_unmarkable", defaults.drop_unmarkable)?,
            priorities,
        })
    }

    /// The rate of the hosts' links, at least 1 bit per second.
    pub fn host_rate(&self) -> BitRate {
        let rate = self.rate.0 as f64 * self.host_speedup;
        BitRate((rate.round() as u64).max(1))
    }

    /// The queue size of a switch's port.
    pub fn switch_port(&self) -> PortBuffer {
        self.buffer.port()
    }

    /// The queue size of a host's own port.
    pub fn host_port(&self) -> PortBuffer {
        self.host_buffer.map_or(HOST_BUFFER, Buffer::port)
    }

    /// Queue length of a switch's port from which packets are marked.
    pub fn mark_above(&self) -> Option<Bytes> {
        self.ecn_threshold.map(Bytes)
    }

    /// Queue length of a host's own port from which packets are marked.
    pub fn host_mark_above(&self) -> Option<Bytes> {
        self.host_ecn_threshold.map(Bytes)
    }
}

/// `host_speedup`: a factor above 0 and at most [`MAX_HOST_SPEEDUP`].
fn host_speedup(s: &Section<'_>, default: f64) -> Result<f64, ExperimentError> {
    let speedup = s.or("host_speedup", default)?;
    if speedup > 0.0 && speedup <= MAX_HOST_SPEEDUP {
        return Ok(speedup);
    }
    let problem = format!(
        "found {speedup}, want a factor above 0 and at most {MAX_HOST_SPEEDUP}, such as 2.5"
    );
    Err(s.error("host_speedup", problem))
}

/// `buffer` or `buffer_packets`. `None` if the table has neither.
pub(crate) fn buffer(s: &Section<'_>) -> Result<Option<Buffer>, ExperimentError> {
    match (s.get::<Size>("buffer")?, s.get::<u32>("buffer_packets")?) {
        (Some(_), Some(_)) => {
            let problem = "given together with buffer, want only one of them";
            Err(s.error("buffer_packets", problem))
        }
        (_, Some(0)) | (Some(Size(0)), _) => {
            let key = if s.has("buffer") {
                "buffer"
            } else {
                "buffer_packets"
            };
            Err(s.error(key, "found 0, want room for one packet or more"))
        }
        (Some(Size(bytes)), None) => Ok(Some(Buffer::Bytes(bytes))),
        (None, Some(packets)) => Ok(Some(Buffer::Packets(packets))),
        (None, None) => Ok(None),
    }
}

/// The entry `key` as a rate above 0, or `default`.
///
/// # Errors
/// If the entry is not a rate, or is 0.
pub fn rate(
    s: &Section<'_>,
    key: &'static str,
    default: BitRate,
) -> Result<BitRate, ExperimentError> {
    let rate = s.or(key, default)?;
    if rate.0 == 0 {
        return Err(s.error(key, "found 0, want a rate above 0 such as \"1Gbps\""));
    }
    Ok(rate)
}
