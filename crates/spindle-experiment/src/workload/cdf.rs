//! A cumulative distribution given by points, linear in size between them.

/// Why points are not a distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CdfError {
    /// Fewer than two points.
    #[error("found {0} points, want two or more")]
    TooFew(usize),
    /// A line of a file is not two numbers.
    #[error("line {line}: found \"{found}\", want a size in bytes and a cumulative probability")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The text of the line.
        found: String,
    },
    /// Sizes or probabilities fall, or leave their range.
    #[error(
        "point {0} (size {1}, probability {2}): sizes must be 0 or more, probabilities 0 to 1, and neither may fall"
    )]
    Order(usize, f64, f64),
    /// The last probability is not 1.
    #[error("the last probability is {0}, want 1")]
    Open(f64),
}

/// A cumulative distribution of sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    points: Vec<(f64, f64)>,
}

impl Cdf {
    /// The distribution through `points` of (size in bytes, cumulative probability). If the first probability
    /// is above 0, that share of flows has the first size. Two points with the same size are a step.
    ///
    /// # Errors
    /// See [`CdfError`].
    pub fn new(mut points: Vec<(f64, f64)>) -> Result<Self, CdfError> {
        if points.len() < 2 {
            return Err(CdfError::TooFew(points.len()));
        }
        let mut last = (0.0, 0.0);
        for (i, &(size, p)) in points.iter().enumerate() {
            let sound = size.is_finite() && size >= last.0 && p >= last.1 && p <= 1.0;
            if !sound {
                return Err(CdfError::Order(i + 1, size, p));
            }
            last = (size, p);
        }
        if last.1 != 1.0 {
            return Err(CdfError::Open(last.1));
        }
        if points[0].1 > 0.0 {
            points.insert(0, (points[0].0, 0.0));
        }
        Ok(Self { points })
    }

    /// Reads lines of `size-in-bytes probability`. Empty lines are skipped, and so is the rest of a line from
    /// `#` on. Three columns are read as in pFabric-style files, `size unused probability`.
    ///
    /// # Errors
    /// See [`CdfError`].
    pub fn parse(text: &str) -> Result<Self, CdfError> {
        let mut points = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("").trim();
            if content.is_empty() {
                continue;
            }
            let wrong = || CdfError::Line {
                line: i + 1,
                found: content.to_owned(),
            };
            let numbers: Vec<f64> = content
                .split([' ', '\t', ','])
                .filter(|w| !w.is_empty())
                .map(|w| w.parse().map_err(|_| wrong()))
                .collect::<Result<_, _>>()?;
            match numbers[..] {
                [size, p] | [size, _, p] => points.push((size, p)),
                _ => return Err(wrong()),
            }
        }
        Self::new(points)
    }

    /// The size below which the share `u` (0 to 1) of flows lies.
    pub fn quantile(&self, u: f64) -> f64 {
        let above = self
            .points
            .partition_point(|(_, p)| *p <= u)
            .min(self.points.len() - 1)
            .max(1);
        let ((s0, p0), (s1, p1)) = (self.points[above - 1], self.points[above]);
        if p1 > p0 {
            s0 + (s1 - s0) * ((u - p0) / (p1 - p0)).clamp(0.0, 1.0)
        } else {
            s1
        }
    }

    /// The distribution with half of the flows from this distribution and half from the other. It is exact,
    /// because both are linear between all points of the two.
    #[must_use]
    pub fn mixed_with(&self, other: &Self) -> Self {
        let mut sizes: Vec<f64> = [self, other]
            .iter()
            .flat_map(|c| c.points.iter().map(|(size, _)| *size))
            .collect();
        sizes.sort_unstable_by(f64::total_cmp);
        sizes.dedup();
        let mut points = Vec::with_capacity(2 * sizes.len());
        for size in sizes {
            let ([a, b], [c, d]) = (self.around(size), other.around(size));
            points.push((size, (a + c) / 2.0));
            if a + c < b + d {
                points.push((size, (b + d) / 2.0));
            }
        }
        Self { points }
    }

    /// The probability of sizes below `size`, and of sizes up to `size`.
    fn around(&self, size: f64) -> [f64; 2] {
        let points = &self.points;
        let below = points.partition_point(|(s, _)| *s < size);
        let upto = points.partition_point(|(s, _)| *s <= size);
        if below < upto {
            return [points[below].1, points[upto - 1].1];
        }
        let p = match (below.checked_sub(1), points.get(below)) {
            (None, _) => 0.0,
            (Some(_), None) => 1.0,
            (Some(before), Some(&(s1, p1))) => {
                let (s0, p0) = points[before];
                p0 + (p1 - p0) * (size - s0) / (s1 - s0)
            }
        };
        [p, p]
    }

    /// The smallest size.
    pub fn smallest(&self) -> f64 {
        self.points[0].0
    }

    /// The mean size.
    pub fn mean(&self) -> f64 {
        self.moment_below(f64::INFINITY).1
    }

    /// The mean of the sizes below `limit`.
    pub fn mean_below(&self, limit: f64) -> f64 {
        let (share, sum) = self.moment_below(limit);
        sum / share
    }

    /// The share of flows larger than `size`.
    pub fn flows_above(&self, size: f64) -> f64 {
        1.0 - self.moment_below(size).0
    }

    /// The share of bytes in flows larger than `size`.
    pub fn bytes_above(&self, size: f64) -> f64 {
        1.0 - self.moment_below(size).1 / self.mean()
    }

    /// For the part below `limit`, its probability and the integral of size over it.
    fn moment_below(&self, limit: f64) -> (f64, f64) {
        let mut total = (0.0, 0.0);
        for pair in self.points.windows(2) {
            let ((s0, p0), (s1, p1)) = (pair[0], pair[1]);
            if s0 >= limit {
                break;
            }
            let part = if s1 <= limit {
                1.0
            } else {
                (limit - s0) / (s1 - s0)
            };
            let top = s0 + (s1 - s0) * part;
            let probability = (p1 - p0) * part;
            total.0 += probability;
            total.1 += probability * (s0 + top) / 2.0;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_interpolates_between_points_and_steps_at_equal_sizes() {
        let cdf = Cdf::new(vec![(10.0, 0.0), (10.0, 0.5), (20.0, 1.0)]).unwrap();
        assert_eq!(cdf.quantile(0.0), 10.0);
        assert_eq!(cdf.quantile(0.3), 10.0);
        assert_eq!(cdf.quantile(0.75), 15.0);
        assert_eq!(cdf.quantile(1.0), 20.0);
        assert_eq!(cdf.mean(), 12.5);
    }

    #[test]
    fn valid_files_are_read_and_invalid_ones_refused() {
        let cdf = Cdf::parse("# size p\n100 0.25\n\n200, 1 # end\n").unwrap();
        assert_eq!(cdf.quantile(0.1), 100.0);
        assert_eq!(Cdf::parse("1 0 0\n5 1 1\n").unwrap().quantile(1.0), 5.0);
        assert_eq!(
            Cdf::parse("1 0\nx 1\n"),
            Err(CdfError::Line {
                line: 2,
                found: "x 1".into()
            })
        );
        assert_eq!(Cdf::parse("1 0\n2 0.9\n"), Err(CdfError::Open(0.9)));
        assert_eq!(Cdf::parse("2 0\n1 1\n"), Err(CdfError::Order(2, 1.0, 1.0)));
        assert_eq!(Cdf::parse(""), Err(CdfError::TooFew(0)));
        assert!(Cdf::parse("1 0\nnan 1\n").is_err());
    }
}
