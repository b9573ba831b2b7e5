//! How fast the engine goes: how often it ticks, and how much simulated time each tick is.

use std::time::Duration;

/// Slowest and fastest simulated time per wall-clock time.
pub const SPEED: std::ops::RangeInclusive<f64> = 0.01..=3600.0;
/// The shortest wall-clock time between ticks that speed alone brings about.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest wall-clock time between ticks that slowness alone brings about.
const LONGEST: Duration = Duration::from_secs(1);

/// Wall-clock time between ticks, and simulated time per tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Wall-clock time between ticks.
    pub period: Duration,
    /// Simulated time per tick.
    pub step: Duration,
}

impl Pace {
    /// The pace of a plan's tick at a speed. Faster time means longer steps rather than ever
    /// more ticks; the simulation cuts long steps itself.
    pub fn new(tick: Duration, speed: f64) -> Self {
        let wished = tick.div_f64(speed);
        let period = wished.clamp(tick.min(SHORTEST), tick.max(LONGEST));
        Self {
            period,
            step: period.mul_f64(speed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_with_speed_and_ticks_stay_reasonable() {
        let second = Duration::from_secs(1);
        let pace = |tick, speed| Pace::new(tick, speed);
        assert_eq!(
            pace(second, 1.0),
            Pace {
                period: second,
                step: second
            }
        );
        assert_eq!(
            pace(second, 60.0),
            Pace {
                period: Duration::from_millis(100),
                step: Duration::from_secs(6)
            }
        );
        assert_eq!(
            pace(second, 0.1),
            Pace {
                period: second,
                step: Duration::from_millis(100)
            }
        );
        let fine = Duration::from_millis(10);
        assert_eq!(
            pace(fine, 1.0),
            Pace {
                period: fine,
                step: fine
            }
        );
    }
}
