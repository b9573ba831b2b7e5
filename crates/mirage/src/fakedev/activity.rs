//! What a workload does over time: steps, each with a span of values and a way through it.

use super::device::{self, Fleet, Metric};
use super::json::{Invalid, Object};
use serde_json::Value;

/// What a step without a duration lasts.
const DAY: u64 = 24 * 60 * 60;
const MICROS: f64 = 1e6;
/// Steps end some time: a few thousand years of microseconds.
const LONGEST: f64 = 1e17;

/// How values move through their span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// Anywhere in the span, anew each tick.
    Random,
    /// Upwards from the low end to the high end by random increments; never down.
    RandomIncrease,
    /// Evenly from the first end to the second.
    Ramp,
}

/// What the numbers of a span are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The metric's own unit, on top of its minimum.
    Absolute,
    /// A share (0 to 1) of what lies between its limits.
    Share,
}

/// Values a step may take.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) unit: Unit,
    pub(super) function: Function,
}

/// How far a step has come, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) elapsed: u64,
    pub(super) length: u64,
    pub(super) tick: u64,
}

/// One step of a profile.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) micros: u64,
    /// Drives every metric that nothing else drives.
    pub(super) load: Span,
    /// Metrics with a span of their own, by position.
    pub(super) metrics: Vec<(usize, Span)>,
}

impl Span {
    /// The value at this point, with a draw from `0.0..1.0`.
    pub(super) fn at(&self, progress: Progress, draw: f64) -> f64 {
        let length = progress.length.max(1) as f64;
        let share = match self.function {
            Function::Random => draw,
            // Each tick draws from its own slice of the way, so values can only rise.
            Function::RandomIncrease => {
                let slice = progress.tick as f64 * (1.0 - draw);
                (progress.elapsed as f64 - slice) / length
            }
            Function::Ramp => progress.elapsed as f64 / length,
        };
        self.low + (self.high - self.low) * share.clamp(0.0, 1.0)
    }
}

impl Step {
    /// Reads one step; `find` knows metrics by every name they have.
    pub(super) fn parse(
        step: &Object<'_>,
        fleet: &Fleet,
        find: &dyn Fn(&str) -> Option<usize>,
        speed: f64,
    ) -> Result<Step, Invalid> {
        let percent = |name: &str| match step.number(name)? {
            None => Ok(0.0),
            Some(number) if (0.0..=100.0).contains(&number) => Ok(number / 100.0),
            Some(number) => Err(step.invalid(name, format!("{number} is not within 0-100"))),
        };
        let (load, fluctuation) = (percent("Load")?, percent("Fluctuation")?);
        // In percent again, where 10 ± 10 is exact.
        if fluctuation > load || (load + fluctuation) * 100.0 > 100.0 + 1e-9 {
            return Err(step.invalid(
                "Fluctuation",
                format!(
                    "load {} +/- {} is not within 0-100",
                    load * 100.0,
                    fluctuation * 100.0
                ),
            ));
        }
        let seconds = match step.count("Seconds")? {
            None | Some(0) => DAY,
            Some(seconds) => seconds,
        };
        let mut metrics: Vec<(usize, Span)> = Vec::new();
        for (name, value) in step.entries("Metrics")? {
            let at = step.path(&format!("Metrics.{name}"));
            let metric =
                find(name).ok_or_else(|| Invalid::new(&at, "the devices have no such metric"))?;
            if metrics.iter().any(|(earlier, _)| *earlier == metric) {
                return Err(Invalid::new(at, "the same metric stands there twice"));
            }
            metrics.push((metric, span(value, &at, &fleet.metrics[metric])?));
        }
        Ok(Step {
            micros: (seconds as f64 * MICROS / speed).clamp(1.0, LONGEST) as u64,
            load: Span {
                low: load - fluctuation,
                high: load + fluctuation,
                unit: Unit::Share,
                function: function(step)?,
            },
            metrics,
        })
    }
}

/// A span of one metric: a bare number, or an object with its ends.
fn span(value: &Value, at: &str, metric: &Metric) -> Result<Span, Invalid> {
    let (low, high, unit, function) = if value.is_number() {
        let number = device::finite(value, at)?;
        (number, number, Unit::Absolute, Function::Random)
    } else {
        let entry = Object::of(value, at)?;
        let low = entry.number("Min")?.unwrap_or(0.0);
        let high = entry.number("Max")?.unwrap_or(low);
        let unit = match entry.text("Unit")? {
            None | Some("absolute") => Unit::Absolute,
            Some("share") => Unit::Share,
            Some(other) => {
                return Err(entry.invalid(
                    "Unit",
                    format!("{other:?} is none of \"absolute\", \"share\""),
                ));
            }
        };
        (low, high, unit, function(&entry)?)
    };
    let refuse = |what: String| Err(Invalid::new(at, what));
    if low < 0.0 || high < 0.0 {
        return refuse("what a workload adds is never below 0".to_owned());
    }
    if low > high && function != Function::Ramp {
        return refuse(format!(
            "Min {low} is above Max {high}; only a ramp may fall"
        ));
    }
    if unit == Unit::Share && metric.counter {
        return refuse("a counter has no share; give its growth per second".to_owned());
    }
    if unit == Unit::Share && low.max(high) > 1.0 {
        return refuse(format!("a share lies within 0-1, not at {}", low.max(high)));
    }
    Ok(Span {
        low,
        high,
        unit,
        function,
    })
}

fn function(entry: &Object<'_>) -> Result<Function, Invalid> {
    match entry.text("Function")? {
        None | Some("random") => Ok(Function::Random),
        Some("random-increase") => Ok(Function::RandomIncrease),
        Some("ramp") => Ok(Function::Ramp),
        Some(other) => Err(entry.invalid(
            "Function",
            format!("{other:?} is none of \"random\", \"random-increase\", \"ramp\""),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span_of(function: Function) -> Span {
        Span {
            low: 10.0,
            high: 20.0,
            unit: Unit::Absolute,
            function,
        }
    }

    fn progress(elapsed: u64) -> Progress {
        Progress {
            elapsed,
            length: 100,
            tick: 10,
        }
    }

    #[test]
    fn random_reaches_both_ends_of_its_span() {
        let span = span_of(Function::Random);
        assert_eq!(span.at(progress(50), 0.0), 10.0);
        assert!(span.at(progress(50), 1.0 - f64::EPSILON) > 19.9);
    }

    #[test]
    fn random_increase_never_falls_whatever_is_drawn() {
        let span = span_of(Function::RandomIncrease);
        // The worst case: the best draw of one tick, then the worst of the next.
        let mut last = 0.0;
        for (turn, elapsed) in (0..=100).step_by(10).enumerate() {
            let draw = if turn % 2 == 0 { 0.999_999 } else { 0.0 };
            let value = span.at(progress(elapsed), draw);
            assert!(value >= last, "{value} after {last} at {elapsed}");
            assert!((10.0..=20.0).contains(&value));
            last = value;
        }
        assert!(last > 19.0);
        assert_ne!(
            span.at(progress(50), 0.1),
            span.at(progress(50), 0.9),
            "chance has a say"
        );
    }

    #[test]
    fn ramp_goes_evenly_up_or_down() {
        let span = span_of(Function::Ramp);
        assert_eq!(span.at(progress(0), 0.7), 10.0);
        assert_eq!(span.at(progress(50), 0.2), 15.0);
        let down = Span {
            low: 20.0,
            high: 10.0,
            ..span
        };
        assert_eq!(down.at(progress(25), 0.2), 17.5);
    }
}
