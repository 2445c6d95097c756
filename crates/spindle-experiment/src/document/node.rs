//! An experiment file as a tree that records where each value was written.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::error::{ExperimentError, Origin};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

/// A value of an experiment file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Reads a TOML text. Errors refer to the file as `name`.
    ///
    /// # Errors
    /// The first syntax error, with its line.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        let file: Arc<str> = name.into();
        let source = Source { file: &file, text };
        let table = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            ExperimentError::new(
                source.at(at),
                "",
                format!("not valid TOML: {}", e.message()),
            )
        })?;
        source.table(table.get_ref()).map(|value| Self {
            value,
            origin: Origin::File(file.clone()),
        })
    }

    /// A value from the command line: `true`, a number, a list such as `[1,2]`, otherwise text.
    pub(crate) fn from_flag(flag: &str, text: &str) -> Self {
        let origin = Origin::Flag(flag.into());
        let parsed = DeValue::parse(text).ok().and_then(|v| {
            let file: Arc<str> = flag.into();
            Source { file: &file, text }.node(v.get_ref(), 0).ok()
        });
        let value = match parsed {
            Some(node) if !matches!(node.value, Value::Table(_)) => node.value,
            _ => Value::Text(text.to_owned()),
        };
        let mut node = Self {
            value,
            origin: origin.clone(),
        };
        node.relabel(&origin);
        node
    }

    fn relabel(&mut self, origin: &Origin) {
        self.origin = origin.clone();
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|n| n.relabel(origin)),
            Value::Table(entries) => entries.iter_mut().for_each(|(_, n)| n.relabel(origin)),
            _ => {}
        }
    }

    /// The entry `key` of a table.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, n)| n),
            _ => None,
        }
    }

    /// Writes `value` at the dotted `path`. Tables along the path are created.
    ///
    /// # Errors
    /// If the path leads through something that is not a table.
    pub(crate) fn set(&mut self, path: &str, value: Self) -> Result<(), ExperimentError> {
        let (head, rest) = path
            .split_once('.')
            .map_or((path, None), |(h, r)| (h, Some(r)));
        let Value::Table(entries) = &mut self.value else {
            let problem = format!(
                "cannot set \"{head}\" here: found {}, not a table",
                self.kind()
            );
            return Err(ExperimentError::new(value.origin, path, problem));
        };
        let index = match entries.iter().position(|(k, _)| k == head) {
            Some(i) => i,
            None => {
                let empty = Self {
                    value: Value::Table(Vec::new()),
                    origin: value.origin.clone(),
                };
                entries.push((head.to_owned(), empty));
                entries.len() - 1
            }
        };
        match rest {
            Some(rest) => entries[index].1.set(rest, value),
            None => {
                entries[index].1 = value;
                Ok(())
            }
        }
    }

    /// Replaces `old` by `new` wherever it is the value of `key`, or an item of that value if it is a list, in this
    /// table and in the tables and lists in it. `key` is a dotted path from this table or the key of an entry as the
    /// file has it, such as the `"traffic.sizes"` of a point. Returns the number of replacements.
    pub(crate) fn replace(&mut self, key: &str, old: &Self, new: &Self) -> usize {
        self.replace_below("", key, &old.canonical(), new)
    }

    fn replace_below(&mut self, path: &str, key: &str, old: &str, new: &Self) -> usize {
        match &mut self.value {
            Value::List(items) => items
                .iter_mut()
                .map(|n| n.replace_below(path, key, old, new))
                .sum(),
            Value::Table(entries) => entries
                .iter_mut()
                .map(|(k, n)| {
                    let full = match path {
                        "" => k.clone(),
                        _ => format!("{path}.{k}"),
                    };
                    let is_key = k == key || full == key;
                    if is_key && n.canonical() == old {
                        *n = new.clone();
                        return 1;
                    }
                    let items = if is_key { n.replace_items(old, new) } else { 0 };
                    items + n.replace_below(&full, key, old, new)
                })
                .sum(),
            _ => 0,
        }
    }

    /// Replaces the items of a list that are `old`, in canonical form. Returns the number of replacements.
    fn replace_items(&mut self, old: &str, new: &Self) -> usize {
        let Value::List(items) = &mut self.value else {
            return 0;
        };
        let mut equal = 0;
        for item in items.iter_mut().filter(|item| item.canonical() == old) {
            *item = new.clone();
            equal += 1;
        }
        equal
    }

    /// Removes the entry `key` from a table and returns it.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Self> {
        match &mut self.value {
            Value::Table(entries) => {
                let at = entries.iter().position(|(k, _)| k == key)?;
                Some(entries.remove(at).1)
            }
            _ => None,
        }
    }

    /// A description of the value, for error messages.
    pub fn kind(&self) -> String {
        match &self.value {
            Value::Text(s) => format!("\"{s}\""),
            Value::Integer(i) => i.to_string(),
            Value::Float(f) => f.to_string(),
            Value::Boolean(b) => b.to_string(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }

    /// The value in one canonical text form, independent of layout, comments and origins.
    pub(crate) fn canonical(&self) -> String {
        match &self.value {
            Value::Text(s) => format!("{s:?}"),
            Value::Integer(i) => i.to_string(),
            Value::Float(f) => format!("{f:?}"),
            Value::Boolean(b) => b.to_string(),
            Value::List(items) => {
                format!(
                    "[{}]",
                    items
                        .iter()
                        .map(Self::canonical)
                        .collect::<Vec<_>>()
                        .join(",")
                )
            }
            Value::Table(entries) => {
                let mut parts: Vec<_> = entries
                    .iter()
                    .map(|(k, n)| format!("{k:?}={}", n.canonical()))
                    .collect();
                parts.sort();
                format!("{{{}}}", parts.join(","))
            }
        }
    }
}

struct Source<'a> {
    file: &'a Arc<str>,
    text: &'a str,
}

impl Source<'_> {
    fn at(&self, offset: usize) -> Origin {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count() as u32;
        Origin::Line {
            file: self.file.clone(),
            line,
        }
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Value, ExperimentError> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(k, _)| k.span().start);
        entries
            .into_iter()
            .map(|(k, v)| {
                let mut node = self.node(v.get_ref(), v.span().start)?;
                // A table's own span is its header or its first entry. The key is a better place to report.
                node.origin = self.at(k.span().start);
                Ok((k.get_ref().to_string(), node))
            })
            .collect::<Result<_, _>>()
            .map(Value::Table)
    }

    fn node(&self, value: &DeValue<'_>, offset: usize) -> Result<Node, ExperimentError> {
        let origin = self.at(offset);
        let wrong = |what: &str| ExperimentError::new(origin.clone(), "", what);
        let value = match value {
            DeValue::String(s) => Value::Text(s.to_string()),
            DeValue::Boolean(b) => Value::Boolean(*b),
            DeValue::Integer(i) => Value::Integer(
                i64::from_str_radix(&i.as_str().replace('_', ""), i.radix())
                    .map_err(|_| wrong("the whole number is too large"))?,
            ),
            DeValue::Float(f) => Value::Float(
                f.as_str()
                    .replace('_', "")
                    .parse()
                    .map_err(|_| wrong("not a number"))?,
            ),
            DeValue::Datetime(_) => return Err(wrong("dates are not used in experiment files")),
            DeValue::Array(items) => Value::List(
                items
                    .iter()
                    .map(|v| self.node(v.get_ref(), v.span().start))
                    .collect::<Result<_, _>>()?,
            ),
            DeValue::Table(t) => self.table(t)?,
        };
        Ok(Node { value, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_order_are_kept() {
        let n = Node::parse("x.toml", "b = 1\na = [\"u\",\n \"v\"]\n[t]\nz = 2.5\n").unwrap();
        let Value::Table(entries) = &n.value else {
            panic!()
        };
        assert_eq!(
            entries.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>(),
            ["b", "a", "t"]
        );
        let line = |n: &Node| match &n.origin {
            Origin::Line { line, .. } => *line,
            _ => 0,
        };
        let Value::List(items) = &n.get("a").unwrap().value else {
            panic!()
        };
        assert_eq!(line(&items[1]), 3);
        assert_eq!(line(n.get("t").unwrap().get("z").unwrap()), 5);
    }

    #[test]
    fn syntax_errors_have_a_line() {
        let e = Node::parse("x.toml", "a = 1\nb = = 2\n").unwrap_err();
        assert!(e.to_string().starts_with("x.toml:2: not valid TOML"), "{e}");
        assert!(!e.to_string().contains('\n'));
    }

    #[test]
    fn set_writes_values_and_creates_tables() {
        let mut n = Node::parse("x.toml", "a = 1\n").unwrap();
        n.set("loss.rate", Node::from_flag("--set", "2%")).unwrap();
        n.set("s.flows", Node::from_flag("--set", "100")).unwrap();
        assert_eq!(
            n.get("loss").unwrap().get("rate").unwrap().value,
            Value::Text("2%".into())
        );
        assert_eq!(
            n.get("s").unwrap().get("flows").unwrap().value,
            Value::Integer(100)
        );
        let e = n
            .set("a.b", Node::from_flag("--set a.b=1", "1"))
            .unwrap_err();
        assert!(e.to_string().starts_with("--set a.b=1: "), "{e}");
    }

    #[test]
    fn replace_changes_the_value_of_a_key_in_the_file_and_in_points() {
        let text = "t = { s = { a = 1, b = 2 } }\nother = 7\n\
                    x = [{ \"t.s\" = { b = 2, a = 1 } }, { \"t.s\" = 7 }]\n";
        let mut n = Node::parse("x.toml", text).unwrap();
        let value = |text| Node::from_flag("--set", text);
        let old = n.get("t").and_then(|t| t.get("s")).unwrap().clone();
        assert_eq!(n.replace("t.s", &old, &value("3")), 2);
        assert_eq!(n.replace("t.s", &value("7"), &value("8")), 1);
        let after = "t = { s = 3 }\nother = 7\nx = [{ \"t.s\" = 3 }, { \"t.s\" = 8 }]\n";
        let after = Node::parse("y.toml", after).unwrap();
        assert_eq!(n.canonical(), after.canonical());
    }

    #[test]
    fn replace_changes_items_of_a_list() {
        let text = "where = [\"a = 1\", \"b = 2\"]\nother = [\"a = 1\"]\n";
        let mut n = Node::parse("x.toml", text).unwrap();
        let [old, new] = ["a = 1", "a = 3"].map(|text| Node::from_flag("--set", text));
        assert_eq!(n.replace("where", &old, &new), 1);
        let after = "where = [\"a = 3\", \"b = 2\"]\nother = [\"a = 1\"]\n";
        let after = Node::parse("y.toml", after).unwrap();
        assert_eq!(n.canonical(), after.canonical());
    }

    #[test]
    fn canonical_form_ignores_layout() {
        let a = Node::parse("x", "a = 1\n[t]\nb = \"q\"\n").unwrap();
        let b = Node::parse("y", "# c\nt = { b = \"q\" }\n\na=1").unwrap();
        assert_eq!(a.canonical(), b.canonical());
        let c = Node::parse("y", "t = { b = \"r\" }\na=1").unwrap();
        assert_ne!(a.canonical(), c.canonical());
    }
}
