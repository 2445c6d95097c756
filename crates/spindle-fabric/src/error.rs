//! [`NetworkError`]: why a network cannot be built or changed.

use thiserror::Error;

/// Why a network or a part of it is not possible as described.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A parameter of a topology or of a link has an impossible value.
    #[error("{parameter} of {what} cannot be {found}: {remedy}")]
    Parameter {
        /// The object with the parameter, such as "the fat-tree" or a cable's name.
        what: String,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        found: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Two nodes, or two cables, have the same name.
    #[error("there are two {what}s named `{name}`; give each its own name")]
    DuplicateName {
        /// "node" or "cable".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name has a reserved form, which has another meaning in link patterns.
    #[error(
        "`{name}` cannot name a {what}: names are not empty, hold none of `,:*?` and do not end in \
         `.up` or `.down`"
    )]
    BadName {
        /// "node", "cable" or "group".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A host has no cable, or its cable leads to no other host.
    #[error("no other host can be reached from `{host}`; connect it with a cable")]
    Isolated {
        /// The host's name.
        host: String,
    },
    /// A cable joins a node to itself.
    #[error("cable `{cable}` joins a node to itself; it needs two different ends")]
    Loop {
        /// The cable's name.
        cable: String,
    },
    /// A pattern of link names matches no link.
    #[error("no link matches `{pattern}`{}", suggest(.suggestion))]
    NoLink {
        /// The pattern, or the part of it that matches no link.
        pattern: String,
        /// The most similar known name, if any name is similar.
        suggestion: Option<String>,
    },
}

fn suggest(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}

impl NetworkError {
    /// An error for an impossible value of a parameter.
    pub(crate) fn parameter(
        what: impl Into<String>,
        parameter: &'static str,
        found: impl ToString,
        remedy: &'static str,
    ) -> Self {
        Self::Parameter {
            what: what.into(),
            parameter,
            found: found.to_string(),
            remedy,
        }
    }
}
