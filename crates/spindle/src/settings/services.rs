//! `[[service]]` in a gateway's file: one of several services, with those of the gateway's flags that may differ
//! between services.

use clap::{Arg, ArgAction};
use spindle_experiment::Origin;
use toml::de::{DeTable, DeValue};

use super::{Settings, SettingsError, Source, Taken, found, placed, unknown};
use crate::failure::Failure;

/// The key of the tables.
pub(super) const SERVICE: &str = "service";
/// The flags that are keys of a service.
const KEYS: [&str; 7] = [
    "listen",
    "to",
    "forward",
    "source",
    "proxy-protocol",
    "allow",
    "deny",
];
/// The key of a service that is no flag.
const NAME: &str = "name";

/// A table of a service.
#[derive(Clone, Debug)]
pub(crate) struct ServiceTable {
    origin: Origin,
    taken: Vec<Taken>,
}

impl ServiceTable {
    /// The values of a key, in their order.
    pub(crate) fn values(&self, key: &str) -> Vec<String> {
        let entries = self.taken.iter().filter(|t| t.key == key);
        entries.filter_map(|t| t.value.clone()).collect()
    }

    /// Whether a flag without a value is set.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.taken.iter().any(|t| t.key == key)
    }

    /// The name.
    pub(crate) fn name(&self) -> Option<String> {
        self.values(NAME).pop()
    }

    /// Reports a mistake with the line of the wrong value, or with that of the table if the setting is missing.
    pub(crate) fn place(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Setting(setting) => placed(&setting, &self.taken, &self.origin),
            other => other,
        }
    }
}

impl Source<'_> {
    /// Takes the tables.
    pub(super) fn take_services(
        &self,
        value: &DeValue<'_>,
        origin: &Origin,
        known: &[&Arg],
        settings: &mut Settings,
    ) -> Result<(), SettingsError> {
        let wrong = |found: String, origin: &Origin| SettingsError::Value {
            origin: origin.clone(),
            key: SERVICE.to_owned(),
            found,
            want: "tables: [[service]], each with listen and to or forward".to_owned(),
        };
        let DeValue::Array(items) = value else {
            return Err(wrong(found(value), origin));
        };
        for item in items {
            let origin = self.at(item.span().start);
            let DeValue::Table(table) = item.get_ref() else {
                return Err(wrong(found(item.get_ref()), &origin));
            };
            settings.services.push(self.service(table, origin, known)?);
        }
        Ok(())
    }

    fn service(
        &self,
        table: &DeTable<'_>,
        origin: Origin,
        known: &[&Arg],
    ) -> Result<ServiceTable, SettingsError> {
        let name = Arg::new(NAME)
            .long(NAME)
            .value_name("NAME")
            .action(ArgAction::Set);
        let is_key = |a: &&&Arg| a.get_long().is_some_and(|long| KEYS.contains(&long));
        let own: Vec<&Arg> = known
            .iter()
            .filter(is_key)
            .copied()
            .chain([&name])
            .collect();
        let mut taken = Vec::new();
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let at = self.at(key.span().start);
            let key: &str = key.get_ref();
            let Some(arg) = own.iter().find(|a| a.get_long() == Some(key)) else {
                let common = known.iter().any(|a| a.get_long() == Some(key));
                return Err(match common {
                    true => SettingsError::Common {
                        origin: at,
                        key: key.to_owned(),
                    },
                    false => unknown(key, &at, &own, &[]),
                });
            };
            taken.extend(self.values(arg, value.get_ref(), &at)?);
        }
        Ok(ServiceTable { origin, taken })
    }
}
