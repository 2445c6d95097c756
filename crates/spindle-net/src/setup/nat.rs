//! Destination NAT by nftables, in a table of our own named after the device.

use std::fmt::Write;

use super::command::nft;
use super::{Dnat, SetupError};

/// The table of a device.
fn table(device: &str) -> String {
    let safe: String = device
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    format!("spindle_{safe}")
}

/// The rules. Replies are translated back by connection tracking. Locally made connections are
/// covered too (hook output).
fn rules(device: &str, list: &[Dnat]) -> String {
    let mut translations = String::new();
    for Dnat { from, to } in list {
        let family = if from.is_ipv4() { "ip" } else { "ip6" };
        // Writing to a string does not fail.
        let _ = writeln!(
            translations,
            "    {family} daddr {} tcp dport {} dnat {family} to {to}",
            from.ip(),
            from.port()
        );
    }
    let name = table(device);
    format!(
        "table inet {name} {{\n  chain in {{\n    type nat hook prerouting priority dstnat;\n\
         {translations}  }}\n  chain own {{\n    type nat hook output priority -100;\n\
         {translations}  }}\n}}\n"
    )
}

/// Installs the rules; returns the device's name for [`remove`].
pub(super) fn install(device: &str, list: &[Dnat]) -> Result<String, SetupError> {
    nft(&rules(device, list))?;
    Ok(device.to_owned())
}

/// Removes the table, if it is there.
pub(super) fn remove(device: &str) {
    let name = table(device);
    // It fails if there is none, which is as good, or if there is no nft, which made none.
    let _ = nft(&format!("delete table inet {name}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_both_ends_in_both_families() {
        let list = [
            Dnat {
                from: "192.0.2.1:443".parse().expect("an address"),
                to: "10.7.0.1:443".parse().expect("an address"),
            },
            Dnat {
                from: "[2001:db8::1]:80".parse().expect("an address"),
                to: "[fd00::1]:8080".parse().expect("an address"),
            },
        ];
        let text = rules("spin-0", &list);
        assert!(text.starts_with("table inet spindle_spin_0 {"));
        let v4 = "ip daddr 192.0.2.1 tcp dport 443 dnat ip to 10.7.0.1:443";
        let v6 = "ip6 daddr 2001:db8::1 tcp dport 80 dnat ip6 to [fd00::1]:8080";
        assert_eq!(text.matches(v4).count(), 2);
        assert_eq!(text.matches(v6).count(), 2);
    }
}
