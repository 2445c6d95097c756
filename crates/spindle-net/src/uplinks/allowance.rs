//! Devices that may carry so many bytes in a day or a month.
//!
//! What a device has carried is what the kernel counts, in both directions and for all programs, because that is what a
//! tariff counts. The count survives the program in a file. It starts from zero with each day or month of UTC.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::selection::DevicePattern;

/// How often the file is written while the count grows (our choice): seldom enough for a router's flash memory. A crash
/// of the program loses nothing, since the kernel goes on counting; one of the host loses what was counted since.
const EVERY: Duration = Duration::from_secs(300);
/// Largest file that is read.
const LARGEST: u64 = 1 << 20;

/// How often an allowance is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// With each day of UTC.
    Day,
    /// With each calendar month of UTC.
    Month,
}

impl Period {
    /// The period that contains a time, as text. Later periods have greater texts.
    fn at(self, time: OffsetDateTime) -> String {
        let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
        match self {
            Self::Day => format!("{year:04}-{month:02}-{day:02}"),
            Self::Month => format!("{year:04}-{month:02}"),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Day => "day",
            Self::Month => "month",
        })
    }
}

/// How many bytes the devices of a pattern may carry together.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    /// The pattern as it was given. It is the key in the file.
    pub name: String,
    /// The devices.
    pub devices: DevicePattern,
    /// Bytes in each period.
    pub limit: u64,
    /// When the count starts from zero.
    pub period: Period,
}

/// How much of an allowance is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The pattern of the devices.
    pub name: String,
    /// Bytes carried in this period.
    pub used: u64,
    /// Bytes that may be carried.
    pub limit: u64,
    /// The period's length.
    pub period: Period,
}

impl Usage {
    /// Whether all of it is used.
    pub const fn is_up(&self) -> bool {
        self.used >= self.limit
    }
}

/// The count of an allowance, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The period, such as `2026-11`.
    period: String,
    /// Bytes carried in it.
    used: u64,
    /// The kernel's counter of each device when it was read last.
    counters: BTreeMap<String, u64>,
}

/// Counts what devices carry.
#[derive(Debug)]
pub(super) struct Meter {
    allowances: Vec<Allowance>,
    records: BTreeMap<String, Record>,
    /// Where the counts are stored. `None` if they only live as long as the program.
    file: Option<PathBuf>,
    /// The kernel's counters have been read before.
    begun: bool,
    /// The counts have changed since they were stored.
    changed: bool,
    stored: Option<Instant>,
}

impl Meter {
    /// Counters that go on from those of the file. A file that cannot be read counts as none, with a warning.
    pub(super) fn new(allowances: Vec<Allowance>, file: Option<PathBuf>) -> Self {
        let stored = file.as_deref().map(load);
        let stored = stored.transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "the bytes of metered devices are counted from zero");
            None
        });
        let mut records = stored.unwrap_or_default();
        records.retain(|name, _| allowances.iter().any(|a| a.name == *name));
        Self {
            allowances,
            records,
            file,
            begun: false,
            changed: false,
            stored: None,
        }
    }

    /// Whether there is anything to count.
    pub(super) fn counts(&self) -> bool {
        !self.allowances.is_empty()
    }

    /// Adds what devices have carried since the last call. `counters` are the kernel's for each device.
    pub(super) fn count(&mut self, now: SystemTime, counters: &BTreeMap<String, u64>) {
        let now = OffsetDateTime::from(now);
        for allowance in &self.allowances {
            let record = self.records.entry(allowance.name.clone()).or_default();
            let before = record.clone();
            let period = allowance.period.at(now);
            let starts = record.period.is_empty();
            // A clock that was set back, as that of a router which has none of its own, ends no period.
            if period > record.period {
                record.period = period;
                record.used = 0;
                record.counters.retain(|d, _| counters.contains_key(d));
            }
            let of = |(device, _): &(&String, &u64)| allowance.devices.matches(device);
            for (device, counter) in counters.iter().filter(of) {
                let last = record.counters.insert(device.clone(), *counter);
                let carried = match last {
                    Some(last) if last <= *counter => counter - last,
                    // The device was created again, or appeared while it was watched.
                    Some(_) => *counter,
                    None if self.begun || !starts => *counter,
                    // Nothing is known about what it carried before.
                    None => 0,
                };
                record.used = record.used.saturating_add(carried);
            }
            self.changed |= *record != before;
        }
        self.begun = true;
    }

    /// Whether the allowance of a device is used up.
    pub(super) fn is_used_up(&self, device: &str) -> bool {
        let usage = self.usage();
        let mut of = self.allowances.iter().zip(&usage);
        of.any(|(a, usage)| usage.is_up() && a.devices.matches(device))
    }

    /// How much of each allowance is used.
    pub(super) fn usage(&self) -> Vec<Usage> {
        let of = |a: &Allowance| Usage {
            name: a.name.clone(),
            used: self.records.get(&a.name).map_or(0, |r| r.used),
            limit: a.limit,
            period: a.period,
        };
        self.allowances.iter().map(of).collect()
    }

    /// Stores the counts if they have changed and were last stored some time ago.
    pub(super) fn store_at_times(&mut self) {
        if self.stored.is_none_or(|at| at.elapsed() >= EVERY) {
            self.store();
        }
    }

    /// Stores the counts if they have changed. An error is logged, and it is tried again later.
    pub(super) fn store(&mut self) {
        let Some(file) = self.file.as_deref().filter(|_| self.changed) else {
            return;
        };
        self.stored = Some(Instant::now());
        // Another program may count other devices in the same file.
        let mut all = load(file).unwrap_or_default();
        all.extend(self.records.clone());
        match save(file, &all) {
            Ok(()) => self.changed = false,
            Err(error) => {
                let file = file.display();
                tracing::warn!(%error, %file, "cannot store the bytes of metered devices");
            }
        }
    }
}

/// The directory for what must survive a restart: `$STATE_DIRECTORY`, which systemd sets for a service that has
/// `StateDirectory=`, else `/var/lib/spindle` for root, else `spindle` in `$XDG_STATE_HOME` or `~/.local/state`. `None`
/// for a user without a home.
pub fn state_directory() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|d| !d.is_empty());
    if let Some(own) = named("STATE_DIRECTORY") {
        // Several directories are separated by colons. The first one is used.
        return std::env::split_paths(&own).next();
    }
    if nix::unistd::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/spindle"));
    }
    let home = || Some(PathBuf::from(named("HOME")?).join(".local/state"));
    let base = named("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    Some(base?.join("spindle"))
}

/// Reads a file of counts. A file that does not exist has none.
fn load(file: &Path) -> io::Result<BTreeMap<String, Record>> {
    let with_name = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", file.display()));
    match file.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(with_name(error)),
        Ok(data) if data.len() > LARGEST => {
            let text = "found a file of more than 1 MiB, want one that connect has written";
            return Err(with_name(io::Error::other(text)));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(file).map_err(with_name)?;
    serde_json::from_str(&text).map_err(|e| with_name(e.into()))
}

/// Writes a file of counts in one step, so that a crash leaves the old or the new one.
fn save(file: &Path, records: &BTreeMap<String, Record>) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = file.with_extension("new");
    let text = serde_json::to_string_pretty(records)?;
    std::fs::write(&new, text + "\n")?;
    std::fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;
    /// 2026-11-28, noon.
    const NOON: u64 = 1_795_867_200;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn counters(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter().map(|(d, n)| ((*d).to_owned(), *n)).collect()
    }

    fn monthly(name: &str, limit: u64) -> Allowance {
        Allowance {
            name: name.to_owned(),
            devices: DevicePattern::new(name),
            limit,
            period: Period::Month,
        }
    }

    fn used(meter: &Meter) -> u64 {
        meter.usage()[0].used
    }

    #[test]
    fn bytes_from_the_first_reading_on_count_until_the_limit() {
        let mut meter = Meter::new(vec![monthly("wwan0", 1000)], None);
        meter.count(at(NOON), &counters(&[("wwan0", 70_000), ("eth0", 5)]));
        assert_eq!(used(&meter), 0);
        meter.count(at(NOON + 1), &counters(&[("wwan0", 70_999), ("eth0", 9)]));
        assert_eq!(used(&meter), 999);
        assert!(!meter.is_used_up("wwan0"));
        meter.count(at(NOON + 2), &counters(&[("wwan0", 71_000)]));
        assert!(meter.is_used_up("wwan0") && !meter.is_used_up("eth0"));
    }

    #[test]
    fn devices_of_a_pattern_count_together() {
        let mut meter = Meter::new(vec![monthly("wwan*", 1000)], None);
        meter.count(at(NOON), &counters(&[("wwan0", 0), ("wwan1", 0)]));
        meter.count(at(NOON + 1), &counters(&[("wwan0", 600), ("wwan1", 400)]));
        assert!(meter.is_used_up("wwan0") && meter.is_used_up("wwan7"));
    }

    #[test]
    fn device_that_appears_or_is_created_again_counts_from_its_first_byte() {
        let mut meter = Meter::new(vec![monthly("ppp*", 10_000)], None);
        meter.count(at(NOON), &counters(&[]));
        meter.count(at(NOON + 1), &counters(&[("ppp0", 100)]));
        assert_eq!(used(&meter), 100);
        meter.count(at(NOON + 2), &counters(&[("ppp0", 40)]));
        assert_eq!(used(&meter), 140);
    }

    #[test]
    fn count_starts_from_zero_with_the_month_or_the_day() {
        let daily = Allowance {
            period: Period::Day,
            ..monthly("eth0", 1000)
        };
        for (allowance, days, rest) in [
            (monthly("eth0", 1000), 3, 0),
            (daily, 1, 0),
            (monthly("eth0", 1000), 2, 1000),
        ] {
            let mut meter = Meter::new(vec![allowance], None);
            meter.count(at(NOON), &counters(&[("eth0", 0)]));
            meter.count(at(NOON + 1), &counters(&[("eth0", 1000)]));
            assert!(meter.is_used_up("eth0"));
            meter.count(at(NOON + days * DAY), &counters(&[("eth0", 1000)]));
            assert_eq!(used(&meter), rest, "{days} days later");
        }
    }

    #[test]
    fn clock_that_was_set_back_ends_no_period() {
        let mut meter = Meter::new(vec![monthly("eth0", 1000)], None);
        meter.count(at(NOON), &counters(&[("eth0", 0)]));
        meter.count(at(NOON + 1), &counters(&[("eth0", 800)]));
        meter.count(at(5), &counters(&[("eth0", 1000)]));
        assert!(meter.is_used_up("eth0"));
    }

    #[test]
    fn count_goes_on_after_a_restart_of_the_program_and_of_the_host() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/metered.json");
        let start = || Meter::new(vec![monthly("eth0", 10_000)], Some(file.clone()));
        let mut meter = start();
        meter.count(at(NOON), &counters(&[("eth0", 500)]));
        meter.count(at(NOON + 1), &counters(&[("eth0", 700)]));
        meter.store();
        // 100 bytes while the program did not run.
        let mut meter = start();
        meter.count(at(NOON + 9), &counters(&[("eth0", 800)]));
        assert_eq!(used(&meter), 300);
        meter.store_at_times();
        // The kernel counts from zero, and has counted 50.
        let mut meter = start();
        meter.count(at(NOON + 99), &counters(&[("eth0", 50)]));
        assert_eq!(used(&meter), 350);
    }

    #[test]
    fn two_programs_count_different_devices_in_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("metered.json");
        let start = |name| Meter::new(vec![monthly(name, 10_000)], Some(file.clone()));
        let (mut one, mut other) = (start("eth0"), start("eth1"));
        for bytes in [100, 300] {
            one.count(at(NOON), &counters(&[("eth0", bytes)]));
            other.count(at(NOON), &counters(&[("eth1", 2 * bytes)]));
            one.store();
            other.store();
        }
        assert_eq!((used(&start("eth0")), used(&start("eth1"))), (200, 400));
    }

    #[test]
    fn file_that_cannot_be_read_counts_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("metered.json");
        for text in ["", "[]", "{\"eth0\": {\"used\": -1}}", "\u{0}"] {
            std::fs::write(&file, text).unwrap();
            assert!(
                load(&file)
                    .unwrap_err()
                    .to_string()
                    .contains("metered.json")
            );
            let mut meter = Meter::new(vec![monthly("eth0", 10)], Some(file.clone()));
            meter.count(at(NOON), &counters(&[("eth0", 5)]));
            assert_eq!(used(&meter), 0);
        }
    }

    #[test]
    fn directory_that_cannot_be_written_leaves_the_count_as_it_is() {
        let mut meter = Meter::new(vec![monthly("eth0", 10)], Some("/proc/none/m.json".into()));
        meter.count(at(NOON), &counters(&[("eth0", 5)]));
        meter.store();
        assert!(meter.changed);
        meter.count(at(NOON), &counters(&[("eth0", 9)]));
        assert_eq!(used(&meter), 4);
    }
}
