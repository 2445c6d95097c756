//! The arguments of `keygen`, `enroll` and `revoke`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Keygen {
    /// The directory, which is made with mode 0700; nothing in it is overwritten
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// A DNS name or IP address of the gateway; may be repeated. The first is the name by which clients know the
    /// gateway. With --renew, those of the present certificate if not given
    #[arg(long, value_name = "NAME", required_unless_present = "renew")]
    pub(crate) name: Vec<String>,
    /// Days until the gateway's certificate ends
    #[arg(long, value_name = "N", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(crate) days: u32,
    /// Renew the gateway's certificate. The authority stays, and the gateway's key as long as its file exists
    #[arg(long)]
    pub(crate) renew: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Enroll {
    /// The directory that `spindle keygen` has made
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The client's name: letters, digits, '-', '_' and '.'
    #[arg(long, value_name = "NAME")]
    pub(crate) client: String,
    /// An address or name of the gateway, and its port; may be repeated
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) via: Vec<String>,
    /// Days until the client's certificate ends
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(crate) days: u32,
    /// The bundle, a new file with mode 0600, or - for standard output [default: NAME.bundle, with --line
    /// standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the bundle as one line, to be pasted
    #[arg(long)]
    pub(crate) line: bool,
    /// Let the client accept only the gateway's present public key, in addition to the authority
    #[arg(long)]
    pub(crate) pin: bool,
    /// Make a further certificate for a client that has a valid one, which stays valid
    #[arg(long)]
    pub(crate) renew: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Revoke {
    /// The directory that `spindle keygen` has made
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The client's name; all its certificates are revoked
    #[arg(long, value_name = "NAME")]
    pub(crate) client: String,
}
