//! Causes: why claims fail under every reading that was run.
//!
//! The file `experiments/causes.toml` has a table `[[cause]]` for each of them, with the ids of its `claims`, what it
//! is `because` of, a `command` that shows it, and a `text` of one or more sentences that says what was traced. A claim has
//! at most one cause. A claim that holds under some reading needs none, because the reading is its cause.

use std::sync::OnceLock;

use serde::Deserialize;

/// The file of causes.
const FILE: &str = include_str!("../experiments/causes.toml");

/// What makes a claim fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// The paper contradicts itself or its own equations.
    Paper,
    /// A part of the set-up that the paper does not describe, and that no reading has.
    SetUp,
    /// The schemes as the paper describes them behave in this way.
    Scheme,
    /// The runs are shorter or smaller than those of the paper.
    Scale,
    /// The cause was not found.
    Open,
}

impl Because {
    /// All kinds of causes.
    pub const ALL: [Self; 5] = [
        Self::Paper,
        Self::SetUp,
        Self::Scheme,
        Self::Scale,
        Self::Open,
    ];

    /// Its name, as in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::SetUp => "set-up",
            Self::Scheme => "scheme",
            Self::Scale => "scale",
            Self::Open => "open",
        }
    }
}

/// Why claims fail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// The ids of the claims.
    pub claims: Vec<String>,
    /// What makes them fail.
    pub because: Because,
    /// The command whose output shows it.
    pub command: String,
    /// What was traced, in one or more sentences.
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Causes {
    #[serde(default)]
    cause: Vec<Cause>,
}

/// All causes.
pub fn all() -> &'static [Cause] {
    static ALL: OnceLock<Vec<Cause>> = OnceLock::new();
    // The file is built in, and a test reads it.
    ALL.get_or_init(|| read(FILE).unwrap_or_default())
}

/// The cause of a claim, if it has one.
pub fn of(claim: &str) -> Option<&'static Cause> {
    all().iter().find(|c| c.claims.iter().any(|id| id == claim))
}

fn read(text: &str) -> Result<Vec<Cause>, toml::de::Error> {
    toml::from_str::<Causes>(text).map(|file| file.cause)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::registry::Registry;
    use crate::{Overrides, library};

    #[test]
    fn every_cause_is_of_claims_that_exist_and_each_claim_has_one() {
        let causes = read(FILE).unwrap();
        assert!(!causes.is_empty());
        let registry = Registry::standard();
        let claims: BTreeSet<String> = library::reproductions()
            .flat_map(|b| b.read(&registry, &Overrides::default()).unwrap().claims)
            .map(|c| c.id)
            .collect();
        let mut seen = BTreeSet::new();
        for cause in &causes {
            assert!(
                !cause.claims.is_empty() && cause.text.ends_with('.'),
                "{cause:?}"
            );
            for id in &cause.claims {
                assert!(claims.contains(id), "{id}: no such claim");
                assert!(seen.insert(id), "{id} has two causes");
            }
        }
    }

    #[test]
    fn mistake_in_a_cause_is_an_error() {
        let good =
            "[[cause]]\nclaims = [\"a\"]\nbecause = \"scheme\"\ncommand = \"c\"\ntext = \"One.\"\n";
        assert_eq!(read(good).unwrap()[0].because, Because::Scheme);
        for (from, to) in [
            ("scheme", "luck"),
            ("text", "txt"),
            ("claims", "claim"),
            ("command", "shown"),
        ] {
            assert!(read(&good.replace(from, to)).is_err(), "{to}");
        }
    }
}
