//! [`Client`]: opens connections over UDP, and [`TcpStream::connect`] and [`TcpListener::bind`] for programs that
//! need no other set-up.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

use spindle_mptcp::path_manager::{FullMesh, Passive};
use spindle_mptcp::{Config, DEFAULT_TRANSPORT, preset};

use crate::dial::{Sources, dial};
use crate::error::NetError;
use crate::limits::Limits;
use crate::socket::{ListenOptions, Network, NetworkConfig, TcpListener, TcpStream};
use crate::target::Target;
use crate::udp::{UdpClient, UdpClientOptions, UdpServer};
#[cfg(feature = "uplinks")]
use crate::uplinks::{Selection, Uplinks, Watching};
use crate::wire_config::{LinkKind, NEXT_PATH_AFTER, wire_config};

/// The client that [`TcpStream::connect`] uses. It is made at the first call.
static SHARED: Mutex<Option<Client>> = Mutex::new(None);

/// Opens connections over UDP to hosts that run Spindle ([`TcpListener::bind`], or a gateway with `--udp`).
///
/// All connections of a client share one data path, a thread, and what it has learnt of the paths. Clones refer to the
/// same data path. It ends when the last clone and the last connection no longer exist.
///
/// ```no_run
/// # async fn example() -> Result<(), spindle_net::NetError> {
/// let client = spindle_net::Client::builder()
///     .local_on("192.0.2.7".parse().unwrap(), "wlan0")
///     .local_on("198.51.100.9".parse().unwrap(), "wwan0")
///     .backup("198.51.100.9".parse().unwrap())
///     .build()?;
/// let stream = client.connect("server.example:7000").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    network: Network,
    local: Arc<Sources>,
    config: Arc<Config>,
    /// Follows the uplinks as long as a clone exists.
    #[cfg(feature = "uplinks")]
    watching: Option<Arc<Watching>>,
}

/// Options of a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    transport: String,
    local: Vec<IpAddr>,
    devices: Vec<(IpAddr, String)>,
    backup: Vec<IpAddr>,
    limits: Limits,
}

impl ClientBuilder {
    /// The transport, by the name that [`spindle_mptcp::preset`] knows it by. The default is
    /// [`spindle_mptcp::DEFAULT_TRANSPORT`].
    #[must_use]
    pub fn transport(mut self, name: &str) -> Self {
        name.clone_into(&mut self.transport);
        self
    }

    /// Adds a path: an address of this host. Each connection uses all paths. Without any, each connection has
    /// one path, from the address that the system chooses at that time.
    #[must_use]
    pub fn local(mut self, addr: IpAddr) -> Self {
        if !self.local.contains(&addr) {
            self.local.push(addr);
        }
        self
    }

    /// Like [`Self::local`], and its packets leave through this device, whatever the routes to the peer are. It needs no
    /// privileges since Linux 5.7.
    #[must_use]
    pub fn local_on(mut self, addr: IpAddr, device: &str) -> Self {
        self.devices.push((addr, device.to_owned()));
        self.local(addr)
    }

    /// Makes the path of an address a backup, which carries data only when no other path is left (RFC 8684,
    /// section 3.3.8).
    #[must_use]
    pub fn backup(mut self, addr: IpAddr) -> Self {
        self.backup.push(addr);
        self
    }

    /// Upper limits of the memory and the number of connections.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts the client's data path.
    ///
    /// # Errors
    /// [`NetError::Transport`] if there is no such transport, [`NetError::System`] if the system refuses a thread or
    /// random numbers.
    pub fn build(self) -> Result<Client, NetError> {
        let local = match self.local.is_empty() {
            true => Sources::System,
            false => Sources::Listed(self.local.clone()),
        };
        self.with(local)
    }

    /// Starts the client's data path and follows the uplinks of this host: open connections join each one that appears, and
    /// leave each one that is lost. Paths of [`Self::local`] are ignored. Call it within tokio's runtime.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), spindle_net::NetError> {
    /// use spindle_net::{Client, uplinks::Selection};
    /// let all = Selection { automatic: true, ..Selection::default() };
    /// let client = Client::builder().follow(all).await?;
    /// let stream = client.connect("server.example:7000").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Self::build`], and [`NetError::System`] if the host has no netlink.
    #[cfg(feature = "uplinks")]
    pub async fn follow(mut self, selection: Selection) -> Result<Client, NetError> {
        self.local.clear();
        self.devices.clear();
        let uplinks = Uplinks::new(selection, Vec::new());
        let mut client = self.with(Sources::Uplinks(uplinks.clone()))?;
        let watching = uplinks.start(&client.network).await;
        let watching = watching.map_err(NetError::system("cannot follow the uplinks"))?;
        client.watching = Some(Arc::new(watching));
        Ok(client)
    }

    fn with(self, local: Sources) -> Result<Client, NetError> {
        let preset = preset(&self.transport);
        let preset = preset.ok_or_else(|| NetError::Transport(self.transport.clone()))?;
        let paths = Arc::new(FullMesh);
        let mut config = wire_config(preset.config, LinkKind::Udp, &self.limits, paths);
        if let Some(m) = &mut config.multipath {
            m.backup_addresses = self.backup;
            m.syn_race.get_or_insert(NEXT_PATH_AFTER);
        }
        let link = UdpClient::new(UdpClientOptions {
            interfaces: self.devices,
            follow_system: matches!(local, Sources::System),
            ..UdpClientOptions::default()
        })?;
        let network = NetworkConfig {
            stack: self.limits.stack(self.local),
            name: String::new(),
        };
        Ok(Client {
            network: Network::start(network, Box::new(link))?,
            local: Arc::new(local),
            config: Arc::new(config),
            #[cfg(feature = "uplinks")]
            watching: None,
        })
    }
}

impl Client {
    /// Options with the default transport and limits, and the address that the system chooses.
    pub fn builder() -> ClientBuilder {
        ClientBuilder {
            transport: DEFAULT_TRANSPORT.to_owned(),
            local: Vec::new(),
            devices: Vec::new(),
            backup: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Opens a connection to a target: a [`SocketAddr`](std::net::SocketAddr), or text such as `"server.example:7000"`. The port is that of UDP
    /// and of the TCP segments inside. The addresses of a name are tried 250 ms apart, and the first one that answers
    /// is used (RFC 8305). How long that may take is up to the caller (`tokio::time::timeout`); the stack gives up
    /// after its own SYN timers.
    ///
    /// # Errors
    /// [`NetError::Target`] for other text, [`NetError::System`] if the name is unknown,
    /// [`NetError::NoLocalAddress`], and the errors of [`Network::connect`].
    pub async fn connect<T>(&self, to: T) -> Result<TcpStream, NetError>
    where
        T: TryInto<Target>,
        NetError: From<T::Error>,
    {
        self.open(to.try_into()?).await
    }

    async fn open(&self, target: Target) -> Result<TcpStream, NetError> {
        let opened = dial(
            &self.network,
            &self.local,
            &target.into(),
            &self.config,
            None,
        )
        .await;
        opened.map(|(stream, _)| stream)
    }

    /// The data path that the client's connections use.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The client of this process. With `renew`, a new one takes its place.
    fn shared(renew: bool) -> Result<Self, NetError> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = shared.as_ref().filter(|_| !renew) {
            return Ok(client.clone());
        }
        let new = Self::builder().build()?;
        *shared = Some(new.clone());
        Ok(new)
    }
}

impl TcpStream {
    /// Opens a connection over UDP with the default transport, from the address that the system chooses. All
    /// connections that a process opens in this way share one [`Client`]. For several paths, or other settings, use
    /// [`Client::builder`].
    ///
    /// # Errors
    /// The errors of [`ClientBuilder::build`] and [`Client::connect`].
    pub async fn connect<T>(to: T) -> Result<Self, NetError>
    where
        T: TryInto<Target>,
        NetError: From<T::Error>,
    {
        let target = to.try_into()?;
        match Client::shared(false)?.open(target.clone()).await {
            Err(NetError::Stopped(_)) => Client::shared(true)?.open(target).await,
            opened => opened,
        }
    }
}

impl TcpListener {
    /// Listens on a UDP port for connections over UDP, with the default transport and limits, on a data path of its
    /// own, which ends with the listener and its connections. Port 0 means that the system chooses a port. The first
    /// of the addresses that can be bound is used; a name is looked up by the system's resolver, which may block. For
    /// several addresses, or other settings, use [`UdpServer::bind`] and [`Network::listen`].
    ///
    /// # Errors
    /// [`NetError::System`] if no address can be bound, or the system refuses a thread or random numbers.
    pub async fn bind(at: impl ToSocketAddrs) -> Result<Self, NetError> {
        let limits = Limits::default();
        let link = first_bound(&limits, at)?;
        let outside = link.local_addrs().map_err(NetError::system(NO_SOCKET))?;
        let outside = *outside.first().ok_or_else(no_address)?;
        let preset = preset(DEFAULT_TRANSPORT);
        let preset = preset.ok_or_else(|| NetError::Transport(DEFAULT_TRANSPORT.to_owned()))?;
        let config = wire_config(preset.config, LinkKind::Udp, &limits, Arc::new(Passive));
        let network = NetworkConfig {
            stack: limits.stack(Vec::new()),
            name: String::new(),
        };
        let network = Network::start(network, Box::new(link))?;
        let options = ListenOptions::new(Arc::new(config));
        let inside = UdpServer::listener_addr(outside.port());
        let listener = network.listen(inside, options).await?;
        Ok(listener.known_as(outside))
    }
}

/// What failed if no socket could be made.
const NO_SOCKET: &str = "cannot listen over UDP";

fn no_address() -> NetError {
    let error = io::Error::new(io::ErrorKind::InvalidInput, "no address to listen on");
    NetError::system(NO_SOCKET)(error)
}

/// A server's end on the first address that can be bound.
fn first_bound(limits: &Limits, at: impl ToSocketAddrs) -> Result<UdpServer, NetError> {
    let addresses = at.to_socket_addrs();
    let addresses = addresses.map_err(NetError::system(NO_SOCKET))?;
    let mut failed = no_address();
    for addr in addresses {
        match UdpServer::bind(limits.udp_server(vec![addr])) {
            Ok(link) => return Ok(link),
            Err(e) => failed = e,
        }
    }
    Err(failed)
}
