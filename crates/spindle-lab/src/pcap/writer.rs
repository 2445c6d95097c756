//! [`PcapWriter`]: writes segments to a pcapng file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use spindle_units::Instant;
use spindle_wire::{EncodeError, IpFields, Packet};

use super::block::{self, MAX_PACKET};

/// How many bytes are buffered before they are written.
const BUFFER: usize = 256 * 1024;

/// The longest file name [`file_name`] makes, in bytes, below the 255 of common file systems.
const MAX_NAME: usize = 200;

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The file could not be created or written.
    #[error("cannot write capture {}: {source}; give a directory with room that can be written to", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        source: io::Error,
    },
    /// A packet is longer than an IP packet can be.
    #[error(
        "capture {}: packet of {len} bytes at {} ns; an IP packet has at most {MAX_PACKET}",
        path.display(),
        at.as_nanos()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The packet's time.
        at: Instant,
        /// Its length in bytes.
        len: usize,
    },
    /// A segment cannot be encoded as bytes.
    #[error("capture {}: segment at {} ns: {source}", path.display(), at.as_nanos())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The segment's time.
        at: Instant,
        /// What is wrong with it.
        source: EncodeError,
    },
    /// The capture names an interface that the file does not have.
    #[error("capture {}: no interface {interface}; this file has {known}", path.display())]
    NoInterface {
        /// The file.
        path: PathBuf,
        /// The requested interface.
        interface: u32,
        /// The number of interfaces in the file.
        known: u32,
    },
}

/// A point of capture in a file, from [`PcapWriter::add_interface`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InterfaceId(u32);

impl InterfaceId {
    /// The first interface, which every file has.
    pub const FIRST: Self = Self(0);
}

/// Writes one capture. Times need not be in ascending order, since readers sort them.
///
/// Dropping the writer writes out what is buffered but hides failures. Call [`PcapWriter::finish`] instead.
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    out: W,
    path: PathBuf,
    scratch: Vec<u8>,
    interfaces: u32,
    packets: u64,
}

impl PcapWriter<BufWriter<File>> {
    /// Creates the file, and its directory if necessary, and writes the file's head. `run` describes the run in
    /// the section's comment. `interface` names the first point of capture.
    ///
    /// # Errors
    /// [`PcapError::Io`] if the file cannot be created.
    pub fn create(path: &Path, run: &str, interface: &str) -> Result<Self, PcapError> {
        let failed = |source| PcapError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let file = File::create(path).map_err(failed)?;
        Self::new(BufWriter::with_capacity(BUFFER, file), path, run, interface)
    }
}

impl<W: Write> PcapWriter<W> {
    /// Writes the head of a capture to `out`. `path` is used in errors. Every packet is one write, so `out`
    /// should be buffered.
    ///
    /// # Errors
    /// [`PcapError::Io`] if the head cannot be written.
    pub fn new(out: W, path: &Path, run: &str, interface: &str) -> Result<Self, PcapError> {
        let mut writer = Self {
            out,
            path: path.to_owned(),
            scratch: Vec::new(),
            interfaces: 0,
            packets: 0,
        };
        let program = concat!("Spindle ", env!("CARGO_PKG_VERSION"));
        block::section_header(&mut writer.scratch, program, run);
        writer.flush_block()?;
        writer.add_interface(interface)?;
        Ok(writer)
    }

    /// Adds a point of capture.
    ///
    /// # Errors
    /// [`PcapError::Io`] if its description cannot be written.
    pub fn add_interface(&mut self, name: &str) -> Result<InterfaceId, PcapError> {
        block::interface(&mut self.scratch, name);
        self.flush_block()?;
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        Ok(id)
    }

    /// Writes a packet as an IP packet at the first point of capture.
    ///
    /// # Errors
    /// Like [`PcapWriter::write_at`].
    pub fn write(&mut self, at: Instant, packet: &Packet) -> Result<(), PcapError> {
        self.write_at(at, InterfaceId::FIRST, packet, "")
    }

    /// Writes a packet as an IP packet with valid checksums. A payload that is a length is written as zeros. A
    /// non-empty `comment` is attached to the packet, for example "dropped at p1".
    ///
    /// # Errors
    /// [`PcapError::Encode`] if the packet cannot be encoded as bytes. [`PcapError::NoInterface`] if the file
    /// has no such point of capture. In both cases the file does not change. [`PcapError::Io`] if the file
    /// cannot be written.
    pub fn write_at(
        &mut self,
        at: Instant,
        interface: InterfaceId,
        packet: &Packet,
        comment: &str,
    ) -> Result<(), PcapError> {
        self.begin(at, interface)?;
        if let Err(source) = packet.encode_ip(&IpFields::default(), &mut self.scratch) {
            self.scratch.clear();
            return Err(PcapError::Encode {
                path: self.path.clone(),
                at,
                source,
            });
        }
        self.end(comment)
    }

    /// Writes an IP packet given as bytes.
    ///
    /// # Errors
    /// [`PcapError::TooLong`] beyond [`MAX_PACKET`]. Otherwise like [`PcapWriter::write_at`].
    pub fn write_packet(
        &mut self,
        at: Instant,
        interface: InterfaceId,
        packet: &[u8],
        comment: &str,
    ) -> Result<(), PcapError> {
        if packet.len() > MAX_PACKET {
            return Err(PcapError::TooLong {
                path: self.path.clone(),
                at,
                len: packet.len(),
            });
        }
        self.begin(at, interface)?;
        self.scratch.extend(packet);
        self.end(comment)
    }

    /// The number of packets written.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes out what is buffered and returns the underlying writer.
    ///
    /// # Errors
    /// [`PcapError::Io`] if the last bytes cannot be written.
    pub fn finish(mut self) -> Result<W, PcapError> {
        match self.out.flush() {
            Ok(()) => Ok(self.out),
            Err(source) => Err(PcapError::Io {
                path: self.path,
                source,
            }),
        }
    }

    fn begin(&mut self, at: Instant, interface: InterfaceId) -> Result<(), PcapError> {
        if interface.0 >= self.interfaces {
            return Err(PcapError::NoInterface {
                path: self.path.clone(),
                interface: interface.0,
                known: self.interfaces,
            });
        }
        self.scratch.clear();
        block::begin_packet(&mut self.scratch, interface.0, at.as_nanos());
        Ok(())
    }

    fn end(&mut self, comment: &str) -> Result<(), PcapError> {
        block::end_packet(&mut self.scratch, comment);
        self.flush_block()?;
        self.packets += 1;
        Ok(())
    }

    fn flush_block(&mut self) -> Result<(), PcapError> {
        let written = self.out.write_all(&self.scratch);
        self.scratch.clear();
        written.map_err(|source| PcapError::Io {
            path: self.path.clone(),
            source,
        })
    }
}

/// Makes the name of a run's file, `fuso-loss=2%-seed3.pcapng` from `["fuso", "loss=2%", "seed3"]`. Characters
/// that a file system might reject become hyphens. A name that is too long is cut and ends in a hash of the
/// rest.
pub fn file_name(parts: &[&str]) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || "@=%+_.-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = parts.join("-").chars().map(keep).collect();
    let name = name.trim_start_matches(['.', '-']);
    let name = match name.get(MAX_NAME..) {
        None | Some("") => name.to_owned(),
        Some(rest) => format!("{}-{:016x}", &name[..MAX_NAME], fnv(rest)),
    };
    if name.is_empty() {
        "run.pcapng".to_owned()
    } else {
        format!("{name}.pcapng")
    }
}

/// FNV-1a, so that long names are distinguished in the same way on all machines.
fn fnv(text: &str) -> u64 {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_and_distinct() {
        assert_eq!(
            file_name(&["fuso", "loss=2%", "seed3"]),
            "fuso-loss=2%-seed3.pcapng"
        );
        assert_eq!(file_name(&["../../etc/passwd"]), "etc-passwd.pcapng");
        assert_eq!(file_name(&["tcp@rps-pq", "s1"]), "tcp@rps-pq-s1.pcapng");
        assert_eq!(file_name(&[]), "run.pcapng");
        let long = "x".repeat(400);
        let (a, b) = (file_name(&[&long, "1"]), file_name(&[&long, "2"]));
        assert!(a.len() < 255 && a != b);
    }

    #[test]
    fn a_full_disk_is_reported_with_the_file() {
        #[derive(Debug)]
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = PcapWriter::new(Full, Path::new("runs/a.pcapng"), "", "h1").unwrap_err();
        assert!(error.to_string().contains("runs/a.pcapng"), "{error}");
    }

    #[test]
    fn oversized_packets_and_unknown_interfaces_are_refused() {
        let path = Path::new("a.pcapng");
        let mut w = PcapWriter::new(Vec::new(), path, "run", "h1").unwrap();
        let (at, first) = (Instant::from_nanos(5), InterfaceId::FIRST);
        let error = w
            .write_packet(at, first, &vec![0; MAX_PACKET + 1], "")
            .unwrap_err();
        assert!(matches!(error, PcapError::TooLong { .. }), "{error}");
        let error = w.write_packet(at, InterfaceId(7), &[0], "").unwrap_err();
        assert!(
            matches!(error, PcapError::NoInterface { known: 1, .. }),
            "{error}"
        );
        w.write_packet(at, first, &[0x45], "").unwrap();
        assert_eq!(w.packets(), 1);
        assert_eq!(w.finish().unwrap().len() % 4, 0);
    }
}
