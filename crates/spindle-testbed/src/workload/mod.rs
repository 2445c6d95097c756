//! Carries out the plan of the lab's traffic in real time.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration as StdDuration, Instant as Wall};

use spindle_experiment::hosts::address;
use spindle_experiment::rng::{Purpose, Streams};
use spindle_experiment::scenario::Ask;
use spindle_experiment::traffic::{Plan, PlannedFlow, Start};
use spindle_units::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

mod serve;
mod uploads;

use crate::hosts::PORT;
use crate::hosts::host::{Host, Stream};
use serve::{LEAST_REQUEST, Reader, request, serve};
use uploads::{Inbox, Received};

/// How often timeouts are counted if flows are pushed, many at a time. Asking all hosts before and after each
/// flow would delay the other flows.
const SAMPLE: StdDuration = StdDuration::from_millis(50);
/// How long a request waits for the subflows of its connection (as in the lab).
const JOIN_PATIENCE: StdDuration = StdDuration::from_secs(7);

/// The input for carrying out a plan.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    pub(crate) streams: Streams,
    pub(crate) hosts: Vec<Host>,
    pub(crate) interfaces: Vec<u32>,
    /// The time after which a flow is given up.
    pub(crate) patience: StdDuration,
}

/// The result of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) issued: Option<Wall>,
    pub(crate) completed: Option<Wall>,
    pub(crate) corrupted: u64,
    /// Timeouts of all hosts while the flow was in progress.
    pub(crate) timeouts: u64,
    /// What the server has received of the flow, if it is pushed.
    pub(crate) received: Received,
}

/// A connection with the reader of its responses.
struct Conn {
    stream: Stream,
    reader: Reader,
    interface_planned: usize,
}

struct RunningGateway {
    work: Work,
    persistent: Vec<Mutex<Option<Conn>>>,
    done: RefCell<Vec<Done>>,
    inbox: Rc<Inbox>,
    opened: RefCell<u64>,
    /// Returns the timeouts of all hosts so far.
    timeouts: Count,
    /// The last value of `timeouts`, if it is sampled every [`SAMPLE`].
    sampled: Cell<u64>,
}

/// A future of this thread.
pub(crate) type LocalFuture<T> = std::pin::Pin<Box<dyn Future<Output = T>>>;

/// Counts something over all hosts.
pub(crate) type Count = Box<dyn Fn(&[Host]) -> LocalFuture<u64>>;

/// The results of the plan. The hosts are returned.
pub(crate) struct WorkOutcome {
    pub(crate) done: Vec<Done>,
    pub(crate) plan: Plan,
    pub(crate) hosts: Vec<Host>,
    /// When the run ended.
    pub(crate) ended: Wall,
}

/// A task, and whether the end of the run waits for it.
type Task = (bool, JoinHandle<()>);

/// Carries out the plan. `measuring` is called when the preparation is complete.
pub(crate) async fn work(
    work: Work,
    timeouts: Count,
    measuring: impl AsyncFnOnce(&[Host]),
) -> io::Result<WorkOutcome> {
    let inbox = Rc::new(Inbox::new(work.plan.flows.len()));
    let servers = listen(&work, &inbox).await?;
    let running = Rc::new(RunningGateway {
        persistent: work
            .plan
            .connections
            .iter()
            .map(|_| Mutex::default())
            .collect(),
        done: RefCell::new(vec![Done::default(); work.plan.flows.len()]),
        inbox,
        opened: RefCell::new(0),
        work,
        timeouts,
        sampled: Cell::new(0),
    });
    running.prepare().await?;
    measuring(&running.work.hosts).await;
    let sampling = running.clone().sampling().await;
    let start = Wall::now();
    let mut tasks = running.clone().timed();
    tasks.extend(running.clone().chains().into_iter().map(|t| (true, t)));
    tasks.extend(running.clone().counting());
    tasks.extend(sampling);
    let ends = running.work.plan.ends.map(|after| start + std(after));
    until_over(tasks, ends).await?;
    let ended = Wall::now();
    for server in servers {
        server.abort();
        let _ = server.await;
    }
    let mut done = running.done.borrow().clone();
    for (n, done) in done.iter_mut().enumerate() {
        done.received = running.inbox.get(n);
    }
    let Ok(running) = Rc::try_unwrap(running).map_err(drop) else {
        return Err(io::Error::other("a flow is still running"));
    };
    Ok(WorkOutcome {
        done,
        plan: running.work.plan,
        hosts: running.work.hosts,
        ended,
    })
}

/// Waits for the tasks that the run waits for, or until `ends`. Tasks that are left then are cut off.
async fn until_over(tasks: Vec<Task>, ends: Option<Wall>) -> io::Result<()> {
    let (waited, others): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|(waits, _)| *waits && ends.is_none());
    for (_, task) in waited {
        task.await.map_err(io::Error::other)?;
    }
    if let Some(at) = ends {
        tokio::time::sleep_until(at.into()).await;
    }
    others.iter().for_each(|(_, task)| task.abort());
    for (_, task) in others {
        match task.await {
            Err(e) if !e.is_cancelled() => return Err(io::Error::other(e)),
            _ => {}
        }
    }
    Ok(())
}

async fn listen(work: &Work, inbox: &Rc<Inbox>) -> io::Result<Vec<JoinHandle<()>>> {
    let mut servers: Vec<u32> = work.plan.flows.iter().map(|f| f.server).collect();
    servers.sort_unstable();
    servers.dedup();
    let mut tasks = Vec::new();
    let size = work.plan.request.max(LEAST_REQUEST);
    for host in servers {
        let local = SocketAddr::new(address(host, 0), PORT);
        let listener = work.hosts[host as usize].listen(local).await?;
        tasks.push(match work.plan.push {
            true => tokio::task::spawn_local(uploads::take(listener, inbox.clone())),
            false => tokio::task::spawn_local(serve(listener, size)),
        });
    }
    Ok(tasks)
}

fn std(d: Duration) -> StdDuration {
    StdDuration::from_nanos(d.as_nanos())
}

impl RunningGateway {
    /// Opens a connection. `flow` is given for the connection of a single flow.
    async fn open(&self, client: u32, server: u32, flow: Option<usize>) -> io::Result<Conn> {
        let opened = {
            let mut opened = self.opened.borrow_mut();
            *opened += 1;
            *opened - 1
        };
        let of_flow = flow.filter(|_| self.work.plan.numbered);
        let number = of_flow.map_or(opened, |n| n as u64);
        let work = &self.work;
        let interfaces = work.interfaces[client as usize];
        let interface = work.plan.interface(&work.streams, number, interfaces);
        let port = 10_000 + work.streams.stream(Purpose::Ports, number).below(55_000) as u16;
        let local = SocketAddr::new(address(client, interface), port);
        let remote = SocketAddr::new(address(server, 0), PORT);
        let host = &work.hosts[client as usize];
        Ok(Conn {
            stream: host.connect(local, interface, remote).await?,
            reader: Reader::new(),
            interface_planned: host.planned_subflows(),
        })
    }

    /// Opens and warms up the persistent connections, then leaves them idle.
    async fn prepare(&self) -> io::Result<()> {
        let plan = &self.work.plan;
        for (slot, &(client, server)) in self.persistent.iter().zip(&plan.connections) {
            let mut conn = self.open(client, server, None).await?;
            // The first exchange is for the joins, which follow data. The second covers all subflows.
            for _ in 0..2 {
                if plan.warm_up > 0 {
                    self.exchange(&mut conn, plan.warm_up).await?;
                    let up = conn.stream.subflows_up(conn.interface_planned);
                    let _ = tokio::time::timeout(JOIN_PATIENCE, up).await;
                }
            }
            *slot.lock().await = Some(conn);
        }
        if !plan.connections.is_empty() {
            tokio::time::sleep(std(plan.idle)).await;
        }
        Ok(())
    }

    async fn exchange(&self, conn: &mut Conn, bytes: u64) -> io::Result<()> {
        let size = self.work.plan.request.max(LEAST_REQUEST);
        conn.stream.write_all(&request(size, bytes)).await?;
        conn.reader.read(&mut conn.stream, bytes).await
    }

    /// Starts the flows that have a fixed start time.
    fn timed(self: Rc<Self>) -> Vec<Task> {
        let start = tokio::time::Instant::now();
        let flows = self.work.plan.flows.iter().enumerate();
        let timed = flows.filter_map(|(n, f)| match f.start {
            Start::At(at) => Some((n, std(at))),
            Start::After(_) => None,
        });
        let timed: Vec<(usize, StdDuration)> = timed.collect();
        let spawn = |(n, at)| {
            let running = self.clone();
            let plan = &self.work.plan;
            let waits = plan.awaits(&plan.flows[n]);
            let task = tokio::task::spawn_local(async move {
                tokio::time::sleep_until(start + at).await;
                running.flow(n).await;
            });
            (waits, task)
        };
        timed.into_iter().map(spawn).collect()
    }

    /// Counts timeouts periodically if flows are pushed. The first count is immediate.
    async fn sampling(self: Rc<Self>) -> Option<Task> {
        if !self.work.plan.push {
            return None;
        }
        self.sampled.set((self.timeouts)(&self.work.hosts).await);
        let sampling = async move {
            loop {
                tokio::time::sleep(SAMPLE).await;
                self.sampled.set((self.timeouts)(&self.work.hosts).await);
            }
        };
        Some((false, tokio::task::spawn_local(sampling)))
    }

    /// Sets the time from which background flows count, if it is not the beginning.
    fn counting(self: Rc<Self>) -> Option<Task> {
        let after = self.work.plan.counts_from;
        let counting = async move {
            tokio::time::sleep(std(after)).await;
            self.inbox.count_from_now(&self.work.plan.flows);
        };
        (after > Duration::ZERO).then(|| (false, tokio::task::spawn_local(counting)))
    }

    /// Runs the flows that wait for earlier flows of the same client: one task per client.
    fn chains(self: Rc<Self>) -> Vec<JoinHandle<()>> {
        let flows = &self.work.plan.flows;
        let mut clients: Vec<u32> = flows
            .iter()
            .filter(|f| matches!(f.start, Start::After(_)))
            .map(|f| f.client)
            .collect();
        clients.sort_unstable();
        clients.dedup();
        let spawn = |client| tokio::task::spawn_local(self.clone().chain(client));
        clients.into_iter().map(spawn).collect()
    }

    async fn chain(self: Rc<Self>, client: u32) {
        let of_client = |(_, f): &(usize, &PlannedFlow)| f.client == client;
        let flows = self.work.plan.flows.iter().enumerate();
        let list: Vec<(usize, &PlannedFlow)> = flows.filter(of_client).collect();
        for group in list.chunk_by(|a, b| a.1.group == b.1.group) {
            if let Some(Start::After(gap)) = group.first().map(|(_, f)| f.start)
                && gap > Duration::ZERO
            {
                tokio::time::sleep(std(gap)).await;
            }
            let spawn = |&(n, _): &(usize, &PlannedFlow)| {
                let running = self.clone();
                tokio::task::spawn_local(async move { running.flow(n).await })
            };
            let tasks: Vec<JoinHandle<()>> = group.iter().map(spawn).collect();
            for task in tasks {
                // A flow's task does not panic. If it did, the flow would stay incomplete.
                let _ = task.await;
            }
        }
    }

    async fn flow(&self, n: usize) {
        if self.work.plan.push {
            self.push(n).await;
            return;
        }
        let before = (self.timeouts)(&self.work.hosts).await;
        let mut done = Done {
            issued: Some(Wall::now()),
            ..Done::default()
        };
        let ended = tokio::time::timeout(self.work.patience, self.attempt(n, &mut done)).await;
        if let Ok(Ok(())) = ended {
            done.completed.get_or_insert_with(Wall::now);
        }
        done.timeouts = (self.timeouts)(&self.work.hosts).await - before;
        self.done.borrow_mut()[n] = done;
    }

    /// Carries out a flow that is sent to the server. A background flow may last as long as the run.
    async fn push(&self, n: usize) {
        let flow = self.work.plan.flows[n];
        let before = self.sampled.get();
        let begin = || self.done.borrow_mut()[n].issued = Some(Wall::now());
        begin();
        let attempt = async {
            let mut conn = self.open(flow.client, flow.server, Some(n)).await?;
            if self.work.plan.ask != Ask::Opening {
                begin();
            }
            uploads::send(&mut conn.stream, n as u32, flow.bytes).await
        };
        if flow.is_background() {
            // What the server has received shows the result.
            let _ = attempt.await;
            return;
        }
        let _ = tokio::time::timeout(self.work.patience, attempt).await;
        self.done.borrow_mut()[n].timeouts = self.sampled.get() - before;
    }

    async fn attempt(&self, n: usize, done: &mut Done) -> io::Result<()> {
        let flow = self.work.plan.flows[n];
        if let Some(c) = flow.connection {
            let mut slot = self.persistent[c as usize].lock().await;
            let Some(conn) = slot.as_mut() else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let before = conn.reader.corrupted;
            let result = self.exchange(conn, flow.bytes).await;
            done.corrupted = conn.reader.corrupted - before;
            if result.is_err() {
                *slot = None;
            }
            return result;
        }
        let mut conn = self.open(flow.client, flow.server, Some(n)).await?;
        if self.work.plan.ask == Ask::WhenJoined {
            self.joined(&mut conn).await?;
        }
        if self.work.plan.ask != Ask::Opening {
            done.issued = Some(Wall::now());
        }
        self.exchange(&mut conn, flow.bytes).await?;
        done.completed = Some(Wall::now());
        done.corrupted = conn.reader.corrupted;
        conn.stream.shutdown().await
    }

    /// Waits for the joins. They follow the first data (RFC 8684, section 3.2; the kernel's too). Therefore a
    /// request is sent first. As in the lab, its response is empty.
    async fn joined(&self, conn: &mut Conn) -> io::Result<()> {
        if conn.interface_planned > 1 {
            self.exchange(conn, 0).await?;
        }
        let up = conn.stream.subflows_up(conn.interface_planned);
        match tokio::time::timeout(JOIN_PATIENCE, up).await {
            Ok(up) => up,
            Err(_) => Ok(()),
        }
    }
}
