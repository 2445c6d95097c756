//! Recovers the state of xoshiro256++ from its outputs, like an attacker who assumes that MPTCP keys are such
//! outputs.
//!
//! An output is `rotl(s0 + s3, 23) + s0`. Bit 23 of it is `s0[0] ^ s3[0] ^ s0[23] ^ c`. The carry `c` depends
//! on the low 23 bits. It is almost certainly 0 if their sum is close to 2^23, and 1 if it is close to 0. Each
//! such output is a linear equation in the 256 bits of the first state, since the state itself advances
//! linearly.

/// A linear combination of the bits of the first state.
type Combination = [u64; 4];

/// The state after some steps, each bit as a combination of the first state's bits.
struct Symbolic([[Combination; 64]; 4]);

impl Symbolic {
    fn new() -> Self {
        let mut words = [[[0; 4]; 64]; 4];
        for (w, word) in words.iter_mut().enumerate() {
            for (b, bit) in word.iter_mut().enumerate() {
                bit[w] = 1 << b;
            }
        }
        Self(words)
    }

    /// `words[to] ^= words[from]`.
    fn add(&mut self, to: usize, from: usize) {
        let source = self.0[from];
        for (a, b) in self.0[to].iter_mut().zip(&source) {
            (0..4).for_each(|k| a[k] ^= b[k]);
        }
    }

    /// The generator's step (Blackman and Vigna, "Scrambled linear pseudorandom number generators").
    fn step(&mut self) {
        let before = self.0[1];
        self.add(2, 0);
        self.add(3, 1);
        self.add(1, 2);
        self.add(0, 3);
        for b in 17..64 {
            (0..4).for_each(|k| self.0[2][b][k] ^= before[b - 17][k]);
        }
        self.0[3].rotate_right(45);
    }

    /// `s0[0] ^ s3[0] ^ s0[23]`.
    fn watched_bit(&self) -> Combination {
        let [s0, .., s3] = &self.0;
        std::array::from_fn(|k| s0[0][k] ^ s3[0][k] ^ s0[23][k])
    }
}

/// The state of the generator.
struct State([u64; 4]);

impl State {
    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }
}

/// Equations with their right sides, in echelon form: row `k` begins at bit `k`.
struct System(Vec<Option<(Combination, bool)>>);

impl System {
    fn insert(&mut self, mut row: Combination, mut right: bool) {
        for bit in 0..256 {
            if row[bit / 64] >> (bit % 64) & 1 == 0 {
                continue;
            }
            match &self.0[bit] {
                Some((pivot, side)) => {
                    (0..4).for_each(|k| row[k] ^= pivot[k]);
                    right ^= side;
                }
                None => {
                    self.0[bit] = Some((row, right));
                    return;
                }
            }
        }
    }

    /// The solution, if there is only one.
    fn solve(&self) -> Option<[u64; 4]> {
        let mut x = [0u64; 4];
        for bit in (0..256).rev() {
            let (row, right) = self.0[bit].as_ref()?;
            let known: u32 = (0..4).map(|k| (row[k] & x[k]).count_ones()).sum();
            if (known % 2 == 1) != *right {
                x[bit / 64] |= 1 << (bit % 64);
            }
        }
        Some(x)
    }
}

/// The output that follows `watched`, if these are outputs of xoshiro256++. Otherwise the result is `None` or
/// an unrelated number.
pub(crate) fn predict(watched: &[u64]) -> Option<u64> {
    const LOW: u64 = (1 << 23) - 1;
    let mut symbolic = Symbolic::new();
    let mut equations: Vec<(u64, Combination, bool)> = Vec::new();
    for output in watched {
        let low = output & LOW;
        let (doubt, carry) = (low.min(LOW - low), low < LOW / 2);
        if doubt < LOW / 256 {
            let right = (output >> 23 & 1 == 1) ^ carry;
            equations.push((doubt, symbolic.watched_bit(), right));
        }
        symbolic.step();
    }
    equations.sort_unstable_by_key(|(doubt, ..)| *doubt);
    let mut system = System(vec![None; 256]);
    for (_, row, right) in equations {
        system.insert(row, right);
    }
    let mut state = State(system.solve()?);
    watched.iter().for_each(|_| {
        state.next();
    });
    Some(state.next())
}
