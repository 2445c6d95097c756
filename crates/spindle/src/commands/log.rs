//! The log on standard error, with a limit on the rate of lines of one kind.
//!
//! Clients cause log lines: one for each connection that ends, is refused, or fails its TLS handshake. Each
//! place of the program that logs therefore has a token bucket. Lines that find it empty are counted, and the
//! count is logged as one line.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::service::{LogFormat, LogLevel};

/// A bucket holds the tokens of this time. They are the lines of one kind that may be logged at once.
const BURST: Duration = Duration::from_secs(10);
/// How often counts of suppressed lines are logged.
pub(super) const SUMMARY: Duration = Duration::from_secs(10);

/// The state of lines of one kind, which come from one place in the program.
#[derive(Debug)]
struct Kind {
    /// Lines that may still be logged, as of `at`.
    tokens: f64,
    at: Instant,
    /// Lines that were not logged since the last summary, and the message of the first of them.
    suppressed: u64,
    message: String,
}

/// Limits the rate of lines of each kind.
#[derive(Debug)]
struct Buckets {
    /// Lines a second of each kind. `None` disables the limit.
    rate: Option<f64>,
    kinds: Mutex<HashMap<Identifier, Kind>>,
}

impl Buckets {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line of this kind must be logged now. `message` is called for the first line that is not.
    fn admit(&self, kind: Identifier, now: Instant, message: impl FnOnce() -> String) -> bool {
        let Some(rate) = self.rate else { return true };
        let most = rate * BURST.as_secs_f64();
        let mut kinds = self.lock();
        let k = kinds.entry(kind).or_insert_with(|| Kind {
            tokens: most,
            at: now,
            suppressed: 0,
            message: String::new(),
        });
        let since = now.saturating_duration_since(k.at).as_secs_f64();
        (k.tokens, k.at) = ((k.tokens + since * rate).min(most), now);
        if k.tokens >= 1.0 {
            k.tokens -= 1.0;
            return true;
        }
        if k.suppressed == 0 {
            k.message = message();
        }
        k.suppressed += 1;
        false
    }

    /// Takes the counts of lines that were not logged.
    fn suppressed(&self) -> Vec<(String, u64)> {
        let mut kinds = self.lock();
        let some = kinds.values_mut().filter(|k| k.suppressed > 0);
        some.map(|k| {
            let count = std::mem::take(&mut k.suppressed);
            (std::mem::take(&mut k.message), count)
        })
        .collect()
    }
}

/// The filter of a subscriber that asks the buckets.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    level: LevelFilter,
    buckets: Arc<Buckets>,
}

impl Limiter {
    /// `rate` is the number of lines a second of each kind. 0 disables the limit.
    fn new(level: LevelFilter, rate: u32) -> Self {
        let buckets = Buckets {
            rate: (rate > 0).then_some(f64::from(rate)),
            kinds: Mutex::default(),
        };
        Self {
            level,
            buckets: Arc::new(buckets),
        }
    }

    /// Logs how many lines of each kind were suppressed since the last call. These summaries also have a
    /// bucket, but there are few kinds, and one line for each in [`SUMMARY`].
    pub(super) fn summarize(&self) {
        for (message, suppressed) in self.buckets.suppressed() {
            tracing::warn!(suppressed, like = %message, "lines of the log were suppressed; --log-rate says how many are logged");
        }
    }
}

impl<S: Subscriber> Filter<S> for Limiter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        *metadata.level() <= self.level
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let kind = event.metadata().callsite();
        self.buckets
            .admit(kind, Instant::now(), || Message::of(event))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }
}

/// An event's message.
#[derive(Default)]
struct Message(String);

impl Message {
    fn of(event: &Event<'_>) -> String {
        let mut message = Self::default();
        event.record(&mut message);
        message.0
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Starts the log with `rate` lines a second of each kind, or without a limit if it is 0. A log that exists
/// already stays.
pub(super) fn start(format: LogFormat, level: LogLevel, rate: u32) -> Limiter {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let limiter = Limiter::new(level, rate);
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(limiter.clone()));
    // This fails if a log exists already, which stays.
    let _ = log.try_init();
    limiter
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_one_kind_beyond_the_burst_are_counted_and_summed_up() {
        const FLOOD: u64 = 100_000;
        let (lines, limiter) = (Lines::default(), Limiter::new(LevelFilter::INFO, 1));
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(layer.with_filter(limiter.clone()));
        tracing::subscriber::with_default(log, || {
            for n in 0..FLOOD {
                tracing::warn!(n, "refused");
            }
            tracing::info!("of another kind");
            tracing::debug!("below the level");
            limiter.summarize();
            limiter.summarize();
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let count = |what: &str| text.lines().filter(|l| l.contains(what)).count() as u64;
        let logged = count(" refused n=");
        // Ten lines at once, and one for each second that this took.
        assert!((10..FLOOD / 10).contains(&logged), "{logged}");
        assert_eq!((count("another kind"), count("below")), (1, 0), "{text}");
        let summary = format!("suppressed={} like=refused", FLOOD - logged);
        assert_eq!((count("suppressed"), count(&summary)), (1, 1), "{text}");
    }

    #[test]
    fn a_bucket_is_refilled_at_its_rate_and_never_beyond_the_burst() {
        let buckets = Limiter::new(LevelFilter::INFO, 2).buckets;
        let site =
            tracing::callsite!(name: "a kind", kind: tracing::metadata::Kind::EVENT, fields: a);
        let kind = tracing::callsite::Callsite::metadata(site).callsite();
        let begin = Instant::now();
        let admitted = |after: u64| {
            let now = begin + Duration::from_secs(after);
            let lines = (0..100).filter(|_| buckets.admit(kind.clone(), now, String::new));
            lines.count()
        };
        assert_eq!((admitted(0), admitted(0)), (20, 0));
        assert_eq!((admitted(3), admitted(3)), (6, 0));
        assert_eq!(admitted(3600), 20);
        let unlimited = Limiter::new(LevelFilter::INFO, 0).buckets;
        assert!((0..1000).all(|_| unlimited.admit(kind.clone(), begin, String::new)));
    }
}
