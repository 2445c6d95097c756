//! TCP options as bytes, in the order and with the padding that Linux uses.
//!
//! Options are written in this order:
//!
//! 1. MSS.
//! 2. SACK-permitted and timestamps in one 12-byte block. If only one of them is present, NOP NOP precedes it.
//! 3. NOP and window scale.
//! 4. NOP NOP and SACK.
//! 5. MP_FAIL, DSS, MP_CAPABLE, MP_JOIN, ADD_ADDR, MP_FASTCLOSE, MP_TCPRST, MP_PRIO, REMOVE_ADDR.
//! 6. Experimental options, the token of a scattered segment first.
//!
//! Each option of the last two groups is followed by NOPs up to a multiple of four bytes.
//!
//! When reading, unknown options and known options of a wrong length are skipped (RFC 9293, section 3.2, MUST-6
//! and MUST-7). If an option occurs twice, the last occurrence counts, except that all ADD_ADDR and
//! experimental options are kept. A length below 2 or beyond the header is an error.

use std::num::NonZeroU32;

use crate::experimental::{ExperimentId, ScatterOption};
use crate::mptcp_codec as mptcp;
use crate::{
    EncodeError, Experimental, Flags, Options, ParseError, RareOptions, SackBlocks, SeqNumber,
    Timestamps,
};

// Kinds: the registry "TCP Option Kind Numbers".
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const EXPERIMENT_1: u8 = Experimental::KIND;
const EXPERIMENT_2: u8 = 254;

/// Spindle's unregistered identifier of packet scatter. The option is its kind, its length, this identifier and
/// the token.
const SCATTER: [u8; 2] = ExperimentId::Scatter.number().to_be_bytes();

impl Options {
    /// Appends the options to `out`: a multiple of four bytes, at most 40.
    ///
    /// # Errors
    /// [`EncodeError::OptionsTooLong`] if the options take more than 40 bytes ([`Options::fit`] prevents this),
    /// and [`EncodeError::ExperimentalKind`]. Nothing is appended in these cases.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.check()?;
        let permitted = self.rare.as_ref().is_some_and(|r| r.sack_permitted);
        if let Some(mss) = self.rare.as_ref().and_then(|r| r.mss) {
            out.extend_from_slice(&[MSS, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if permitted {
            let lead: &[u8] = if self.timestamps.is_some() {
                &[]
            } else {
                &[NOP, NOP]
            };
            out.extend_from_slice(lead);
            out.extend_from_slice(&[SACK_PERMITTED, 2]);
        }
        if let Some(ts) = self.timestamps {
            out.extend_from_slice(if permitted { &[] } else { &[NOP, NOP] });
            out.extend_from_slice(&[TIMESTAMPS, 10]);
            out.extend_from_slice(&ts.value.to_be_bytes());
            out.extend_from_slice(&ts.echo.to_be_bytes());
        }
        if let Some(shift) = self.rare.as_ref().and_then(|r| r.window_scale) {
            out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        write_sack(&self.sack, out);
        self.write_mptcp(out);
        if let Some(token) = self.token {
            let [a, b] = SCATTER;
            out.extend_from_slice(&[EXPERIMENT_1, ScatterOption::TOKEN_LEN as u8, a, b]);
            out.extend_from_slice(&token.get().to_be_bytes());
        }
        for e in self.rare.iter().flat_map(|r| &r.experimental) {
            padded(out, |out| write_experimental(e, out));
        }
        Ok(())
    }

    /// Returns an error if [`Options::encode`] cannot write the options.
    pub(crate) fn check(&self) -> Result<(), EncodeError> {
        let experiments = self.rare.iter().flat_map(|r| &r.experimental);
        for e in experiments {
            if e.kind != EXPERIMENT_1 && e.kind != EXPERIMENT_2 {
                return Err(EncodeError::ExperimentalKind { kind: e.kind });
            }
        }
        let len = self.encoded_len();
        if len > Self::MAX_LEN {
            return Err(EncodeError::OptionsTooLong {
                len,
                max: Self::MAX_LEN,
            });
        }
        Ok(())
    }

    fn write_mptcp(&self, out: &mut Vec<u8>) {
        let rare = self.rare.as_deref();
        if let Some(dsn) = rare.and_then(|r| r.mp_fail) {
            mptcp::write_fail(dsn, out);
        }
        if let Some(dss) = &self.dss {
            padded(out, |out| dss.write(out));
        }
        if let Some(rare) = rare {
            write_rare_mptcp(rare, out);
        }
    }

    /// Reads the option part of a TCP header whose control bits are `flags`.
    ///
    /// # Errors
    /// [`ParseError::OptionLength`], with the offset within `bytes`.
    pub fn parse(bytes: &[u8], flags: Flags) -> Result<Self, ParseError> {
        let mut options = Self::default();
        let mut at = 0;
        while let Some(&kind) = bytes.get(at) {
            if kind == END {
                break;
            }
            if kind == NOP {
                at += 1;
                continue;
            }
            let room = bytes.len() - at;
            let length = bytes.get(at + 1).copied().unwrap_or(0);
            let len = usize::from(length);
            if len < 2 || len > room {
                return Err(ParseError::OptionLength {
                    offset: at,
                    kind,
                    length,
                    room,
                });
            }
            options.read(&bytes[at..at + len], flags);
            at += len;
        }
        Ok(options)
    }

    /// Reads one option with its kind and length. An option of a wrong length changes nothing.
    fn read(&mut self, o: &[u8], flags: Flags) {
        match *o {
            [TIMESTAMPS, 10, a, b, c, d, e, f, g, h] => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([a, b, c, d]),
                    echo: u32::from_be_bytes([e, f, g, h]),
                });
            }
            [mptcp::KIND, _, ..] => mptcp::read(o, flags, self),
            [SACK, _, ref blocks @ ..] => self.read_sack(blocks),
            [MSS, 4, a, b] => self.rare_mut().mss = Some(u16::from_be_bytes([a, b])),
            [WINDOW_SCALE, 3, shift] => self.rare_mut().window_scale = Some(shift),
            [SACK_PERMITTED, 2] => self.rare_mut().sack_permitted = true,
            [EXPERIMENT_1, 8, a, b, ref token @ ..] if [a, b] == SCATTER => {
                let bytes = token.first_chunk().copied().unwrap_or_default();
                self.token = NonZeroU32::new(u32::from_be_bytes(bytes));
            }
            [kind @ (EXPERIMENT_1 | EXPERIMENT_2), _, a, b, ref data @ ..] => {
                let exid = u16::from_be_bytes([a, b]);
                let experiment = Experimental {
                    kind,
                    exid,
                    data: data.to_vec(),
                };
                self.rare_mut().experimental.push(experiment);
            }
            _ => {}
        }
    }

    fn read_sack(&mut self, blocks: &[u8]) {
        let (blocks, rest) = blocks.as_chunks::<8>();
        if blocks.is_empty() || !rest.is_empty() {
            return;
        }
        self.sack = SackBlocks::default();
        for &[a, b, c, d, e, f, g, h] in blocks {
            let left = SeqNumber(u32::from_be_bytes([a, b, c, d]));
            self.sack
                .push(left, SeqNumber(u32::from_be_bytes([e, f, g, h])));
        }
    }
}

fn write_sack(sack: &SackBlocks, out: &mut Vec<u8>) {
    let blocks = sack.as_slice();
    if blocks.is_empty() {
        return;
    }
    out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
    for (left, right) in blocks {
        out.extend_from_slice(&left.0.to_be_bytes());
        out.extend_from_slice(&right.0.to_be_bytes());
    }
}

fn write_rare_mptcp(rare: &RareOptions, out: &mut Vec<u8>) {
    if let Some(c) = &rare.mp_capable {
        padded(out, |out| c.write(out));
    }
    if let Some(j) = &rare.mp_join {
        j.write(out);
    }
    for a in &rare.add_addr {
        padded(out, |out| a.write(out));
    }
    if let Some(key) = rare.mp_fastclose {
        mptcp::write_fastclose(key, out);
    }
    if let Some(r) = rare.mp_tcprst {
        r.write(out);
    }
    if let Some(p) = rare.mp_prio {
        padded(out, |out| p.write(out));
    }
    if let Some(r) = &rare.remove_addr {
        padded(out, |out| r.write(out));
    }
}

fn write_experimental(e: &Experimental, out: &mut Vec<u8>) {
    out.extend_from_slice(&[e.kind, e.encoded_len() as u8]);
    out.extend_from_slice(&e.exid.to_be_bytes());
    out.extend_from_slice(&e.data);
}

/// Appends the output of `write`, followed by NOPs up to a multiple of four bytes.
fn padded(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let len = out.len() - start;
    out.resize(start + len.next_multiple_of(4), NOP);
}
