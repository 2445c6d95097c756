//! What scripts of all harnesses are made of.

use arbitrary::{Arbitrary, Unstructured};

/// Steps of a script at most.
const MOST: usize = 400;

/// As many steps as the bytes are good for: a derived list would toss a coin after each.
pub fn steps<'a, S: Arbitrary<'a>>(u: &mut Unstructured<'a>) -> arbitrary::Result<Vec<S>> {
    let mut steps = Vec::new();
    while !u.is_empty() && steps.len() < MOST {
        steps.push(S::arbitrary(u)?);
    }
    Ok(steps)
}
