//! What a workload wants from one device at one moment.

use std::time::Duration;

use mirage_model::plan::{ActivityStep, Amount, Function, Range};

use crate::workload::WorkloadState;

/// A context with nothing in it: what a process holds when its plan names no memory.
const CONTEXT_BYTES: u64 = 440 << 20;
/// An endless ramp still has to arrive.
const ENDLESS_RAMP: Duration = Duration::from_secs(600);

/// Wants of one workload on one device (or MIG device), shares 0–1 of that device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Want {
    pub(crate) busy: f64,
    pub(crate) band: f64,
    pub(crate) link: f64,
    pub(crate) memory: u64,
}

/// Where in its range a value is: what `Function::Increase` must remember.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Highest fraction in this step so far.
    pub(crate) highest: f32,
    /// The step it belongs to.
    pub(crate) step: u32,
}

/// What `workload` wants at `now` from a device with `capacity` bytes. `wander` is in 0–1.
pub(crate) fn want(
    workload: &WorkloadState,
    now: Duration,
    wander: f64,
    capacity: u64,
    position: &mut Position,
) -> Want {
    let Some(step) = workload.current() else {
        return Want::default();
    };
    let at = fraction(workload, step, now, wander, position);
    let busy = share(step.utilization, at);
    let band = step.bandwidth.map_or_else(
        || busy * usual_bandwidth(workload.shape.intensity),
        |r| share(r, at),
    );
    let together = if workload.devices.len() > 1 {
        0.3
    } else {
        0.05
    };
    let link = step
        .interconnect
        .map_or_else(|| busy * together, |r| share(r, at));
    Want {
        busy,
        band,
        link,
        memory: memory(step.memory, at, capacity),
    }
}

/// Kernels that need little power are waiting for memory.
fn usual_bandwidth(intensity: f64) -> f64 {
    0.12 + 0.5 * (1.0 - intensity).clamp(0.0, 1.0)
}

fn fraction(
    workload: &WorkloadState,
    step: &ActivityStep,
    now: Duration,
    wander: f64,
    position: &mut Position,
) -> f64 {
    let number = workload.step_number();
    if position.step != number {
        *position = Position {
            highest: 0.0,
            step: number,
        };
    }
    match step.function {
        Function::Random => wander,
        Function::Ramp => {
            let length = step.duration.unwrap_or(ENDLESS_RAMP).as_secs_f64();
            let elapsed = workload
                .clock(now)
                .saturating_sub(workload.step_began)
                .as_secs_f64();
            if length > 0.0 {
                (elapsed / length).min(1.0)
            } else {
                1.0
            }
        }
        Function::Increase => {
            position.highest = position.highest.max(wander as f32);
            f64::from(position.highest)
        }
    }
}

fn between(range: Range, at: f64) -> f64 {
    let value = range.low + (range.high - range.low) * at;
    // Hostile ranges (NaN) count as nothing.
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}

fn share(percent: Range, at: f64) -> f64 {
    (between(percent, at) / 100.0).min(1.0)
}

fn memory(amount: Option<Amount>, at: f64, capacity: u64) -> u64 {
    let (range, bytes) = match amount {
        None => return CONTEXT_BYTES.min(capacity / 20),
        Some(Amount::Bytes(range)) => (range, between(range, at)),
        Some(Amount::Share(range)) => (range, between(range, at) / 100.0 * capacity as f64),
    };
    let bytes = bytes as u64;
    // A fixed amount is given exactly; a moving one moves in pages.
    if range.low == range.high {
        bytes
    } else {
        bytes & !0x1f_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: f64, high: f64) -> Range {
        Range { low, high }
    }

    #[test]
    fn fixed_memory_is_exact_and_shares_follow_the_capacity() {
        let five = 5000 << 20;
        assert_eq!(
            memory(
                Some(Amount::Bytes(range(five as f64, five as f64))),
                0.3,
                1 << 40
            ),
            five
        );
        assert_eq!(
            memory(Some(Amount::Share(range(50.0, 50.0))), 0.9, 1 << 30),
            1 << 29
        );
        assert_eq!(memory(None, 0.0, 1 << 40), CONTEXT_BYTES);
        assert_eq!(memory(None, 0.0, 2000), 100);
    }

    #[test]
    fn nonsense_ranges_want_nothing() {
        assert_eq!(share(range(f64::NAN, 1.0), 0.5), 0.0);
        assert_eq!(share(range(-50.0, -10.0), 0.5), 0.0);
        assert_eq!(share(range(300.0, 900.0), 0.5), 1.0);
    }

    #[test]
    fn gentle_kernels_wait_for_memory() {
        assert!(usual_bandwidth(0.45) > usual_bandwidth(0.95));
        assert_eq!(usual_bandwidth(3.0), 0.12);
    }
}
