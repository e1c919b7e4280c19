//! Seeded randomness with the same bits on every machine: `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        // 53 random bits, as many as a float holds.
        (self.next() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Uniform in `low..high`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `0..bound`; 0 for a bound of 0. The bias is below 2⁻³² for the sizes met here.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half of a product by a usize fits a usize"
    )]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// A hash of two numbers: ranks that are stable in time and differ between seeds.
pub(crate) fn rank(seed: u64, of: u64) -> u64 {
    mix(seed ^ mix(of.wrapping_add(0x9E37_79B9_7F4A_7C15)))
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First outputs of the reference implementation for seed 1234567.
        let mut random = Random::new(1_234_567);
        let first: [u64; 3] = core::array::from_fn(|_| random.next());
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 5];
        for _ in 0..50_000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
