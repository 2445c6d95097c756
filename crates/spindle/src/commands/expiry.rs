//! The certificates of a running service: reading them again, and the warning before they end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spindle_net::gateway::ServiceHandle;
use spindle_net::metrics::Metrics;
use spindle_net::tls::Certificates;
use spindle_net::users::Users;
use tokio::time::{Instant, Interval, interval_at};

use super::gateway::ServiceReader;

/// How often the log warns of a certificate that ends soon.
const EVERY: Duration = Duration::from_secs(24 * 3600);

/// What a service reads again on SIGHUP, if it has it.
#[derive(Clone, Copy)]
pub(super) struct Reloaded<'a> {
    pub(super) tls: Option<&'a dyn Certificates>,
    /// The users of a proxy for programs.
    pub(super) users: Option<&'a Users>,
}

/// The certificates of a service, if it has any, and where their ends are reported.
pub(super) struct ExpiryWatch<'a> {
    files: Reloaded<'a>,
    metrics: Metrics,
    services: Option<ServiceReader>,
}

impl<'a> ExpiryWatch<'a> {
    /// Reports the ends of the certificates for the first time. Needs tokio's runtime.
    pub(super) fn new(files: Reloaded<'a>, services: Vec<ServiceHandle>, metrics: Metrics) -> Self {
        let watch = Self {
            files,
            metrics,
            services: (!services.is_empty()).then(|| ServiceReader::new(services)),
        };
        watch.look();
        watch
    }

    /// Ticks once a day, for the first time in a day.
    pub(super) fn daily() -> Interval {
        interval_at(Instant::now() + EVERY, EVERY)
    }

    /// Reads the users and the certificates again, begins to read the services of a gateway again, and logs the results. If one of them is
    /// broken, the others are replaced all the same.
    pub(super) fn reload(&self) {
        if let Some(services) = &self.services {
            services.read();
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
