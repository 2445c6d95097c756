//! Conditions on the points at which a claim is tested.

use crate::units;

/// A condition on a sweep's axis, such as `loss < 1%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    axis: String,
    relation: Relation,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl Condition {
    /// Reads `axis < value`, with `<`, `<=`, `=`, `>=` or `>`.
    pub fn parse(text: &str) -> Option<Self> {
        const RELATIONS: [(&str, Relation); 5] = [
            ("<=", Relation::LessOrEqual),
            (">=", Relation::GreaterOrEqual),
            ("<", Relation::Less),
            (">", Relation::Greater),
            ("=", Relation::Equal),
        ];
        let (sign, relation) = RELATIONS.iter().find(|(sign, _)| text.contains(sign))?;
        let (axis, value) = text.split_once(sign)?;
        let (axis, value) = (axis.trim().to_owned(), value.trim().to_owned());
        let ordered = *relation == Relation::Equal || units::quantity(&value).is_some();
        (!axis.is_empty() && !value.is_empty() && ordered).then_some(Self {
            axis,
            relation: *relation,
            value,
        })
    }

    /// The axis that the condition is on.
    pub fn axis(&self) -> &str {
        &self.axis
    }

    /// Whether a point with these settings meets the condition.
    pub fn holds(&self, set: &[(String, String)]) -> bool {
        let Some((_, found)) = set.iter().find(|(axis, _)| *axis == self.axis) else {
            return false;
        };
        let (Some(a), Some(b)) = (units::quantity(found), units::quantity(&self.value)) else {
            return self.relation == Relation::Equal && *found == self.value;
        };
        match self.relation {
            Relation::Less => a < b,
            Relation::LessOrEqual => a <= b,
            Relation::Equal => (a - b).abs() <= 1e-12 * b.abs(),
            Relation::GreaterOrEqual => a >= b,
            Relation::Greater => a > b,
        }
    }
}
