//! Reads a table key by key, so that every key that was not requested is an unknown key.

use std::cell::RefCell;

use spindle_units::{BitRate, Duration};

use super::error::{ExperimentError, Origin, suggestion};
use super::node::{Node, Value};
use crate::units;

/// A table that is being read. Every key that is requested becomes an accepted key. [`Section::finish`] refuses
/// all other keys.
pub struct Section<'a> {
    path: String,
    node: &'a Node,
    accepted: RefCell<Vec<&'static str>>,
}

/// A value that can be read from a [`Node`].
pub trait FromNode: Sized {
    /// What is accepted, for error messages.
    const WANT: &'static str;
    /// The value, or `None` if it is of another kind or out of range.
    fn from_node(node: &Node) -> Option<Self>;
}

impl<'a> Section<'a> {
    /// Starts reading `node`. Errors refer to it as `path`, which is empty for the whole file.
    ///
    /// # Errors
    /// If the node is not a table.
    pub fn new(path: impl Into<String>, node: &'a Node) -> Result<Self, ExperimentError> {
        let path = path.into();
        match node.value {
            Value::Table(_) => Ok(Self {
                path,
                node,
                accepted: RefCell::default(),
            }),
            _ => Err(ExperimentError::new(
                node.origin.clone(),
                path,
                format!("found {}, want a table", node.kind()),
            )),
        }
    }

    /// The dotted path of `key`.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Where the table was written.
    pub fn origin(&self) -> &Origin {
        &self.node.origin
    }

    /// The whole table.
    pub(crate) const fn table(&self) -> &'a Node {
        self.node
    }

    /// The raw entry `key`.
    pub fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.accepted.borrow_mut().push(key);
        self.node.get(key)
    }

    /// Whether the entry `key` exists.
    pub fn has(&self, key: &str) -> bool {
        self.node.get(key).is_some()
    }

    /// The entry `key` as a table to be read, if it exists.
    ///
    /// # Errors
    /// If the entry exists and is not a table.
    pub fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, ExperimentError> {
        self.node(key)
            .map(|n| Section::new(self.path(key), n))
            .transpose()
    }

    /// The entry `key` as tables to be read: one table, or a list of them. Empty if it does not exist.
    ///
    /// # Errors
    /// If the entry or an item of the list is not a table.
    pub fn tables(&self, key: &'static str) -> Result<Vec<Section<'a>>, ExperimentError> {
        let Some(node) = self.node(key) else {
            return Ok(Vec::new());
        };
        let path = self.path(key);
        match &node.value {
            Value::List(items) => items
                .iter()
                .enumerate()
                .map(|(i, item)| Section::new(format!("{path}[{}]", i + 1), item))
                .collect(),
            _ => Ok(vec![Section::new(path, node)?]),
        }
    }

    /// The entry `key`, if it exists.
    ///
    /// # Errors
    /// If the entry exists and is not what is accepted.
    pub fn get<T: FromNode>(&self, key: &'static str) -> Result<Option<T>, ExperimentError> {
        self.node(key).map(|n| self.convert(key, n)).transpose()
    }

    /// The entry `key`, or `default`.
    ///
    /// # Errors
    /// See [`Self::get`].
    pub fn or<T: FromNode>(&self, key: &'static str, default: T) -> Result<T, ExperimentError> {
        Ok(self.get(key)?.unwrap_or(default))
    }

    /// The entry `key`, which must exist.
    ///
    /// # Errors
    /// If the entry is missing or not what is accepted.
    pub fn need<T: FromNode>(&self, key: &'static str) -> Result<T, ExperimentError> {
        self.get(key)?.ok_or_else(|| {
            let problem = format!("missing, want {}", T::WANT);
            ExperimentError::new(self.origin().clone(), self.path(key), problem)
        })
    }

    /// The entry `key` as a list, or `None` if it is missing. A single value is read as a list of one item.
    ///
    /// # Errors
    /// If an item is not what is accepted.
    pub fn list<T: FromNode>(&self, key: &'static str) -> Result<Option<Vec<T>>, ExperimentError> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        match &node.value {
            Value::List(items) => items
                .iter()
                .map(|n| self.convert(key, n))
                .collect::<Result<_, _>>()
                .map(Some),
            _ => self.convert(key, node).map(|v| Some(vec![v])),
        }
    }

    /// The named choice that the entry `key` selects, or `None` if the key is missing.
    ///
    /// # Errors
    /// If the entry is not one of the names.
    pub fn choice<T: Clone>(
        &self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ExperimentError> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        let found = match &node.value {
            Value::Text(s) => choices.iter().find(|(name, _)| name == s),
            _ => None,
        };
        match found {
            Some((_, value)) => Ok(Some(value.clone())),
            None => Err(self.unknown(key, node, choices.iter().map(|(n, _)| *n))),
        }
    }

    /// The error for a text that is not in `accepted`.
    pub fn unknown<'n>(
        &self,
        key: &str,
        node: &Node,
        accepted: impl Iterator<Item = &'n str> + Clone,
    ) -> ExperimentError {
        let near = match &node.value {
            Value::Text(s) => suggestion(s, accepted.clone()),
            _ => String::new(),
        };
        let all = accepted.collect::<Vec<_>>().join(", ");
        let problem = format!("found {}, want one of {all}{near}", node.kind());
        ExperimentError::new(node.origin.clone(), self.path(key), problem)
    }

    /// An error about `key`. Its origin is that of the key, or that of the table if the key is missing.
    pub fn error(&self, key: &str, problem: impl Into<String>) -> ExperimentError {
        let origin = self.node.get(key).map_or(self.origin(), |n| &n.origin);
        ExperimentError::new(origin.clone(), self.path(key), problem)
    }

    /// Finishes reading the table.
    ///
    /// # Errors
    /// If the table has a key that was not requested.
    pub fn finish(self) -> Result<(), ExperimentError> {
        self.check()
    }

    /// Like [`Self::finish`], for a table that is read elsewhere as well.
    ///
    /// # Errors
    /// If the table has a key that was not requested.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let Value::Table(entries) = &self.node.value else {
            return Ok(());
        };
        let mut accepted = self.accepted.borrow_mut();
        accepted.sort_unstable();
        accepted.dedup();
        match entries
            .iter()
            .find(|(k, _)| !accepted.contains(&k.as_str()))
        {
            None => Ok(()),
            Some((key, node)) => {
                let near = suggestion(key, accepted.iter().copied());
                let problem = format!("unknown key, accepted here: {}{near}", accepted.join(", "));
                Err(ExperimentError::new(
                    node.origin.clone(),
                    self.path(key),
                    problem,
                ))
            }
        }
    }

    fn convert<T: FromNode>(&self, key: &str, node: &Node) -> Result<T, ExperimentError> {
        T::from_node(node).ok_or_else(|| {
            let problem = format!("found {}, want {}", node.kind(), T::WANT);
            ExperimentError::new(node.origin.clone(), self.path(key), problem)
        })
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(s) => Some(s),
        _ => None,
    }
}

impl FromNode for String {
    const WANT: &'static str = "a text in quotes";
    fn from_node(node: &Node) -> Option<Self> {
        text(node).map(str::to_owned)
    }
}

impl FromNode for bool {
    const WANT: &'static str = "true or false";
    fn from_node(node: &Node) -> Option<Self> {
        match node.value {
            Value::Boolean(b) => Some(b),
            _ => None,
        }
    }
}

impl FromNode for u64 {
    const WANT: &'static str = "a whole number, 0 or more";
    fn from_node(node: &Node) -> Option<Self> {
        match node.value {
            Value::Integer(i) => u64::try_from(i).ok(),
            _ => None,
        }
    }
}

impl FromNode for u32 {
    const WANT: &'static str = "a whole number from 0 to 4294967295";
    fn from_node(node: &Node) -> Option<Self> {
        u64::from_node(node).and_then(|v| v.try_into().ok())
    }
}

impl FromNode for f64 {
    const WANT: &'static str = "a number";
    fn from_node(node: &Node) -> Option<Self> {
        match node.value {
            Value::Float(f) if f.is_finite() => Some(f),
            Value::Integer(i) => Some(i as f64),
            _ => None,
        }
    }
}

impl FromNode for Duration {
    const WANT: &'static str = units::DURATION;
    fn from_node(node: &Node) -> Option<Self> {
        text(node).and_then(units::duration)
    }
}

impl FromNode for BitRate {
    const WANT: &'static str = units::RATE;
    fn from_node(node: &Node) -> Option<Self> {
        text(node).and_then(units::rate)
    }
}

/// A size in bytes read from a text with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(
    /// The number of bytes.
    pub u64,
);

impl FromNode for Size {
    const WANT: &'static str = units::SIZE;
    fn from_node(node: &Node) -> Option<Self> {
        text(node).and_then(units::size).map(Self)
    }
}

/// A share from 0 to 1 read from a percentage or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(
    /// The share, 0 to 1.
    pub f64,
);

impl FromNode for Share {
    const WANT: &'static str = units::SHARE;
    fn from_node(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Text(s) => units::share(s),
            _ => f64::from_node(node).filter(|v| (0.0..=1.0).contains(v)),
        }
        .map(Self)
    }
}

/// A load: a rate, or a share of a capacity that another key gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// The total load in bits per second.
    Rate(BitRate),
    /// A share of the capacity.
    Share(f64),
}

impl FromNode for Load {
    const WANT: &'static str = units::LOAD;
    fn from_node(node: &Node) -> Option<Self> {
        BitRate::from_node(node)
            .map(Self::Rate)
            .or_else(|| Share::from_node(node).map(|s| Self::Share(s.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str, read: impl Fn(&Section<'_>) -> Result<(), ExperimentError>) -> String {
        let node = Node::parse("f.toml", text).unwrap();
        let section = Section::new("", &node).unwrap();
        match read(&section).and_then(|()| section.finish()) {
            Ok(()) => String::new(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn unknown_keys_are_named_with_a_suggestion() {
        let e = errors("rate = \"1Gbps\"\nbufer = \"1KB\"\n", |s| {
            s.get::<BitRate>("rate")?;
            s.get::<Size>("buffer").map(|_| ())
        });
        assert_eq!(
            e,
            "f.toml:2: bufer: unknown key, accepted here: buffer, rate, did you mean \"buffer\"?"
        );
    }

    #[test]
    fn wrong_kind_or_missing_key_error_states_what_is_accepted() {
        let e = errors("\nrate = -3", |s| s.get::<BitRate>("rate").map(|_| ()));
        assert!(
            e.starts_with("f.toml:2: rate: found -3, want a rate such as"),
            "{e}"
        );
        let e = errors("", |s| s.need::<u64>("flows").map(|_| ()));
        assert_eq!(e, "f.toml: flows: missing, want a whole number, 0 or more");
        let e = errors("m = \"bernouli\"", |s| {
            s.choice("m", &[("bernoulli", 1)]).map(|_| ())
        });
        assert!(
            e.ends_with("want one of bernoulli, did you mean \"bernoulli\"?"),
            "{e}"
        );
    }
}
