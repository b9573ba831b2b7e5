//! The last samples of a reading in one block: how many, over which time, and their range.

use nvidia_ml::client::Sample;

use super::Subject;
use super::node::Node;
use super::sections::Part;
use crate::query::Value;

/// What samples are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Percent,
    Megahertz,
    Milliwatts,
}

impl Unit {
    fn show(self, value: u64) -> String {
        match self {
            Unit::Percent => format!("{value} %"),
            Unit::Megahertz => format!("{value} MHz"),
            Unit::Milliwatts => format!("{:.2} W", value as f64 / 1000.0),
        }
    }

    fn part(self) -> Part {
        match self {
            Unit::Percent => Part::UtilizationSamples,
            Unit::Megahertz => Part::ClockSamples,
            Unit::Milliwatts => Part::PowerSamples,
        }
    }
}

impl Subject<'_> {
    /// The block of a reading, by NVML's number of it.
    pub(super) fn samples(&self, label: &str, kind: u32, unit: Unit) -> Node {
        let samples = self.gpu.device.samples(kind);
        let told = |tell: &dyn Fn(&[Sample]) -> String| {
            Value::of(
                samples
                    .as_ref()
                    .map(|list| tell(list))
                    .map_err(|code| *code),
            )
        };
        let of = |pick: &dyn Fn(&[u64]) -> u64| {
            told(&|list: &[Sample]| {
                let values: Vec<u64> = list.iter().map(|sample| sample.value).collect();
                match values.is_empty() {
                    true => "N/A".to_owned(),
                    false => unit.show(pick(&values)),
                }
            })
        };
        let duration = told(&|list| {
            let first = list.first().map_or(0, |sample| sample.time_us);
            let last = list.last().map_or(0, |sample| sample.time_us);
            format!("{:.2} sec", last.saturating_sub(first) as f64 / 1e6)
        });
        let average = |values: &[u64]| values.iter().sum::<u64>() / values.len().max(1) as u64;
        let lines = [
            ("Duration", duration),
            ("Number of Samples", told(&|list| list.len().to_string())),
            (
                "Max",
                of(&|values| values.iter().copied().max().unwrap_or(0)),
            ),
            (
                "Min",
                of(&|values| values.iter().copied().min().unwrap_or(0)),
            ),
            ("Avg", of(&average)),
        ];
        let lines = lines.map(|(label, value)| Node::value(label, "", &value));
        Node::group(label, "", lines.into()).part(unit.part())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_readings() {
        assert_eq!(Unit::Milliwatts.show(52_337), "52.34 W");
        assert_eq!(Unit::Percent.show(7), "7 %");
        assert_eq!(Unit::Megahertz.show(1410), "1410 MHz");
    }
}
