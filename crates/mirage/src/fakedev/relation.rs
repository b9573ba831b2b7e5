//! Metrics that follow from others: busy devices clock up, draw power, warm up, throttle.
//!
//! A relation takes a reading, turns it into a share of its range, and adds that share (times
//! `Ratio`, plus `Offset`) to another metric's range. With `Delay` it does so gradually, with
//! that many seconds as time constant; with `Above` only what lies past a threshold counts; with
//! `Switch` anything past it counts in full; with `Limit` it lowers the other's ceiling instead.
//! A counter stands for its growth per second, on either side.
//!
//! Relations without delay or limit act within a tick, so they must not run in a circle; those
//! with one see the tick before, so a device may heat, throttle and cool for ever.

use super::device::Metric;
use super::json::{Invalid, Object};

const MOST_SHARE: f64 = 1e6;

/// What one metric does to another.
#[derive(Debug)]
struct Relation {
    from: usize,
    to: usize,
    ratio: f64,
    offset: f64,
    delay: f64,
    above: Option<f64>,
    switch: bool,
    limit: bool,
}

/// The relations of a device type.
#[derive(Debug)]
pub(super) struct Relations {
    list: Vec<Relation>,
    /// All metrics, each behind those it follows from within a tick.
    order: Vec<usize>,
    dependent: Vec<bool>,
}

/// The readings of one device, by cell.
#[derive(Debug, Clone)]
pub(super) struct Readings {
    pub(super) values: Vec<f64>,
    /// What counters grow by per second.
    pub(super) rates: Vec<f64>,
    /// Where each delayed relation stands, per sub-device.
    lags: Vec<f64>,
}

/// How much time a reckoning covers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Passing {
    /// This many seconds.
    Seconds(f64),
    /// As long as it takes for everything delayed to arrive.
    Settling,
}

impl Relations {
    /// Reads the relations among the metrics of a device type.
    pub(super) fn parse(top: &Object<'_>, metrics: &[Metric]) -> Result<Relations, Invalid> {
        let mut list = Vec::new();
        for (position, entry) in top.list("Relations")?.iter().enumerate() {
            let entry = Object::of(entry, format!("Relations[{position}]"))?;
            list.push(Relation::parse(&entry, metrics)?);
        }
        let mut dependent = vec![false; metrics.len()];
        for relation in list.iter().filter(|relation| !relation.limit) {
            dependent[relation.to] = true;
        }
        let order = order(&list, metrics)?;
        Ok(Relations {
            list,
            order,
            dependent,
        })
    }

    /// Whether a metric follows from others, so that a workload's load does not drive it.
    pub(super) fn is_dependent(&self, metric: usize) -> bool {
        self.dependent[metric]
    }

    /// Completes the readings of one device: `now` comes with what workloads do to it.
    pub(super) fn settle(
        &self,
        fleet: &super::Fleet,
        before: &Readings,
        now: &mut Readings,
        passing: Passing,
    ) {
        for metric in &self.order {
            let limits = &fleet.metrics[*metric];
            let cells = fleet.cells(*metric);
            let width = cells.len();
            for (part, cell) in cells.enumerate() {
                let mut value = if limits.counter {
                    now.rates[cell]
                } else {
                    now.values[cell]
                };
                let unit = if limits.counter { 1.0 } else { limits.range() };
                let mut ceiling = limits.max;
                for (place, relation) in self.list.iter().enumerate() {
                    if relation.to != *metric {
                        continue;
                    }
                    let seen = if relation.looks_back() { before } else { &*now };
                    let mut push =
                        relation.ratio * relation.share(fleet, seen, part, width) + relation.offset;
                    if relation.delay > 0.0 {
                        let lag = place * fleet.parts + part;
                        if let Passing::Seconds(seconds) = passing {
                            let arrived = 1.0 - (-seconds / relation.delay).exp();
                            push = before.lags[lag] + (push - before.lags[lag]) * arrived;
                        }
                        now.lags[lag] = push;
                    }
                    if relation.limit {
                        ceiling = ceiling.min(limits.max - push.clamp(0.0, 1.0) * unit);
                    } else {
                        value += push * unit;
                    }
                }
                if limits.counter {
                    let rate = value.clamp(0.0, f64::MAX);
                    now.rates[cell] = rate;
                    let seconds = match passing {
                        Passing::Seconds(seconds) => seconds,
                        Passing::Settling => 0.0,
                    };
                    now.values[cell] = (before.values[cell] + rate * seconds).min(limits.max);
                } else {
                    now.values[cell] = value.min(ceiling).clamp(limits.min, limits.max);
                }
            }
        }
    }

    /// The readings of a device that nobody uses, long after it was switched on.
    pub(super) fn idle(&self, fleet: &super::Fleet) -> Readings {
        let blank = Readings {
            values: fleet
                .metrics
                .iter()
                .enumerate()
                .flat_map(|(metric, limits)| fleet.cells(metric).map(|_| limits.min))
                .collect(),
            rates: vec![0.0; fleet.width()],
            lags: vec![0.0; self.list.len() * fleet.parts],
        };
        let mut before = blank.clone();
        // Each pass carries a reading over at least one more relation that looks back.
        for _ in 0..=self.list.len() {
            let mut now = blank.clone();
            self.settle(fleet, &before, &mut now, Passing::Settling);
            before = now;
        }
        before
    }
}

impl Relation {
    fn parse(entry: &Object<'_>, metrics: &[Metric]) -> Result<Relation, Invalid> {
        let metric = |member: &str| {
            let name = entry
                .text(member)?
                .ok_or_else(|| entry.invalid(member, "a metric's name is needed"))?;
            metrics
                .iter()
                .position(|metric| metric.name == name)
                .ok_or_else(|| entry.invalid(member, format!("no metric {name:?} in MetricLimits")))
        };
        let relation = Relation {
            from: metric("From")?,
            to: metric("To")?,
            ratio: entry.number("Ratio")?.unwrap_or(1.0),
            offset: entry.number("Offset")?.unwrap_or(0.0),
            delay: entry.number("Delay")?.unwrap_or(0.0),
            above: entry.number("Above")?,
            switch: entry.flag("Switch")?,
            limit: entry.flag("Limit")?,
        };
        if relation.delay < 0.0 {
            return Err(entry.invalid("Delay", "time does not run backwards"));
        }
        for (member, number) in [("Ratio", relation.ratio), ("Offset", relation.offset)] {
            // Shares of a range: anything far beyond is a mistake, and infinity would spread.
            if number.abs() > MOST_SHARE {
                return Err(entry.invalid(member, format!("{number} is out of all proportion")));
            }
        }
        if relation.limit && metrics[relation.to].counter {
            return Err(entry.invalid("Limit", "a counter has no ceiling that moves"));
        }
        Ok(relation)
    }

    /// Whether it sees the tick before.
    fn looks_back(&self) -> bool {
        self.limit || self.delay > 0.0
    }

    /// What it makes of its source: a share of the source's range.
    fn share(&self, fleet: &super::Fleet, seen: &Readings, part: usize, width: usize) -> f64 {
        let limits = &fleet.metrics[self.from];
        let cells = fleet.cells(self.from);
        let readings = if limits.counter {
            &seen.rates
        } else {
            &seen.values
        };
        let value = if cells.len() == 1 {
            readings[cells.start]
        } else if width == cells.len() {
            readings[cells.start + part]
        } else {
            let count = cells.len() as f64;
            readings[cells].iter().sum::<f64>() / count
        };
        let (low, high) = if limits.counter {
            let low = self.above.unwrap_or(0.0);
            (low, low + 1.0)
        } else {
            (self.above.unwrap_or(limits.min), limits.max)
        };
        if self.switch || high <= low {
            return if value > low { 1.0 } else { 0.0 };
        }
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// Every metric behind those it follows from within a tick; a circle is an error.
fn order(list: &[Relation], metrics: &[Metric]) -> Result<Vec<usize>, Invalid> {
    let mut order = Vec::with_capacity(metrics.len());
    let mut placed = vec![false; metrics.len()];
    while order.len() < metrics.len() {
        let ready = (0..metrics.len()).find(|metric| {
            !placed[*metric]
                && list
                    .iter()
                    .filter(|relation| relation.to == *metric && !relation.looks_back())
                    .all(|relation| placed[relation.from])
        });
        let Some(ready) = ready else {
            let circle: Vec<&str> = (0..metrics.len())
                .filter(|metric| !placed[*metric])
                .map(|metric| metrics[metric].name.as_str())
                .collect();
            return Err(Invalid::new(
                "Relations",
                format!(
                    "{} follow from each other within one tick; give one of their relations a Delay",
                    circle.join(", ")
                ),
            ));
        };
        placed[ready] = true;
        order.push(ready);
    }
    Ok(order)
}

#[cfg(test)]
mod tests;
