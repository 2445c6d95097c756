//! The services of a gateway: the one that the flags describe, and those of `[[service]]` in the file.

use std::net::SocketAddr;
use std::sync::Arc;

use spindle_net::gateway::Backend;
use spindle_net::networks::{ClientNetwork, NetworkError, Networks};

use super::super::proxy::backend;
use super::super::service::{bad, endpoint, needed};
use crate::args::service::Gateway as Args;
use crate::failure::{Failure, Setting};
use crate::settings::ServiceTable;

/// What `--listen` accepts.
const LISTEN: &str = "an address and port for clients, such as 192.0.2.1:443";
/// Most bytes of a service's name, which is in each line of the log about its connections.
const LONGEST_NAME: usize = 64;

/// A service as the flags or a table describe it, before it is checked.
#[derive(Debug, Default)]
pub(in crate::commands) struct Asked {
    name: Option<String>,
    listen: Vec<String>,
    pub(in crate::commands) to: Vec<String>,
    pub(in crate::commands) forward: Vec<String>,
    pub(in crate::commands) source: Vec<String>,
    pub(in crate::commands) proxy_protocol: bool,
    allow: Vec<String>,
    deny: Vec<String>,
    /// The table. `None` if the flags describe the service.
    table: Option<ServiceTable>,
}

impl Asked {
    /// All services that are asked for, the one of the flags first.
    pub(super) fn all(args: &Args, tables: &[ServiceTable]) -> Result<Vec<Self>, Failure> {
        let flags = Self {
            listen: args.listen.clone(),
            to: args.to.clone(),
            forward: args.forward.clone(),
            source: args.source.clone(),
            proxy_protocol: args.proxy_protocol,
            ..Self::default()
        };
        let given = [&flags.listen, &flags.to, &flags.forward];
        let given = given.iter().any(|list| !list.is_empty());
        let lone = [
            ("proxy-protocol", flags.proxy_protocol),
            ("source", !flags.source.is_empty()),
        ];
        if let Some((flag, _)) = lone.into_iter().find(|(_, set)| *set)
            && !given
            && !tables.is_empty()
        {
            let text = " belongs to the service of listen and to, which are missing; put it into a [[service]]";
            return Err(Failure::setting(flag, text));
        }
        let first = (given || tables.is_empty()).then_some(flags);
        let tables = tables.iter().map(|table| Self {
            name: table.name(),
            listen: table.values("listen"),
            to: table.values("to"),
            forward: table.values("forward"),
            source: table.values("source"),
            proxy_protocol: table.is_set("proxy-protocol"),
            allow: table.values("allow"),
            deny: table.values("deny"),
            table: Some(table.clone()),
        });
        Ok(first.into_iter().chain(tables).collect())
    }

    /// Reports a mistake in the service with its place in the table, if the service has a table.
    pub(super) fn place(&self, failure: Failure) -> Failure {
        match &self.table {
            Some(table) => table.place(failure),
            None => failure,
        }
    }

    fn listen(&self) -> Result<Vec<SocketAddr>, Failure> {
        let mut listen = Vec::new();
        for text in &self.listen {
            let addr = endpoint("listen", text)?;
            if addr.port() == 0 {
                return Err(bad("listen", text, "a port other than 0"));
            }
            if listen.contains(&addr) {
                return Err(bad("listen", text, "each address once"));
            }
            listen.push(addr);
        }
        if listen.is_empty() {
            return Err(needed("listen", LISTEN));
        }
        Ok(listen)
    }

    /// The name: the first listening address, unless it has another.
    fn name(&self, listen: &[SocketAddr]) -> Result<Arc<str>, Failure> {
        let first = || listen.first().map(SocketAddr::to_string);
        let name = self.name.clone().or_else(first).unwrap_or_default();
        let visible = name.bytes().all(|b| b.is_ascii_graphic());
        if !visible || name.len() > LONGEST_NAME {
            let want = format!("at most {LONGEST_NAME} visible ASCII characters without spaces");
            return Err(bad("name", &name, &want));
        }
        Ok(name.into())
    }

    /// The own lists of networks.
    fn networks(&self) -> Result<Lists, Failure> {
        Lists::parse(&self.allow, &self.deny)
    }
}

/// Lists of allowed and of denied networks.
#[derive(Clone, Debug, Default)]
struct Lists {
    allow: Vec<ClientNetwork>,
    deny: Vec<ClientNetwork>,
}

impl Lists {
    fn parse(allow: &[String], deny: &[String]) -> Result<Self, Failure> {
        Ok(Self {
            allow: networks("allow", allow)?,
            deny: networks("deny", deny)?,
        })
    }

    /// The networks of both.
    fn with(&self, own: &Self) -> Networks {
        let both = |common: &[ClientNetwork], own: &[ClientNetwork]| [common, own].concat();
        Networks::new(both(&self.allow, &own.allow), both(&self.deny, &own.deny))
    }
}

fn networks(flag: &str, texts: &[String]) -> Result<Vec<ClientNetwork>, Failure> {
    let network = |text: &String| {
        text.parse().map_err(|e: NetworkError| {
            Failure::Setting(Setting {
                flag: flag.to_owned(),
                found: Some(text.clone()),
                problem: format!(": found \"{text}\": {e}"),
            })
        })
    };
    texts.iter().map(network).collect()
}

/// A service with what can be checked without looking up names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) asked: Asked,
    pub(super) name: Arc<str>,
    /// Its addresses, as clients know them.
    pub(super) listen: Vec<SocketAddr>,
    /// The networks whose clients are admitted.
    pub(super) networks: Networks,
}

impl Named {
    /// Checks all services. The lists of networks of the flags hold for every service, in addition to its own.
    pub(super) fn all(args: &Args, tables: &[ServiceTable]) -> Result<Vec<Self>, Failure> {
        let common = Lists::parse(&args.allow, &args.deny)?;
        let mut all: Vec<Self> = Vec::new();
        for asked in Asked::all(args, tables)? {
            let service = Self::new(asked, &common)?;
            if let Some(twice) = all.iter().find_map(|other| service.clash(other)) {
                return Err(service.asked.place(twice));
            }
            all.push(service);
        }
        Ok(all)
    }

    fn new(asked: Asked, common: &Lists) -> Result<Self, Failure> {
        let parts = || {
            let listen = asked.listen()?;
            let name = asked.name(&listen)?;
            let networks = common.with(&asked.networks()?);
            Ok((name, listen, networks))
        };
        let (name, listen, networks) = parts().map_err(|f| asked.place(f))?;
        Ok(Self {
            asked,
            name,
            listen,
            networks,
        })
    }

    /// What this service has in common with an earlier one, and must not have.
    fn clash(&self, other: &Self) -> Option<Failure> {
        if let Some(addr) = self.listen.iter().find(|a| other.listen.contains(a)) {
            let want = format!(
                "an address of no other service; service {} listens there",
                other.name
            );
            return Some(bad("listen", &addr.to_string(), &want));
        }
        let want = "a name of no other service";
        (self.name == other.name).then(|| bad("name", &self.name, want))
    }
}

/// A service that was checked.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) named: Named,
    pub(super) to: Backend,
}

impl Checked {
    /// Checks all services, and looks up the names of their back ends.
    pub(super) fn all(args: &Args, tables: &[ServiceTable]) -> Result<Vec<Self>, Failure> {
        let checked = |named: Named| {
            let to = backend(&named.asked).map_err(|f| named.asked.place(f))?;
            Ok(Self { named, to })
        };
        Named::all(args, tables)?.into_iter().map(checked).collect()
    }

    /// Reports a mistake in the service with its place.
    pub(super) fn place(&self, failure: Failure) -> Failure {
        self.named.asked.place(failure)
    }
}
