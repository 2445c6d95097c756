//! The steps of scripts, for all harnesses.

use arbitrary::{Arbitrary, Unstructured};

/// Limit of steps in a script.
const MOST: usize = 400;

/// As many steps as the bytes provide. A derived list would draw a random bit after each step whether to
/// continue.
pub fn steps<'a, S: Arbitrary<'a>>(u: &mut Unstructured<'a>) -> arbitrary::Result<Vec<S>> {
    let mut steps = Vec::new();
    while !u.is_empty() && steps.len() < MOST {
        steps.push(S::arbitrary(u)?);
    }
    Ok(steps)
}
