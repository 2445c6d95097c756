//! `response`: one packet of each response.

use std::sync::Arc;

use spindle_fabric::{LinkId, Loss as LinkLoss, Network, NetworkError};

use super::{LossModel, LossPlace, ReadLossModel, Result};
use crate::catalog::Catalog;
use crate::document::{Section, Value};

/// The packet of a response that is lost (CoFUSO section 6.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLoss {
    /// The subflow that carries the packet, from 0. If `None`, it may be any subflow.
    pub subflow: Option<u8>,
    /// Number of the packet there, from 1 in the order of sending. If `None`, the number is drawn for each
    /// response among as many packets as the response fills. It is the same under every transport.
    pub packet: Option<u64>,
}

/// One data packet of each response, on whatever path. It is lost as it leaves the server.
#[derive(Clone, Copy, Debug)]
struct Response(ResponseLoss);

impl LossModel for Response {
    fn process(&self) -> std::result::Result<LinkLoss, NetworkError> {
        Ok(LinkLoss::none())
    }

    /// The loss belongs to no link.
    fn apply(
        &self,
        _: &mut Network,
        _: &[LinkId],
        _: bool,
    ) -> std::result::Result<(), NetworkError> {
        Ok(())
    }

    fn response(&self) -> Option<ResponseLoss> {
        Some(self.0)
    }

    fn only_in_lab(&self) -> Option<(&'static str, &'static str)> {
        let remedy = "only the lab knows which packet that is; use numbered";
        Some(("response", remedy))
    }
}

fn read(s: &Section<'_>, _: &LossPlace<'_>) -> Result<Arc<dyn LossModel>> {
    Ok(Arc::new(Response(keys(s)?)))
}

/// `subflow` and `packet` .
fn keys(s: &Section<'_>) -> Result<ResponseLoss> {
    for key in ["on", "direction", "data_only"] {
        if s.node(key).is_some() {
            let problem = "has no meaning here: the packet is lost wherever it goes";
            return Err(s.error(key, problem));
        }
    }
    let subflow = match s.get::<u32>("subflow")? {
        None => None,
        Some(n @ 1..=255) => Some((n - 1) as u8),
        Some(n) => return Err(s.error("subflow", format!("found {n}, want 1 to 255"))),
    };
    let random = s.node("packet").map(|n| &n.value) == Some(&Value::Text("random".to_owned()));
    let packet = match random {
        true if subflow.is_some() => {
            let problem =
                "has no meaning together with a random packet: it is one of the whole response";
            return Err(s.error("subflow", problem));
        }
        true => None,
        false => Some(s.need::<u64>("packet")?),
    };
    if packet == Some(0) {
        let problem = "found 0, want a number from 1, or \"random\"";
        return Err(s.error("packet", problem));
    }
    Ok(ResponseLoss { subflow, packet })
}

pub(super) fn register(catalog: &mut Catalog<ReadLossModel>) {
    let summary = "one data packet of each response is lost, on whatever path";
    catalog.add("response", summary, Arc::new(read));
}
