//! The paths of `spindle connect`: `--local`, `--backup` and `--metered`.

use std::net::IpAddr;

use spindle_net::connect::Sources;
use spindle_net::setup::{SetupOptions, SourceRoute};
use spindle_net::tun::TunOptions;
use spindle_net::udp::{NatKeepalive, UdpClientOptions};
use spindle_net::uplinks::{
    Allowance, DevicePattern, NamedAddress, Period, Selection, Uplinks, Watching, state_directory,
};
use spindle_net::{Network, Target, Targets};
use spindle_units::Bytes;

use super::service::{address, bad, is_ours};
use crate::args::service::Connect as Args;
use crate::failure::Failure;

/// What `--local` accepts over UDP.
const LOCAL: &str =
    "auto, system, a device such as eth0 or wlan*, an address, IP@DEVICE or IP@DEVICE/GATEWAY";
/// The longest name of a device (Linux `IFNAMSIZ`, which counts a final zero).
const LONGEST_NAME: usize = 15;
/// The shortest pause before a keepalive.
const LEAST_PAUSE: spindle_units::Duration = spindle_units::Duration::from_secs(1);

/// Local addresses and their routes.
pub(super) struct Paths {
    /// The addresses that were named.
    list: Vec<Path>,
    /// The uplinks, if they are followed (over UDP).
    pub(super) uplinks: Option<Uplinks>,
    /// Several addresses may be in use.
    pub(super) several: bool,
    /// Addresses of the list whose subflows are backups.
    pub(super) backup: Vec<IpAddr>,
    keepalive: NatKeepalive,
}

/// An address that was named, with its way out.
struct Path {
    source: IpAddr,
    device: Option<String>,
    gateway: Option<IpAddr>,
}

fn nat_keepalive(text: &str) -> Result<NatKeepalive, Failure> {
    match text {
        "auto" => return Ok(NatKeepalive::Learn),
        "off" => return Ok(NatKeepalive::Off),
        _ => {}
    }
    let want = "a time of at least 1 s, such as 25s, or auto, or off";
    let pause: Option<spindle_units::Duration> = text.parse().ok();
    let pause = pause.filter(|p| *p >= LEAST_PAUSE);
    pause
        .map(NatKeepalive::Every)
        .ok_or_else(|| bad("nat-keepalive", text, want))
}

/// One `--local`.
enum Local {
    Automatic,
    System,
    Devices(DevicePattern),
    Path(Path),
}

impl Paths {
    /// `joins` reports whether the transport opens a subflow from each address.
    pub(super) fn new(args: &Args, via: Option<&Targets>, joins: bool) -> Result<Self, Failure> {
        if !args.service.udp {
            return Self::over_tun(args, via);
        }
        let mut list: Vec<Path> = Vec::new();
        let mut selection = Selection::default();
        let (mut system, mut alone) = (false, None);
        for text in &args.local {
            match Local::parse(text)? {
                Local::Automatic => (selection.automatic, alone) = (true, Some(text)),
                Local::System => (system, alone) = (true, Some(text)),
                Local::Devices(pattern) => selection.devices.push(pattern),
                Local::Path(path) => push(&mut list, path, text)?,
            }
        }
        if let Some(text) = alone.filter(|_| args.local.len() > 1) {
            return Err(bad(
                "local",
                text,
                "auto or system alone, or no other --local",
            ));
        }
        if selection.devices.is_empty() {
            fits(&list, via)?;
        }
        // One subflow, or several from one address: the system's choice keeps it alive.
        if args.local.is_empty() {
            system = !joins || args.subflows.is_some();
            selection.automatic = !system;
        }
        let named = |p: &Path| NamedAddress {
            addr: p.source,
            device: p.device.clone(),
        };
        selection.addresses = list.iter().map(named).collect();
        let backup = backups(args, &list, &mut selection)?;
        metered(args, system, &mut selection)?;
        let address = |t: &Target| match t {
            Target::Address(addr) => Some(addr.ip()),
            Target::Name(..) => None,
        };
        let gateways = via.into_iter().flat_map(Targets::iter);
        let gateways = gateways.filter_map(address).collect();
        let several = list.len() > 1 || selection.automatic || !selection.devices.is_empty();
        let uplinks = (!system).then(|| Uplinks::new(selection, gateways));
        Ok(Self {
            list,
            uplinks,
            several,
            backup,
            keepalive: nat_keepalive(&args.nat_keepalive)?,
        })
    }

    fn over_tun(args: &Args, via: Option<&Targets>) -> Result<Self, Failure> {
        if !args.metered.is_empty() {
            return Err(Failure::setting("metered", " needs --udp"));
        }
        let mut list = Vec::new();
        for text in &args.local {
            let path = Path::parse(text)?;
            if is_ours(path.source) {
                let want = "an address that is not this host's: over --tun it is Spindle's alone, \
                            and packets for it are routed here";
                return Err(bad("local", &path.source.to_string(), want));
            }
            push(&mut list, path, text)?;
        }
        if list.is_empty() {
            let text = " needs --local, an address of Spindle's own to connect from";
            return Err(Failure::setting("tun", text));
        }
        fits(&list, via)?;
        let backup = backups(args, &list, &mut Selection::default())?;
        Ok(Self {
            several: list.len() > 1,
            list,
            uplinks: None,
            backup,
            keepalive: NatKeepalive::Off,
        })
    }

    /// The addresses from which connections start.
    pub(super) fn sources(&self) -> Sources {
        match &self.uplinks {
            Some(uplinks) => Sources::Uplinks(uplinks.clone()),
            None if self.list.is_empty() => Sources::System,
            None => Sources::Listed(self.addresses()),
        }
    }

    /// The addresses that were named.
    fn addresses(&self) -> Vec<IpAddr> {
        self.list.iter().map(|p| p.source).collect()
    }

    /// The addresses of the stack from the start. Those that are followed are passed to it later.
    pub(super) fn of_stack(&self) -> Vec<IpAddr> {
        match &self.uplinks {
            Some(_) => Vec::new(),
            None => self.addresses(),
        }
    }

    /// The options of a link over UDP. The UDP port of a gateway is that of `--via`, which is the port of the TCP segments
    /// inside, too.
    pub(super) fn link(&self) -> UdpClientOptions {
        let named = |p: &Path| Some((p.source, p.device.clone()?));
        UdpClientOptions {
            interfaces: self.list.iter().filter_map(named).collect(),
            follow_system: self.uplinks.is_none() && self.list.is_empty(),
            keepalive: self.keepalive,
            ..UdpClientOptions::default()
        }
    }

    /// Follows the uplinks, as long as the result lives.
    ///
    /// # Errors
    /// They cannot be followed, and some are metered.
    pub(super) async fn follow(&self, network: &Network) -> Result<Option<Watching>, Failure> {
        let Some(uplinks) = &self.uplinks else {
            return Ok(None);
        };
        match uplinks.start(network).await {
            Ok(watching) => Ok(Some(watching)),
            Err(error) if !uplinks.usage().is_empty() => {
                let text = format!(": cannot count without netlink ({error}); allow AF_NETLINK");
                Err(Failure::setting("metered", text))
            }
            Err(error) => {
                tracing::warn!(%error, "cannot follow the uplinks without netlink; allow AF_NETLINK, or give --local system");
                Ok(None)
            }
        }
    }

    pub(super) fn setup(&self, tun: &TunOptions) -> SetupOptions {
        let route = |p: &Path| {
            Some(SourceRoute {
                source: p.source,
                device: p.device.clone()?,
                via: p.gateway,
            })
        };
        SetupOptions {
            tun: tun.clone(),
            addresses: self.addresses(),
            dnat: Vec::new(),
            source_routes: self.list.iter().filter_map(route).collect(),
            forwarding: true,
        }
    }
}

/// Adds an address, which must not be in the list.
fn push(list: &mut Vec<Path>, path: Path, text: &str) -> Result<(), Failure> {
    if list.iter().any(|p| p.source == path.source) {
        return Err(bad("local", text, "each address once"));
    }
    list.push(path);
    Ok(())
}

/// Checks that an address of the family of a `--via` is among those that were named, if any were.
fn fits(list: &[Path], via: Option<&Targets>) -> Result<(), Failure> {
    let Some(via) = via.filter(|_| !list.is_empty()) else {
        return Ok(());
    };
    // A name may have addresses of either family.
    let fits = |t: &Target| match t {
        Target::Address(v) => list.iter().any(|p| p.source.is_ipv4() == v.is_ipv4()),
        Target::Name(..) => true,
    };
    if via.iter().any(fits) {
        return Ok(());
    }
    let text = format!(": none is of the address family of --via {via}; add one");
    Err(Failure::setting("local", text))
}

/// Reads `--backup` into the selection. Returns the addresses of the list that it concerns.
fn backups(args: &Args, list: &[Path], selection: &mut Selection) -> Result<Vec<IpAddr>, Failure> {
    let mut found = Vec::new();
    let open = selection.automatic || !selection.devices.is_empty();
    for text in &args.backup {
        let matching: Vec<IpAddr> = match Local::parse_for("backup", text)? {
            Local::Path(path) if path.device.is_none() => {
                selection.backup_addresses.push(path.source);
                let same = list.iter().map(|p| p.source).filter(|a| *a == path.source);
                same.collect()
            }
            Local::Devices(pattern) => {
                let of = |p: &&Path| p.device.as_ref().is_some_and(|d| pattern.matches(d));
                let matching = list.iter().filter(of).map(|p| p.source).collect();
                selection.backup_devices.push(pattern);
                matching
            }
            _ => return Err(bad("backup", text, "an address or a device")),
        };
        // Devices and their addresses may appear later.
        if matching.is_empty() && !open {
            let want = "one of the --local addresses, or a device of one of them";
            return Err(bad("backup", text, want));
        }
        found.extend(matching);
    }
    Ok(found)
}

/// Reads `--metered` into the selection.
fn metered(args: &Args, system: bool, selection: &mut Selection) -> Result<(), Failure> {
    if args.metered.is_empty() {
        return Ok(());
    }
    if system {
        let text = " needs uplinks that are followed, so --local must not be system, and the transport not have one subflow only";
        return Err(Failure::setting("metered", text));
    }
    for text in &args.metered {
        let allowance = allowance(text)?;
        if selection
            .allowances
            .iter()
            .any(|a| a.name == allowance.name)
        {
            return Err(bad("metered", text, "each device once"));
        }
        selection.allowances.push(allowance);
    }
    let directory = args.state.clone().or_else(state_directory);
    selection.allowance_file = directory.map(|d| d.join("metered.json"));
    if selection.allowance_file.is_none() {
        tracing::warn!(
            "--metered counts from zero after a restart; give --state, a directory for the counts"
        );
    }
    Ok(())
}

/// Reads `DEVICE=SIZE/PERIOD`.
fn allowance(text: &str) -> Result<Allowance, Failure> {
    let want = "a device, a size and day or month, such as wwan0=10GB/month";
    let wrong = || bad("metered", text, want);
    let (device, amount) = text.split_once('=').ok_or_else(wrong)?;
    let (size, period) = amount.split_once('/').ok_or_else(wrong)?;
    let Local::Devices(devices) = Local::parse_for("metered", device)? else {
        return Err(wrong());
    };
    let limit: Bytes = size.parse().map_err(|_| wrong())?;
    let period = match period {
        "day" => Period::Day,
        "month" => Period::Month,
        _ => return Err(wrong()),
    };
    Ok(Allowance {
        name: device.to_owned(),
        devices,
        limit: limit.0,
        period,
    })
}

impl Local {
    fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "auto" => Ok(Self::Automatic),
            "system" => Ok(Self::System),
            _ => Self::parse_for("local", text),
        }
    }

    /// An address or a device. A name of digits, dots and colons is a mistyped address.
    fn parse_for(flag: &str, text: &str) -> Result<Self, Failure> {
        if text.parse::<IpAddr>().is_ok() || text.contains('@') {
            return Path::parse(text).map(Self::Path);
        }
        let mistyped = text.chars().all(|c| c.is_ascii_digit() || c == '.');
        let improper = text.contains(|c: char| c.is_whitespace() || matches!(c, '/' | ':'));
        if mistyped || improper || text.len() > LONGEST_NAME {
            let want = match flag {
                "local" => LOCAL,
                _ => "an address, or a device such as eth0 or wlan*",
            };
            return Err(bad(flag, text, want));
        }
        Ok(Self::Devices(DevicePattern::new(text)))
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (source, way) = match text.split_once('@') {
            None => (text, None),
            Some((source, way)) => (source, Some(way)),
        };
        let source = address("local", source)?;
        let (device, gateway) = match way.map(|w| w.split_once('/').unwrap_or((w, ""))) {
            None => (None, None),
            Some(("", _)) => return Err(bad("local", text, "IP, IP@DEVICE or IP@DEVICE/GATEWAY")),
            Some((device, "")) => (Some(device.to_owned()), None),
            Some((device, hop)) => (Some(device.to_owned()), Some(address("local", hop)?)),
        };
        Ok(Self {
            source,
            device,
            gateway,
        })
    }
}
