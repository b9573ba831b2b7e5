//! Chance without state: a draw is a function of the seed and of what it is drawn for. So a
//! workload that comes or goes never shifts the draws of the others, and two readings of one
//! tick are the same.

/// A source of draws, one per seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise(u64);

impl Noise {
    pub(super) fn new(seed: u64) -> Noise {
        Noise(scramble(seed ^ 0x6d69_7261_6765_2121))
    }

    /// A number in `0.0..1.0` that belongs to these keys alone.
    pub(super) fn draw(self, keys: &[u64]) -> f64 {
        let mixed = keys.iter().fold(self.0, |sum, key| {
            scramble(sum.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ scramble(*key))
        });
        // 53 bits: all that a double holds.
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A seed from a name, for hosts that were given none.
pub(super) fn seed_of(name: &str) -> u64 {
    name.bytes()
        .fold(0, |sum, byte| scramble(sum ^ u64::from(byte)))
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_repeatable_and_apart() {
        let noise = Noise::new(7);
        assert_eq!(noise.draw(&[1, 2]), Noise::new(7).draw(&[1, 2]));
        assert_ne!(noise.draw(&[1, 2]), noise.draw(&[2, 1]));
        assert_ne!(noise.draw(&[1, 2]), Noise::new(8).draw(&[1, 2]));
        assert_ne!(seed_of("node-a"), seed_of("node-b"));
    }

    #[test]
    fn draws_fill_the_unit_interval() {
        let noise = Noise::new(0);
        let mut tenths = [0u32; 10];
        let mut sum = 0.0;
        for key in 0..10_000 {
            let draw = noise.draw(&[key, 3]);
            assert!((0.0..1.0).contains(&draw));
            tenths[(draw * 10.0) as usize] += 1;
            sum += draw;
        }
        assert!(tenths.iter().all(|count| (850..1150).contains(count)));
        assert!((4900.0..5100.0).contains(&sum));
    }
}
