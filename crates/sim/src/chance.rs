//! Seeded chance without stored state: every draw is a function of seed, device and simulated
//! time, so a device costs no memory for its generator and no order of evaluation matters.
//!
//! Time is cut into cells of a few seconds. A cell has 32 words of the device's ChaCha8 stream;
//! values between cells are blended, which is what makes noise wander instead of jump.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Length of a cell.
const CELL: Duration = Duration::from_secs(4);
/// Words per cell.
const WORDS: usize = 32;

/// Which word of a cell serves which purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Channel {
    /// How power-hungry the kernels of the moment are.
    Intensity = 0,
    /// Fluctuation of idle power.
    Idle = 1,
    /// Traffic between devices.
    Link = 2,
    /// Direction of that traffic.
    Direction = 3,
    /// Bursts on the video engines.
    Video = 4,
    /// How well kernels fill the multiprocessors.
    Occupancy = 5,
    /// How long clocks stay up after the load has gone.
    Hold = 6,
    /// A PCIe replay.
    Replay = 7,
    /// First of the two words that workloads mix with their own salt.
    Workload = 30,
}

/// The seed of a world's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed([u8; 32]);

/// A moment's place among the cells, the same for all devices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    cell: u64,
    blend: f64,
    /// The moment is the first of its cell that the stretch covers.
    fresh: bool,
}

impl Moment {
    /// The end of a stretch of `dt` that ends at `now`.
    pub(crate) fn new(now: Duration, dt: Duration) -> Self {
        let cell = now.as_nanos() / CELL.as_nanos();
        let into = (now.as_nanos() % CELL.as_nanos()) as f64 / CELL.as_nanos() as f64;
        let before = now.saturating_sub(dt).as_nanos() / CELL.as_nanos();
        Self {
            cell: cell as u64,
            blend: into * into * (3.0 - 2.0 * into),
            fresh: before != cell,
        }
    }
}

/// The wandering values of one device at one moment.
pub(crate) struct Noise {
    /// The words of this cell and the next, little-endian. Few of them are ever looked at.
    bytes: [u8; 2 * 4 * WORDS],
    moment: Moment,
}

impl Seed {
    pub(crate) fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&mix(seed.wrapping_add(i as u64)).to_le_bytes());
        }
        Self(bytes)
    }

    /// Noise of `stream` at a moment.
    pub(crate) fn noise(&self, stream: u64, moment: Moment) -> Noise {
        let mut rng = ChaCha8Rng::from_seed(self.0);
        rng.set_stream(stream);
        rng.set_word_pos(u128::from(moment.cell) * WORDS as u128);
        let mut noise = Noise {
            bytes: [0; 2 * 4 * WORDS],
            moment,
        };
        rng.fill_bytes(&mut noise.bytes);
        noise
    }

    /// The `n`-th gap of a Poisson process with this many events per hour.
    pub(crate) fn gap(&self, stream: u64, n: u32, per_hour: f64) -> Duration {
        let mut rng = ChaCha8Rng::from_seed(self.0);
        rng.set_stream(stream);
        rng.set_word_pos(u128::from(n) * 2);
        // Never zero, so the logarithm is finite.
        let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON;
        let hours = -unit.min(1.0).ln() / per_hour;
        Duration::try_from_secs_f64(hours * 3600.0).unwrap_or(Duration::MAX)
    }
}

impl Noise {
    /// A word of this cell, or of the next from `WORDS` on.
    fn word(&self, index: usize) -> u32 {
        let at = 4 * index;
        let word = self.bytes.get(at..at + 4);
        word.map_or(0, |w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
    }

    /// Wanders in 0–1.
    pub(crate) fn level(&self, channel: Channel) -> f64 {
        let at = channel as usize;
        self.blend(unit(self.word(at)), unit(self.word(WORDS + at)))
    }

    fn blend(&self, here: f64, next: f64) -> f64 {
        here + (next - here) * self.moment.blend
    }

    /// Wanders in −1–1.
    pub(crate) fn wave(&self, channel: Channel) -> f64 {
        2.0 * self.level(channel) - 1.0
    }

    /// Whether the stretch reached a new cell, so that its draws are new.
    pub(crate) fn fresh_cell(&self) -> bool {
        self.moment.fresh
    }

    /// 0–1, the same throughout a cell.
    pub(crate) fn draw(&self, channel: Channel) -> f64 {
        unit(self.word(channel as usize))
    }

    /// Wanders in 0–1, differently for every salt.
    pub(crate) fn level_of(&self, salt: u64) -> f64 {
        let at = Channel::Workload as usize;
        let pick = |at: usize| {
            let key = u64::from(self.word(at)) << 32 | u64::from(self.word(at + 1));
            unit((mix(key ^ salt) >> 32) as u32)
        };
        self.blend(pick(at), pick(WORDS + at))
    }
}

fn unit(word: u32) -> f64 {
    f64::from(word) * (1.0 / f64::from(u32::MAX))
}

/// Spreads a number over all bits (the finaliser of SplitMix64).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number for a name, the same on every machine.
pub(crate) fn salt(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        mix(hash ^ u64::from(byte))
    })
}

/// The stream of a device, which does not depend on what else is in the plan.
pub(crate) fn stream(node: &str, gpu: usize) -> u64 {
    mix(salt(node) ^ gpu as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seed: u64, stream: u64, secs: f64) -> Noise {
        let now = Duration::from_secs_f64(secs);
        Seed::new(seed).noise(stream, Moment::new(now, Duration::from_secs(1)))
    }

    #[test]
    fn the_same_moment_is_the_same_noise_and_others_differ() {
        let level = |n: &Noise| n.level(Channel::Idle).to_bits();
        assert_eq!(level(&at(7, 1, 9.5)), level(&at(7, 1, 9.5)));
        assert_ne!(level(&at(7, 1, 9.5)), level(&at(8, 1, 9.5)));
        assert_ne!(level(&at(7, 1, 9.5)), level(&at(7, 2, 9.5)));
        assert_ne!(level(&at(7, 1, 9.5)), level(&at(7, 1, 13.5)));
    }

    #[test]
    fn it_wanders_without_jumps_across_cells() {
        let mut last = at(1, 1, 0.0).level_of(5);
        for i in 1..4000 {
            let next = at(1, 1, f64::from(i) * 0.01).level_of(5);
            assert!((0.0..=1.0).contains(&next));
            assert!((next - last).abs() < 0.01, "jump at {i}");
            last = next;
        }
    }

    #[test]
    fn salts_give_independent_paths() {
        let n = at(3, 3, 2.0);
        assert_ne!(n.level_of(1).to_bits(), n.level_of(2).to_bits());
    }

    #[test]
    fn gaps_have_the_mean_of_their_rate() {
        let seed = Seed::new(11);
        let total: f64 = (0..4000).map(|n| seed.gap(1, n, 2.0).as_secs_f64()).sum();
        let mean = total / 4000.0;
        assert!((1700.0..1900.0).contains(&mean), "mean {mean}");
    }
}
