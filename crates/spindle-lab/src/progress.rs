//! The progress of a sweep on standard error: a bar on a terminal, otherwise a line from time to time, so that
//! the log of a long run shows it as well.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(30);

/// The progress of one experiment's runs.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Nothing is shown.
    Hidden,
    /// A bar that is redrawn in place.
    Bar(ProgressBar),
    /// A line from time to time.
    Lines(Mutex<Lines>),
}

/// The state behind the lines.
#[derive(Debug)]
pub(crate) struct Lines {
    name: String,
    runs: usize,
    done: usize,
    began: Instant,
    last: Instant,
}

impl Lines {
    fn new(name: &str, runs: usize, now: Instant) -> Self {
        Self {
            name: name.to_owned(),
            runs,
            done: 0,
            began: now,
            last: now,
        }
    }

    /// Counts a finished run. Returns the line that is due, if any.
    fn done(&mut self, now: Instant) -> Option<String> {
        self.done += 1;
        if now - self.last < PAUSE {
            return None;
        }
        self.last = now;
        let left = self.runs.saturating_sub(self.done);
        let rest = (now - self.began).mul_f64(left as f64 / self.done as f64);
        let (name, done, runs) = (&self.name, self.done, self.runs);
        let minutes = rest.as_secs_f64() / 60.0;
        Some(format!("{name}: {done}/{runs} runs, {minutes:.1} min left"))
    }
}

impl Progress {
    /// The progress of `runs` runs of the experiment `name`.
    pub(crate) fn new(shown: bool, name: &str, runs: usize) -> Self {
        if !shown {
            return Self::Hidden;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Mutex::new(Lines::new(name, runs, Instant::now())));
        }
        let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
        let template = "{msg} {wide_bar} {pos}/{len} runs, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(name.to_owned());
        Self::Bar(bar)
    }

    /// Counts a finished run.
    pub(crate) fn step(&self) {
        match self {
            Self::Hidden => {}
            Self::Bar(bar) => bar.inc(1),
            Self::Lines(lines) => {
                let line = lines.lock().ok().and_then(|mut l| l.done(Instant::now()));
                if let Some(line) = line {
                    eprintln!("{line}");
                }
            }
        }
    }

    /// Ends the display. A bar is removed.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_the_time_left_is_due_every_half_minute() {
        let start = Instant::now();
        let mut lines = Lines::new("fig", 10, start);
        assert_eq!(lines.done(start + Duration::from_secs(29)), None);
        let line = lines.done(start + Duration::from_secs(60));
        assert_eq!(line.as_deref(), Some("fig: 2/10 runs, 4.0 min left"));
        assert_eq!(lines.done(start + Duration::from_secs(89)), None);
        assert!(lines.done(start + Duration::from_secs(90)).is_some());
    }
}
