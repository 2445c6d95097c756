//! Hosts of any kind, and their connections.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use spindle_mptcp::Config;
use spindle_net::udp::UdpServer;
use spindle_net::{ListenOptions, Network};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::hosts::gateway::{GatewayHost, RunningGateway};
use crate::hosts::kernel;
use crate::hosts::namespace::Namespace;

/// A host.
pub(crate) enum Host {
    /// On the kernel's stack.
    Kernel {
        namespace: Namespace,
        multipath: bool,
        interfaces: u32,
    },
    /// On Spindle: the network, and the configuration for each interface to start from.
    Spindle {
        network: Network,
        configs: Vec<Arc<Config>>,
        /// Whether the link is UDP. The network then has no addresses to listen on.
        over_udp: bool,
        /// The namespace of the host's link, unless the link is in memory. It must live as long as the host.
        _namespace: Option<Namespace>,
    },
    /// A server on the kernel's TCP behind a Spindle gateway.
    Gateway(GatewayHost),
}

/// A connection.
pub(crate) enum Stream {
    Kernel(tokio::net::TcpStream),
    Spindle(spindle_net::TcpStream),
}

/// A listener.
pub(crate) enum Listener {
    Kernel(tokio::net::TcpListener),
    Spindle(spindle_net::TcpListener),
    /// The service's listener, and the gateway in front of it.
    Gateway {
        service: tokio::net::TcpListener,
        _running: RunningGateway,
    },
}

impl Host {
    pub(crate) async fn listen(&self, local: SocketAddr) -> io::Result<Listener> {
        match self {
            Self::Kernel {
                namespace,
                multipath,
                ..
            } => kernel::listen(namespace, local, *multipath).map(Listener::Kernel),
            Self::Gateway(front) => {
                let (service, running) = front.listen(local).await?;
                Ok(Listener::Gateway {
                    service,
                    _running: running,
                })
            }
            Self::Spindle {
                network,
                configs,
                over_udp,
                ..
            } => {
                let options = ListenOptions::new(configs[0].clone());
                let local = match over_udp {
                    true => UdpServer::listener_addr(local.port()),
                    false => local,
                };
                let listener = network.listen(local, options).await;
                listener.map(Listener::Spindle).map_err(io::Error::other)
            }
        }
    }

    pub(crate) async fn connect(
        &self,
        local: SocketAddr,
        interface: u32,
        remote: SocketAddr,
    ) -> io::Result<Stream> {
        match self {
            Self::Kernel {
                namespace,
                multipath,
                ..
            } => {
                let stream = kernel::connect(namespace, local, remote, *multipath).await?;
                Ok(Stream::Kernel(stream))
            }
            Self::Gateway(_) => Err(io::Error::other("a gateway's host opens no connections")),
            Self::Spindle {
                network, configs, ..
            } => {
                let config = configs[interface as usize].clone();
                let stream = network.connect(local.ip(), remote, config).await;
                stream.map(Stream::Spindle).map_err(io::Error::other)
            }
        }
    }

    /// The number of subflows that a connection from this host should have.
    pub(crate) fn planned_subflows(&self) -> usize {
        match self {
            Self::Kernel {
                multipath,
                interfaces,
                ..
            } => {
                if *multipath {
                    *interfaces as usize
                } else {
                    1
                }
            }
            Self::Spindle { configs, .. } => configs[0].planned_subflows(),
            Self::Gateway(_) => 1,
        }
    }

    /// The host's Spindle data path, if it has one.
    pub(crate) fn network(&self) -> Option<&Network> {
        match self {
            Self::Kernel { .. } => None,
            Self::Spindle { network, .. } => Some(network),
            Self::Gateway(front) => Some(&front.network),
        }
    }

    /// The kernel's counters, if the host's kernel connections cross the network. A gateway's service is
    /// reached only over loopback.
    pub(crate) fn kernel_counters(&self) -> Option<kernel::Counters> {
        match self {
            Self::Kernel { namespace, .. } => Some(kernel::counters(namespace)),
            Self::Spindle { .. } | Self::Gateway(_) => None,
        }
    }
}

impl Listener {
    pub(crate) async fn accept(&mut self) -> io::Result<Stream> {
        match self {
            Self::Kernel(l) | Self::Gateway { service: l, .. } => {
                let (stream, _) = l.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Kernel(stream))
            }
            Self::Spindle(l) => {
                let accepted = l.accept().await;
                accepted
                    .map(|(s, _)| Stream::Spindle(s))
                    .map_err(io::Error::other)
            }
        }
    }
}

impl Stream {
    /// Waits until `n` subflows are up.
    pub(crate) async fn subflows_up(&self, n: usize) -> io::Result<()> {
        match self {
            Self::Kernel(s) => {
                while kernel::subflows_of(s) < n {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                Ok(())
            }
            Self::Spindle(s) => s.subflows_up(n).await.map_err(io::Error::other),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(s) => Pin::new(s).poll_read(cx, buf),
            Self::Spindle(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Kernel(s) => Pin::new(s).poll_write(cx, data),
            Self::Spindle(s) => Pin::new(s).poll_write(cx, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(s) => Pin::new(s).poll_flush(cx),
            Self::Spindle(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Kernel(s) => Pin::new(s).poll_shutdown(cx),
            Self::Spindle(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
