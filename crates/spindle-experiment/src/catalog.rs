//! An ordered list of named things, each with a one-line summary.
//!
//! Everything that has a name in experiment files is an entry of a catalog: Spindle's own and what other crates
//! add. The [registry](crate::registry::Registry) owns the catalogs.

use std::fmt;
use std::sync::Arc;

use crate::document::{ExperimentError, Section, Value, suggestion};

/// A named thing.
pub struct Entry<T: ?Sized> {
    /// Its name in experiment files and on the command line.
    pub name: String,
    /// What it is, in one line. It may be empty.
    pub summary: String,
    /// The thing.
    pub item: Arc<T>,
}

impl<T: ?Sized> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            summary: self.summary.clone(),
            item: Arc::clone(&self.item),
        }
    }
}

/// Named things of one sort, in the order in which messages list them.
pub struct Catalog<T: ?Sized> {
    /// What each thing is, in one or two words, for error messages.
    what: &'static str,
    entries: Vec<Entry<T>>,
}

impl<T: ?Sized> Clone for Catalog<T> {
    fn clone(&self) -> Self {
        Self {
            what: self.what,
            entries: self.entries.clone(),
        }
    }
}

/// Shows the names.
impl<T: ?Sized> fmt::Debug for Catalog<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl<T: ?Sized> Catalog<T> {
    /// An empty catalog. `what` is what each thing is, such as `topology`.
    pub const fn new(what: &'static str) -> Self {
        Self {
            what,
            entries: Vec::new(),
        }
    }

    /// Adds an entry at the end. An entry with the same name is replaced.
    pub fn add(&mut self, name: impl Into<String>, summary: impl Into<String>, item: Arc<T>) {
        let end = self.entries.len();
        self.insert(end, name, summary, item);
    }

    /// Adds an entry before the one that is called `before`, or at the end if there is none. An entry with the
    /// same name is replaced.
    pub fn add_before(
        &mut self,
        before: &str,
        name: impl Into<String>,
        summary: impl Into<String>,
        item: Arc<T>,
    ) {
        let at = self.entries.iter().position(|e| e.name == before);
        self.insert(at.unwrap_or(self.entries.len()), name, summary, item);
    }

    fn insert(
        &mut self,
        at: usize,
        name: impl Into<String>,
        summary: impl Into<String>,
        item: Arc<T>,
    ) {
        let entry = Entry {
            name: name.into(),
            summary: summary.into(),
            item,
        };
        let before = self.entries.iter().take(at);
        let removed = before.filter(|e| e.name == entry.name).count();
        self.entries.retain(|e| e.name != entry.name);
        self.entries.insert(at - removed, entry);
    }

    /// The entry with this name.
    pub fn find(&self, name: &str) -> Option<&Entry<T>> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    /// The things without their names, in order.
    pub fn items(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|e| &*e.item)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.iter().map(|e| e.name.as_str())
    }

    /// One line that reports that there is no entry called `found`, and lists the known names and the likeliest
    /// one.
    pub fn unknown(&self, found: &str) -> String {
        format!(
            "found {} \"{found}\", {}",
            self.what,
            want_one_of(found, self.names())
        )
    }

    /// The entry that the key of a table names. `None` if the key is missing.
    ///
    /// # Errors
    /// If the value is not the name of an entry.
    pub fn choice(
        &self,
        section: &Section<'_>,
        key: &'static str,
    ) -> Result<Option<&Entry<T>>, ExperimentError> {
        let Some(node) = section.node(key) else {
            return Ok(None);
        };
        let found = match &node.value {
            Value::Text(name) => self.find(name),
            _ => None,
        };
        let unknown = || section.unknown(key, node, self.names());
        found.map(Some).ok_or_else(unknown)
    }
}

/// `want one of A, B, C, did you mean "B"?` for a name that is none of `accepted`.
pub fn want_one_of<'a>(
    found: &str,
    accepted: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> String {
    let accepted = accepted.into_iter();
    let near = suggestion(found, accepted.clone());
    let all: Vec<&str> = accepted.collect();
    format!("want one of {}{near}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fruit() -> Catalog<str> {
        let mut catalog = Catalog::new("fruit");
        catalog.add("apple", "red", "a".into());
        catalog.add("pear", "green", "b".into());
        catalog
    }

    #[test]
    fn entry_with_the_same_name_is_replaced() {
        let mut catalog = fruit();
        catalog.add("apple", "yellow", "c".into());
        assert!(catalog.names().eq(["pear", "apple"]));
        assert_eq!(
            catalog.find("apple").map(|e| e.summary.as_str()),
            Some("yellow")
        );
        catalog.add_before("apple", "plum", "", "d".into());
        assert!(catalog.names().eq(["pear", "plum", "apple"]));
        catalog.add_before("apple", "pear", "", "e".into());
        assert!(catalog.names().eq(["plum", "pear", "apple"]));
    }

    #[test]
    fn unknown_name_is_reported_with_all_names_and_the_likeliest() {
        assert_eq!(
            fruit().unknown("appel"),
            "found fruit \"appel\", want one of apple, pear, did you mean \"apple\"?"
        );
    }
}
