//! A cell: a text, an amount that takes a unit, or a refusal.

use nvidia_ml::client::{Code, Result as Answer};

use crate::report::DEPRECATED;

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Without a unit.
    Text(String),
    /// Takes the unit of its column.
    Amount(String),
    /// NVML would not say.
    Refused(Code),
}

/// From this driver on, what is not supported reads `[N/A]`.
const NA_BRANCH: u32 = 450;

impl Value {
    /// Nothing is known of such a thing.
    pub(crate) const MISSING: Value = Value::Refused(Code::NOT_SUPPORTED);

    pub(crate) fn text(value: impl ToString) -> Value {
        Value::Text(value.to_string())
    }

    pub(crate) fn amount(value: impl ToString) -> Value {
        Value::Amount(value.to_string())
    }

    /// What a setting reads as that newer drivers no longer have.
    pub(crate) fn deprecated() -> Value {
        Value::text(format!("[{DEPRECATED}]"))
    }

    /// A text, or why there is none.
    pub(crate) fn of<T: ToString>(answer: Answer<T>) -> Value {
        answer.map_or_else(Value::Refused, Value::text)
    }

    /// An amount, or why there is none.
    pub(crate) fn amount_of<T: ToString>(answer: Answer<T>) -> Value {
        answer.map_or_else(Value::Refused, Value::amount)
    }

    /// Milliwatts as watts.
    pub(crate) fn watts<T: Into<i64>>(answer: Answer<T>) -> Value {
        Value::amount_of(answer.map(|milliwatts| {
            let milliwatts: i64 = milliwatts.into();
            format!("{:.2}", milliwatts as f64 / 1000.0)
        }))
    }

    /// Bytes as MiB.
    pub(crate) fn mib(answer: Answer<u64>) -> Value {
        Value::amount_of(answer.map(|bytes| bytes >> 20))
    }

    /// A switch.
    pub(crate) fn enabled<T: Into<i64>>(answer: Answer<T>) -> Value {
        Value::of(answer.map(|on| {
            if on.into() == 0 {
                "Disabled"
            } else {
                "Enabled"
            }
        }))
    }

    /// A yes or no.
    pub(crate) fn yes<T: Into<i64>>(answer: Answer<T>) -> Value {
        Value::of(answer.map(|on| if on.into() == 0 { "No" } else { "Yes" }))
    }

    /// A name out of a list.
    pub(crate) fn named<T: Into<i64>>(answer: Answer<T>, names: &[&str]) -> Value {
        Value::of(answer.map(|number| {
            let at = usize::try_from(number.into()).ok();
            let name = at.and_then(|at| names.get(at));
            name.map_or_else(|| "Unknown".to_owned(), |name| (*name).to_owned())
        }))
    }

    /// As a cell of comma-separated values, for a driver of this branch.
    pub(crate) fn show(&self, unit: &str, branch: u32) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Amount(amount) if unit.is_empty() => amount.clone(),
            Value::Amount(amount) => format!("{amount} {unit}"),
            Value::Refused(Code::NOT_SUPPORTED) if branch < NA_BRANCH => "[Not Supported]".into(),
            Value::Refused(Code::NOT_SUPPORTED) => "[N/A]".into(),
            Value::Refused(code @ (Code::NO_PERMISSION | Code::GPU_IS_LOST)) => format!("[{code}]"),
            Value::Refused(_) => "[Unknown Error]".into(),
        }
    }

    /// As a line of the report, with its unit.
    pub(crate) fn plain(&self, unit: &str) -> String {
        match self {
            Value::Refused(Code::NOT_SUPPORTED) => "N/A".into(),
            Value::Refused(code) => code.to_string(),
            value => value.show(unit, u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_stand_in_brackets() {
        let no = Value::MISSING;
        assert_eq!(no.show("W", 550), "[N/A]");
        assert_eq!(no.show("W", 440), "[Not Supported]");
        assert_eq!(no.plain("W"), "N/A");
        let lost = Value::Refused(Code::GPU_IS_LOST);
        assert_eq!(lost.show("", 550), "[GPU is lost]");
        assert_eq!(Value::Refused(Code(999)).show("", 550), "[Unknown Error]");
    }

    #[test]
    fn amounts_take_units() {
        assert_eq!(Value::watts(Ok(52_337_u32)).show("W", 550), "52.34 W");
        assert_eq!(Value::mib(Ok(3 << 20)).show("", 550), "3");
        assert_eq!(Value::text("P0").show("W", 550), "P0");
        assert_eq!(Value::named(Ok(9_u32), &["a"]).plain(""), "Unknown");
    }
}
