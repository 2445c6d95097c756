//! SIGHUP: the back ends or rules, and the networks, of a running gateway's services are read again.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use spindle_net::backends::Backends;
use spindle_net::gateway::ServiceHandle;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

use super::super::proxy::{backends_and_sources, rules, sources};
use super::services::Named;
use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::settings::{self, Settings};

/// Reads the services again, in a task: looking up names may take as long as the resolver waits.
pub(in crate::commands) struct ServiceReader {
    asked: Arc<Notify>,
    task: JoinHandle<()>,
}

impl ServiceReader {
    /// A reader for these services. Needs tokio's runtime.
    pub(in crate::commands) fn new(services: Vec<ServiceHandle>) -> Self {
        let asked = Arc::new(Notify::new());
        let request = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                // Requests during a reading are one request to read once more afterwards.
                request.notified().await;
                match spawn_blocking(read_again).await {
                    Ok(Ok(read)) => apply(&services, read).await,
                    Ok(Err(failure)) => {
                        tracing::error!(error = %failure.line(), "back ends, rules and networks stay as they were");
                    }
                    Err(error) => {
                        tracing::error!(%error, "back ends, rules and networks stay as they were");
                    }
                }
            }
        });
        Self { asked, task }
    }

    /// Begins to read.
    pub(in crate::commands) fn read(&self) {
        self.asked.notify_one();
    }
}

impl Drop for ServiceReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the process's flags, and its file of flags as it is now, describe.
struct Read {
    services: Vec<Named>,
    settings: Option<Settings>,
}

/// Reports a mistake with its place in the file, if there is one.
fn placed(settings: Option<&Settings>, failure: Failure) -> Failure {
    match settings {
        Some(settings) => settings.place(failure),
        None => failure,
    }
}

fn read_again() -> Result<Read, Failure> {
    let (arguments, settings) = settings::read(std::env::args_os().collect())?;
    let args = Args::try_parse_from(arguments).map_err(|e| Failure::Usage(e.to_string()))?;
    let Command::Gateway(args) = args.command else {
        let text = "this process was not started as `spindle gateway`";
        return Err(Failure::Other(text.to_owned()));
    };
    let tables = settings.as_ref().map_or(&[][..], Settings::services);
    match Named::all(&args, tables) {
        Ok(services) => Ok(Read { services, settings }),
        Err(failure) => Err(placed(settings.as_ref(), failure)),
    }
}

/// Finds the description of each running service, by its name, or else by its addresses. Returns pairs of indices, and
/// the descriptions of no running service.
fn pairs(
    running: &[(&str, HashSet<SocketAddr>)],
    file: &[(&str, HashSet<SocketAddr>)],
) -> (Vec<Option<usize>>, Vec<usize>) {
    let mut found: Vec<Option<usize>> = running
        .iter()
        .map(|(name, _)| file.iter().position(|(other, _)| name == other))
        .collect();
    for (at, (_, listen)) in running.iter().enumerate() {
        let free = |i: &usize| !found.contains(&Some(*i)) && file[*i].1 == *listen;
        if found[at].is_none() {
            found[at] = (0..file.len()).find(free);
        }
    }
    let left = (0..file.len()).filter(|i| !found.contains(&Some(*i)));
    let left = left.collect();
    (found, left)
}

/// What is needed if addresses differ: a process that takes over keeps the addresses of all services together.
fn restart(
    running: &[(&str, HashSet<SocketAddr>)],
    file: &[(&str, HashSet<SocketAddr>)],
) -> &'static str {
    let all = |list: &[(&str, HashSet<SocketAddr>)]| -> HashSet<SocketAddr> {
        list.iter()
            .flat_map(|(_, listen)| listen)
            .copied()
            .collect()
    };
    match all(running) == all(file) {
        true => "a restart (SIGUSR2) is needed",
        false => "a restart is needed: stop and start, since SIGUSR2 keeps the addresses",
    }
}

/// Applies what was read: the networks of all services first, since names may take long to look up.
async fn apply(services: &[ServiceHandle], read: Read) {
    let (file, settings) = (read.services, Arc::new(read.settings));
    let listen: Vec<_> = services
        .iter()
        .map(|s| (s.name(), s.listen().into_iter().collect()))
        .collect();
    let read: Vec<_> = file
        .iter()
        .map(|n| (&*n.name, n.listen.iter().copied().collect()))
        .collect();
    let (found, left) = pairs(&listen, &read);
    let restart = restart(&listen, &read);
    for at in left {
        let service = &*file[at].name;
        tracing::warn!(service, "a service of the file does not run; {restart}");
    }
    for (at, (service, found)) in services.iter().zip(&found).enumerate() {
        let name = service.name();
        let Some(found) = *found else {
            tracing::warn!(
                service = name,
                "the service is not in the file and stays as it was; {restart}"
            );
            continue;
        };
        if listen[at].1 != read[found].1 {
            tracing::warn!(
                service = name,
                "the listening addresses in the file differ and stay as they were; {restart}"
            );
        }
        match service.set_networks(&file[found].networks).await {
            Ok(reset) => tracing::info!(service = name, reset, "networks read again"),
            Err(error) => tracing::error!(service = name, %error, "networks stay as they were"),
        }
    }
    drop(read);
    let mut file: Vec<_> = file.into_iter().map(Some).collect();
    for (service, found) in services.iter().zip(found) {
        if let Some(named) = found.and_then(|at| file[at].take()) {
            replace_destination(service, named, settings.clone()).await;
        }
    }
}

/// Applies the rules of a service, or looks up its back ends again.
async fn replace_destination(
    service: &ServiceHandle,
    named: Named,
    settings: Arc<Option<Settings>>,
) {
    let name = service.name();
    let place = |f| placed((*settings).as_ref(), named.asked.place(f));
    let forwards = !named.asked.forward.is_empty();
    match (service.forwarder(), service.backends()) {
        (Some(running), _) if forwards => {
            let read = rules(&named.asked).and_then(|r| Ok((r, sources(&named.asked)?)));
            match read.map_err(place) {
                Ok((rules, sources)) => {
                    running.replace(rules);
                    running.sources().replace(sources);
                    tracing::info!(service = name, rules = %running.rules(), "rules read again");
                }
                Err(failure) => {
                    tracing::error!(service = name, error = %failure.line(), "rules stay as they were");
                }
            }
        }
        (None, Some(running)) if !forwards => {
            replace_backends(running, named, settings).await;
        }
        _ => tracing::warn!(
            service = name,
            "the file has to in place of forward, or the reverse; a restart (SIGUSR2) is needed"
        ),
    }
}

/// Looks up back ends again.
async fn replace_backends(running: &Backends, named: Named, settings: Arc<Option<Settings>>) {
    let name = named.name.clone();
    let again = move || {
        let place = |f| placed((*settings).as_ref(), named.asked.place(f));
        backends_and_sources(&named.asked).map_err(place)
    };
    match spawn_blocking(again).await {
        Ok(Ok((list, sources))) => {
            running.replace(list);
            running.sources().replace(sources);
            tracing::info!(service = %name, backends = %running, "back ends read again");
        }
        Ok(Err(failure)) => {
            tracing::error!(service = %name, error = %failure.line(), "back ends stay as they were");
        }
        Err(error) => {
            tracing::error!(service = %name, %error, "back ends stay as they were");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service<'a>(name: &'a str, listen: &[u16]) -> (&'a str, HashSet<SocketAddr>) {
        let addr = |port: &u16| SocketAddr::from(([192, 0, 2, 1], *port));
        (name, listen.iter().map(addr).collect())
    }

    #[test]
    fn a_running_service_is_found_in_the_file_by_its_name_or_else_by_its_addresses() {
        let running = [
            service("a", &[1]),
            service("b", &[2, 3]),
            service("c", &[4]),
        ];
        let file = [
            service("new", &[5]),
            service("renamed", &[3, 2]),
            service("a", &[9]),
        ];
        let (found, left) = pairs(&running, &file);
        assert_eq!(found, [Some(2), Some(1), None]);
        assert_eq!(left, [0]);
    }

    #[test]
    fn services_that_exchange_their_names_are_found_by_their_names() {
        let running = [service("a", &[1]), service("b", &[2])];
        let file = [service("b", &[1]), service("a", &[2])];
        assert_eq!(pairs(&running, &file), (vec![Some(1), Some(0)], vec![]));
    }
}
