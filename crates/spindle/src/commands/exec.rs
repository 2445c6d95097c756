//! `spindle exec`: a program whose TCP connections all go to a gateway, in a network of its own.
//!
//! Three processes take part:
//!
//! 1. The process that the user starts checks the flags, starts the launcher, and enters the namespaces. It passes the
//!    sockets that it opens there to the service, and executes the program when the service is ready. The program therefore has
//!    the user's terminal, its exit code and signals are those of the process that the user started, and the service is not its
//!    child.
//! 2. The launcher starts the service and ends.
//! 3. The service is a connect service outside the namespaces. It ends when the program has ended.
//!
//! A Unix socket, the standard input of the other two, joins the first process to the service.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use spindle_experiment::registry::Registry;
use spindle_net::Targets;
use spindle_net::connect::{Connect, Destination};
use spindle_net::descriptors;
use spindle_net::proxy::Proxy;
use spindle_net::redirect::names::Names;
use spindle_net::redirect::resolver;
use spindle_net::service::{detach, process_handle, wait_for_process};
use spindle_net::setup::{IsolateError, Isolated, isolate};

use super::connect::{Connecting, Entered};
use super::proxy::{answer_early, fallback};
use crate::args::service::{Connect as Args, Exec, Part};
use crate::failure::Failure;

/// Exit code of a program that was found and could not be executed, and of one that was not found (env(1), POSIX).
const NOT_EXECUTED: u8 = 126;
const NOT_FOUND: u8 = 127;
/// The first flag of the launcher.
const LAUNCHER: &str = "--part=launcher";
/// What the service sends when it is ready.
const READY: u8 = b'r';

impl From<IsolateError> for Failure {
    fn from(e: IsolateError) -> Self {
        Self::Other(e.to_string())
    }
}

pub(crate) fn exec(registry: &Registry, args: &Exec) -> Result<ExitCode, Failure> {
    match args.part {
        None => become_program(registry, args),
        Some(Part::Launcher) => launch(Part::Service, Stdio::inherit()).map(|_| ExitCode::SUCCESS),
        Some(Part::Service) => serve(registry, args),
    }
}

/// Checks the flags. The names that the program looks up are shared with the name server.
fn connecting(registry: &Registry, args: &Args, names: Names) -> Result<Connecting, Failure> {
    let bundle = args.bundle.as_ref();
    if bundle.is_some_and(|b| b.0 == "-") {
        let text = ": standard input is the program's; give a file";
        return Err(Failure::setting("bundle", text));
    }
    let destination = |args: &Args, via: Option<Targets>| {
        if via.is_none() {
            let text = "want --bundle FILE or --via ADDR:PORT: the gateway with --forward that connects to the program's targets";
            return Err(Failure::setting("", text));
        }
        Ok(Destination::Programs(Proxy {
            fallback: fallback(args, via.as_ref(), true)?,
            via,
            answer_early: answer_early(args.answer_early),
            socks5: false,
            http_connect: false,
            redirected: true,
            names: Some(names),
            users: None,
        }))
    };
    Connecting::new(registry, args, |_| Ok(Vec::new()), destination)
}

/// The failure for an operating system that refuses something.
fn system(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |e| Failure::Other(format!("{what}: {e}"))
}

/// Starts this command again as another of its processes.
fn launch(part: Part, input: Stdio) -> Result<std::process::Child, Failure> {
    let mut words = std::env::args_os().peekable();
    let name = words.next().unwrap_or_else(|| "spindle".into());
    // `exec`, before all flags.
    let command: Vec<OsString> = words.by_ref().take(1).collect();
    words.next_if(|word| word == LAUNCHER);
    let part = match part {
        Part::Launcher => LAUNCHER,
        Part::Service => "--part=service",
    };
    Command::new("/proc/self/exe")
        .arg0(name)
        .args(command)
        .arg(part)
        .args(words)
        .stdin(input)
        // A reader of the program's output must not wait for the service.
        .stdout(Stdio::null())
        .spawn()
        .map_err(system("cannot start the service"))
}

/// The first process.
fn become_program(registry: &Registry, args: &Exec) -> Result<ExitCode, Failure> {
    drop(connecting(registry, &args.connect, Names::default())?);
    let (mut service, input) = UnixStream::pair().map_err(system("no socket"))?;
    let launched = launch(Part::Launcher, OwnedFd::from(input).into())?
        .wait()
        .map_err(system("the launcher"))?;
    if !launched.success() {
        return Err(Failure::Other(
            "the service could not be started".to_owned(),
        ));
    }
    let isolated = isolate()?;
    hand_over(&service, &isolated).map_err(system("the service takes no sockets"))?;
    drop(isolated);
    let mut ready = [0];
    // At the end of the stream, the service has reported on standard error why it could not start.
    match service.read(&mut ready) {
        Ok(1) if ready[0] == READY => {}
        _ => {
            return Err(Failure::Other(
                "the program was not started: its service has ended".to_owned(),
            ));
        }
    }
    drop(service);
    let (program, arguments) = args
        .program
        .split_first()
        .ok_or_else(|| Failure::Usage("want a program to run, after --".to_owned()))?;
    let error = Command::new(program)
        .args(arguments)
        // glibc would search these domains first.
        .env_remove("LOCALDOMAIN")
        .exec();
    eprintln!("error: {}: {error}", program.to_string_lossy());
    Ok(ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTED,
    }))
}

/// Passes a handle of this process and all sockets to the service.
fn hand_over(service: &UnixStream, isolated: &Isolated) -> io::Result<()> {
    let process = process_handle(std::process::id())?;
    let mut all = vec![process.as_fd()];
    all.extend(isolated.listeners.iter().map(|l| l.as_fd()));
    all.extend(isolated.name_servers.iter().map(|s| s.as_fd()));
    descriptors::send(service, &all)
}

/// What the first process passes.
struct Given {
    process: OwnedFd,
    listeners: Vec<TcpListener>,
    name_servers: Vec<UdpSocket>,
}

/// Receives what [`hand_over`] sends: a handle, and as many listeners as sockets of the name server.
fn take(first: &UnixStream) -> io::Result<Given> {
    let mut all = descriptors::receive(first)?.into_iter();
    let process = all.next().ok_or(io::ErrorKind::InvalidData)?;
    let families = all.len() / 2;
    Ok(Given {
        process,
        listeners: all.by_ref().take(families).map(TcpListener::from).collect(),
        name_servers: all.map(UdpSocket::from).collect(),
    })
}

/// The service.
fn serve(registry: &Registry, args: &Exec) -> Result<ExitCode, Failure> {
    // The signals of the terminal are for the program.
    detach().map_err(system("no session of its own"))?;
    let input = io::stdin().as_fd().try_clone_to_owned();
    let mut first = UnixStream::from(input.map_err(system("no socket to the program"))?);
    let given = match take(&first) {
        Ok(given) => given,
        // The first process has reported why it ended.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(ExitCode::FAILURE),
        Err(e) => return Err(system("no sockets from the program")(e)),
    };
    let names = Names::default();
    let plan = connecting(registry, &args.connect, names.clone())?;
    let program = args
        .program
        .first()
        .map(|p| p.to_string_lossy().into_owned());
    plan.run(async |network, options| {
        tracing::info!(
            program,
            "TCP connections of the program go to the gateway. UDP has no way out: QUIC, games and calls fail at once"
        );
        for socket in given.name_servers {
            let failed = system("the name server's socket cannot be used");
            let nonblocking = socket.set_nonblocking(true);
            let socket = nonblocking.and_then(|()| tokio::net::UdpSocket::from_std(socket));
            let serving = resolver::serve(socket.map_err(failed)?, names.clone());
            tokio::spawn(async move {
                if let Err(error) = serving.await {
                    tracing::error!(%error, "names of the program are no longer resolved");
                }
            });
        }
        let connect = Connect::from_listeners(network, options, given.listeners).await?;
        let id = descriptors::peer(&first).map_or_else(|_| "0".to_owned(), |id| id.to_string());
        Ok(Entered {
            connect,
            kind: "exec",
            // The control socket is named after what follows the colon.
            listen: vec![format!("process:{id}")],
            end: Box::pin(async move {
                // If the first process has ended, so has the program.
                if first.write_all(&[READY]).is_ok() {
                    drop(first);
                    if let Err(error) = wait_for_process(given.process).await {
                        tracing::error!(%error, "the program cannot be watched");
                    }
                }
            }),
        })
    })
}
