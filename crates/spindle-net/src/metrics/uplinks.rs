//! The uplinks of a connect service as metrics.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::uplinks::{Uplink, Usage};

/// The uplinks and the allowances of metered devices at one moment.
#[derive(Debug)]
pub(super) struct Uplinks {
    pub(super) list: Vec<Uplink>,
    pub(super) usage: Vec<Usage>,
}

impl Uplinks {
    fn encode_allowances(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        value: impl Fn(&Usage) -> u64,
    ) -> Result<(), Error> {
        if self.usage.is_empty() {
            return Ok(());
        }
        let mut family =
            encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
        for usage in &self.usage {
            let labels = [("device", usage.name.as_str())];
            let value = i64::try_from(value(usage)).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Uplinks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        if !self.list.is_empty() {
            let help = "1 if connections use the uplink, be it as a backup, 0 if not";
            let mut family =
                encoder.encode_descriptor("uplink_up", help, None, MetricType::Gauge)?;
            for uplink in &self.list {
                let labels = [
                    ("device", uplink.device.clone()),
                    ("address", uplink.addr.to_string()),
                ];
                let up = ConstGauge::new(i64::from(uplink.is_up()));
                up.encode(family.encode_family(&labels)?)?;
            }
        }
        let used = (
            "metered_used",
            "What a metered device has carried in this day or month",
        );
        self.encode_allowances(&mut encoder, used, |u| u.used)?;
        let limit = ("metered_limit", "What it may carry");
        self.encode_allowances(&mut encoder, limit, |u| u.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uplinks::{Period, Unused, UplinkState};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn uplinks_and_allowances_have_their_devices_as_labels() {
        let uplink = |device: &str, state| Uplink::example(device, state);
        let uplinks = Uplinks {
            list: vec![
                uplink("eth0", UplinkState::Backup),
                uplink("wwan0", UplinkState::Down(Unused::UsedUp)),
            ],
            usage: vec![Usage {
                name: "wwan*".to_owned(),
                used: 12,
                limit: 10,
                period: Period::Month,
            }],
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(uplinks));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "uplink_up{device=\"eth0\",address=\"192.0.2.1\"} 1",
            "uplink_up{device=\"wwan0\",address=\"192.0.2.1\"} 0",
            "metered_used_bytes{device=\"wwan*\"} 12",
            "metered_limit_bytes{device=\"wwan*\"} 10",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
