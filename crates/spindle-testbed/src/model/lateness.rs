//! [`Lateness`]: how late packets were delivered, compared with the model's time for them.

use serde::{Deserialize, Serialize};

/// Buckets per power of two, as an exponent. Values are known to 1 part in 32.
const FINE: u32 = 5;
/// Buckets for all 64-bit values.
const BUCKETS: usize = ((64 - FINE as usize) << FINE) + (1 << FINE);

/// A histogram of nanoseconds.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

/// Lateness in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// Packets delivered.
    pub packets: u64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// A histogram in its stored form: only the buckets that are not empty.
#[derive(Serialize, Deserialize)]
struct Stored {
    max: u64,
    buckets: Vec<(usize, u64)>,
}

impl From<Lateness> for Stored {
    fn from(l: Lateness) -> Self {
        let buckets = l.buckets.into_iter().enumerate();
        Self {
            max: l.max,
            buckets: buckets.filter(|(_, n)| *n > 0).collect(),
        }
    }
}

impl TryFrom<Stored> for Lateness {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let mut l = Self {
            max: stored.max,
            ..Self::default()
        };
        for (at, n) in stored.buckets {
            let Some(bucket) = l.buckets.get_mut(at) else {
                return Err(format!("found bucket {at}, want one below {BUCKETS}"));
            };
            *bucket = n;
            l.count = l.count.saturating_add(n);
        }
        Ok(l)
    }
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            max: 0,
        }
    }
}

impl std::fmt::Debug for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.summary().fmt(f)
    }
}

impl Lateness {
    /// Records the lateness of one packet in nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds the packets of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (a, b) in self.buckets.iter_mut().zip(&other.buckets) {
            *a += b;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// A percentile (0 to 1) in nanoseconds: the upper end of its bucket, but at most the largest value. 0
    /// without packets.
    pub fn percentile(&self, q: f64) -> u64 {
        let rank = ((self.count as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper(index).min(self.max);
            }
        }
        self.max
    }

    /// The median, the 99th percentile and the largest value.
    pub fn summary(&self) -> LatenessSummary {
        let us = |nanos: u64| (nanos as f64 / 1e3 * 10.0).round() / 10.0;
        LatenessSummary {
            packets: self.count,
            p50: us(self.percentile(0.5)),
            p99: us(self.percentile(0.99)),
            max: us(self.max),
        }
    }
}

fn bucket(nanos: u64) -> usize {
    let bits = 64 - nanos.leading_zeros();
    if bits <= FINE {
        return nanos as usize;
    }
    let shift = bits - FINE - 1;
    (((shift + 1) as usize) << FINE) + ((nanos >> shift) as usize - (1 << FINE))
}

/// The largest value of a bucket.
fn upper(index: usize) -> u64 {
    let (row, column) = (index >> FINE, (index & ((1 << FINE) - 1)) as u64);
    match row {
        0 => column,
        row => (((column + (1 << FINE) + 1) as u128) << (row - 1)).saturating_sub(1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket(v in any::<u64>()) {
            let b = bucket(v);
            prop_assert!(b < BUCKETS);
            prop_assert!(upper(b) >= v);
            prop_assert!(b == 0 || upper(b - 1) < v);
        }
    }

    #[test]
    fn percentiles_are_accurate_and_histograms_add_up() {
        let mut a = Lateness::default();
        let mut b = Lateness::default();
        (1..=500u64).for_each(|i| a.record(i * 1000));
        (501..=1000u64).for_each(|i| b.record(i * 1000));
        a.add(&b);
        let s = a.summary();
        assert_eq!((s.packets, s.max), (1000, 1000.0));
        assert!((500.0..517.0).contains(&s.p50), "{s:?}");
        assert!((990.0..=1000.0).contains(&s.p99), "{s:?}");
        assert_eq!(Lateness::default().percentile(0.99), 0);
        let text = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Lateness>(&text).unwrap(), a);
        assert!(serde_json::from_str::<Lateness>("{\"max\":1,\"buckets\":[[9999,1]]}").is_err());
    }
}
