//! The certificates of a running service: reading them again, and the warning before they end.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spindle_net::backends::Backends;
use spindle_net::metrics::Metrics;
use spindle_net::tls::Certificates;
use spindle_net::users::Users;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, interval_at};

/// How often the log warns of a certificate that ends soon.
const EVERY: Duration = Duration::from_secs(24 * 3600);

/// What a service reads again on SIGHUP, if it has it.
#[derive(Clone, Copy)]
pub(super) struct Reloaded<'a> {
    pub(super) tls: Option<&'a dyn Certificates>,
    /// The users of a proxy for programs.
    pub(super) users: Option<&'a Users>,
    /// The back ends of a gateway.
    pub(super) backends: Option<&'a Backends>,
}

/// Reads the back ends again, in a task: looking up names may take as long as the resolver waits.
struct BackendReader {
    asked: Arc<Notify>,
    task: JoinHandle<()>,
}

impl BackendReader {
    fn new(backends: Backends) -> Self {
        let asked = Arc::new(Notify::new());
        let request = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                // Requests during a reading are one request to read once more afterwards.
                request.notified().await;
                match tokio::task::spawn_blocking(super::gateway::backends_again).await {
                    Ok(Ok(list)) => {
                        backends.replace(list);
                        tracing::info!(%backends, "back ends read again");
                    }
                    Ok(Err(failure)) => {
                        tracing::error!(error = %failure.line(), "back ends stay as they were");
                    }
                    Err(error) => tracing::error!(%error, "back ends stay as they were"),
                }
            }
        });
        Self { asked, task }
    }
}

impl Drop for BackendReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The certificates of a service, if it has any, and where their ends are reported.
pub(super) struct ExpiryWatch<'a> {
    files: Reloaded<'a>,
    metrics: Metrics,
    backends: Option<BackendReader>,
}

impl<'a> ExpiryWatch<'a> {
    /// Reports the ends of the certificates for the first time. Needs tokio's runtime.
    pub(super) fn new(files: Reloaded<'a>, metrics: Metrics) -> Self {
        let watch = Self {
            files,
            metrics,
            backends: files.backends.cloned().map(BackendReader::new),
        };
        watch.look();
        watch
    }

    /// Ticks once a day, for the first time in a day.
    pub(super) fn daily() -> Interval {
        interval_at(Instant::now() + EVERY, EVERY)
    }

    /// Reads the users and the certificates again, begins to read the back ends again, and logs the results. If one of them is
    /// broken, the others are replaced all the same.
    pub(super) fn reload(&self) {
        if let Some(backends) = &self.backends {
            backends.asked.notify_one();
        }
        if let Some(users) = self.files.users {
            match users.reload() {
                Ok(()) => tracing::info!("users read again"),
                Err(error) => tracing::error!(%error, "users stay as they were"),
            }
        }
        match self.files.tls.map_or(Ok(()), Certificates::reload) {
            Ok(()) => {
                tracing::info!("certificates read again");
                self.look();
            }
            Err(error) => tracing::error!(%error, "certificates stay as they were"),
        }
    }

    /// Sets the metric, and warns of certificates that end soon.
    pub(super) fn look(&self) {
        let Some(tls) = self.files.tls else { return };
        let expiries = tls.expiries();
        self.metrics.certificates(&expiries);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_or(0, |t| t.as_secs() as i64);
        expiries.iter().for_each(|e| e.warn(now));
    }
}
