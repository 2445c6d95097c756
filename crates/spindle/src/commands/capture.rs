//! `--pcap`: the IP packets that a gateway or connect sends and receives, in a file. Over UDP these are inside datagrams.
//!
//! The data path passes copies to a thread that writes them. If the disk is too slow, copies are dropped and counted, and
//! the traffic is not delayed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spindle_lab::pcap::{InterfaceId, PcapError, PcapWriter};
use spindle_net::Link;
use spindle_net::tap::{Tap, TappedLink, Way};
use spindle_units::Instant;
use spindle_wire::Packet;

use crate::failure::Failure;

/// Most bytes of packets that wait to be written (our choice).
const WAITING: u64 = 16 << 20;
/// What a waiting packet counts in addition to its bytes.
const EACH: u64 = size_of::<Captured>() as u64;
/// How long packets stay in the buffer at most if no more follow (our choice).
const DELAY: Duration = Duration::from_secs(1);
/// Only the user may read the file.
const MODE: u32 = 0o600;

/// A capture, as the flags describe it.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    /// The file.
    pub(super) path: PathBuf,
    /// Its size in bytes, after which it is renamed and another one is begun.
    pub(super) limit: u64,
}

impl Capture {
    /// Captures the packets of a link, until the link is dropped.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn of(&self, link: Box<dyn Link>) -> Result<Box<dyn Link>, Failure> {
        let recorder = self.recorder().map_err(|e| {
            let text = format!(" {}: {e}", self.path.display());
            Failure::setting("pcap", text)
        })?;
        Ok(Box::new(TappedLink::new(link, recorder)))
    }

    fn recorder(&self) -> Result<Recorder, PcapError> {
        let mut files = Files::open(self.clone())?;
        let (copies, receiver) = channel();
        let counts = Arc::new(Counts::default());
        let shared = counts.clone();
        let write = move || {
            if let Err(error) = files.follow(&receiver, &shared) {
                tracing::error!(%error, "the capture has ended");
            }
        };
        let thread = std::thread::Builder::new().name("capture".to_owned());
        let thread = thread.spawn(write).map_err(|source| self.failed(source))?;
        Ok(Recorder {
            copies: Some(copies),
            counts,
            thread: Some(thread),
        })
    }

    fn failed(&self, source: io::Error) -> PcapError {
        PcapError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// The name of the file that was written before.
    fn before(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".1");
        name.into()
    }
}

/// A packet with its time since 1970.
struct Captured {
    at: Instant,
    way: Way,
    packet: Packet,
}

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of packets that wait to be written.
    waiting: AtomicU64,
    /// Packets that are not in the file.
    lost: AtomicU64,
}

/// The data path's end of a capture.
struct Recorder {
    /// `None` once the file cannot be written any longer.
    copies: Option<Sender<Captured>>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Tap for Recorder {
    fn packet(&mut self, way: Way, packet: &Packet) {
        let Some(copies) = &self.copies else {
            return;
        };
        let size = cost(packet);
        let waiting = self.counts.waiting.fetch_add(size, Ordering::Relaxed);
        if waiting + size > WAITING {
            self.counts.waiting.fetch_sub(size, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let copy = Captured {
            at: now(),
            way,
            packet: packet.clone(),
        };
        if copies.send(copy).is_err() {
            self.copies = None;
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.copies = None;
        if let Some(thread) = self.thread.take() {
            // An error is a panic of the thread, which was reported.
            let _ = thread.join();
        }
        match self.counts.lost.load(Ordering::Relaxed) {
            0 => {}
            lost => {
                tracing::warn!(
                    lost,
                    "packets are not in the capture: the disk was too slow"
                );
            }
        }
    }
}

fn cost(packet: &Packet) -> u64 {
    packet.wire_len() as u64 + EACH
}

/// The time since 1970. A clock before that counts as 1970.
fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    Instant::from_nanos(nanos)
}

/// A buffered file whose size is known, and which is flushed from outside its writer.
#[derive(Clone)]
struct Output(Arc<Mutex<(BufWriter<File>, u64)>>);

impl Output {
    fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(MODE);
        let file = BufWriter::new(options.open(path)?);
        Ok(Self(Arc::new(Mutex::new((file, 0)))))
    }

    fn lock(&self) -> MutexGuard<'_, (BufWriter<File>, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn size(&self) -> u64 {
        self.lock().1
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.lock();
        let n = inner.0.write(bytes)?;
        inner.1 += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().0.flush()
    }
}

/// The file that is written, and the way to the next one.
struct Files {
    capture: Capture,
    output: Output,
    writer: PcapWriter<Output>,
    sent: InterfaceId,
}

impl Files {
    /// Begins a file. A file of that name is kept under another one.
    fn open(capture: Capture) -> Result<Self, PcapError> {
        let failed = |e| capture.failed(e);
        match std::fs::metadata(&capture.path) {
            Ok(found) if !found.is_file() => {
                let text = "found something that is no file, want a file";
                return Err(failed(io::Error::other(text)));
            }
            Ok(_) => std::fs::rename(&capture.path, capture.before()).map_err(failed)?,
            // If it cannot be looked up for another reason, creating it fails as well.
            Err(_) => {}
        }
        let output = Output::create(&capture.path).map_err(failed)?;
        let what = "packets of spindle gateway or connect";
        let mut writer = PcapWriter::new(output.clone(), &capture.path, what, "received")?;
        let sent = writer.add_interface("sent")?;
        Ok(Self {
            capture,
            output,
            writer,
            sent,
        })
    }

    /// Writes packets until no more can come.
    fn follow(&mut self, copies: &Receiver<Captured>, counts: &Counts) -> Result<(), PcapError> {
        loop {
            match copies.recv_timeout(DELAY) {
                Ok(copy) => {
                    counts
                        .waiting
                        .fetch_sub(cost(&copy.packet), Ordering::Relaxed);
                    match self.write(&copy) {
                        // Segments that were received as one may be longer than an IP packet can be.
                        Err(PcapError::Encode { .. }) => {
                            counts.lost.fetch_add(1, Ordering::Relaxed);
                        }
                        done => done?,
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.flush()?,
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }

    fn write(&mut self, copy: &Captured) -> Result<(), PcapError> {
        if self.output.size() >= self.capture.limit {
            self.flush()?;
            *self = Self::open(self.capture.clone())?;
        }
        let interface = match copy.way {
            Way::Received => InterfaceId::FIRST,
            Way::Sent => self.sent,
        };
        self.writer.write_at(copy.at, interface, &copy.packet, "")
    }

    fn flush(&mut self) -> Result<(), PcapError> {
        self.output.flush().map_err(|e| self.capture.failed(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_wire::Segment;

    fn capture(directory: &Path, limit: u64) -> Capture {
        Capture {
            path: directory.join("a.pcapng"),
            limit,
        }
    }

    fn packets(recorder: &mut Recorder, number: usize) {
        for i in 0..number {
            let way = if i % 2 == 0 { Way::Received } else { Way::Sent };
            recorder.packet(way, &Packet::blank());
        }
    }

    fn len(path: &Path) -> u64 {
        path.metadata().map_or(0, |m| m.len())
    }

    #[test]
    fn packets_are_in_the_file_once_the_link_is_gone_and_only_its_user_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let capture = capture(directory.path(), 1 << 20);
        let head = {
            drop(capture.recorder().unwrap());
            len(&capture.path)
        };
        let mut recorder = capture.recorder().unwrap();
        packets(&mut recorder, 10);
        drop(recorder);
        // A block of 32 bytes for each packet, in addition to its own.
        let each = (32 + Segment::blank().wire_len() as u64).next_multiple_of(4);
        assert_eq!(len(&capture.path), head + 10 * each);
        assert_eq!(len(&capture.before()), head, "the file of the first one");
        let mode = capture.path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
    }

    #[test]
    fn full_file_is_renamed_so_that_two_files_have_at_most_twice_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let capture = capture(directory.path(), 2000);
        let mut recorder = capture.recorder().unwrap();
        packets(&mut recorder, 200);
        drop(recorder);
        let (now, before) = (len(&capture.path), len(&capture.before()));
        assert!((2000..2100).contains(&before), "{before}");
        assert!(now < 2100, "{now}");
        assert_eq!(directory.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn file_that_cannot_be_created_is_named_in_the_error() {
        let capture = capture(Path::new("/proc/none"), 1);
        let Err(error) = capture.recorder() else {
            panic!("a file in /proc");
        };
        assert!(error.to_string().contains("/proc/none/a.pcapng"), "{error}");
    }

    #[test]
    fn device_is_not_renamed_but_refused() {
        let directory = tempfile::tempdir().unwrap();
        let capture = capture(directory.path(), 1000);
        std::os::unix::fs::symlink("/dev/null", &capture.path).unwrap();
        let Err(error) = capture.recorder() else {
            panic!("a capture in a device");
        };
        assert!(error.to_string().contains("want a file"), "{error}");
        assert!(capture.path.is_symlink() && !capture.before().exists());
    }

    #[test]
    fn packets_that_a_slow_disk_would_let_wait_are_dropped_and_counted() {
        let (copies, _receiver) = channel();
        let mut recorder = Recorder {
            copies: Some(copies),
            counts: Arc::default(),
            thread: None,
        };
        let most = WAITING / cost(&Packet::blank());
        packets(&mut recorder, most as usize + 7);
        assert_eq!(recorder.counts.lost.load(Ordering::Relaxed), 7);
    }
}
