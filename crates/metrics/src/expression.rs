//! `name`, `name:2`, `name*1000`, `name/1048576`: a quantity and its unit, as data files write it.

use mirage_state::layout::flags;

use crate::decimal::Decimal;
use crate::device::Device;
use crate::quantity::{self, Quantity};

/// A quantity of a device in some unit.
#[derive(Clone, Copy)]
pub(crate) struct Expression {
    quantity: &'static Quantity,
    number: u32,
    times: i64,
    per: i64,
}

impl Expression {
    /// Reads an expression; the error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Expression, String> {
        let factor = |text: &str| {
            text.parse::<i64>()
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{text:?} is not a positive whole number"))
        };
        let (rest, per) = match text.split_once('/') {
            Some((rest, per)) => (rest, factor(per)?),
            None => (text, 1),
        };
        let (rest, times) = match rest.split_once('*') {
            Some((rest, times)) => (rest, factor(times)?),
            None => (rest, 1),
        };
        let (name, number) = match rest.split_once(':') {
            Some((name, number)) => (
                name,
                number
                    .parse()
                    .map_err(|_| format!("{number:?} is not a number"))?,
            ),
            None => (rest, 0),
        };
        let quantity = quantity::find(name).ok_or_else(|| {
            let near = crate::nearest::nearest(
                name,
                quantity::QUANTITIES.iter().map(|quantity| quantity.name),
            );
            match near {
                Some(near) => format!("quantity {name:?} is not known; did you mean {near}?"),
                None => format!("quantity {name:?} is not known"),
            }
        })?;
        Ok(Expression {
            quantity,
            number,
            times,
            per,
        })
    }

    /// The value now; `None` where the device has no such quantity or can no longer be asked.
    pub(crate) fn value(&self, device: &Device<'_>) -> Option<Decimal> {
        self.value_at(device, self.number)
    }

    /// As [`Expression::value`], of another link or engine.
    pub(crate) fn value_at(&self, device: &Device<'_>, number: u32) -> Option<Decimal> {
        if device.has(flags::LOST) && !self.quantity.outlives {
            return None;
        }
        let mut value = (self.quantity.read)(device, number)?;
        if self.times != 1 {
            value = value.times(self.times);
        }
        if self.per != 1 {
            value = value.per(self.per);
        }
        Some(value)
    }
}

impl std::fmt::Display for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.quantity.name)?;
        if self.number != 0 || self.quantity.about.contains(":n") {
            write!(f, ":{}", self.number)?;
        }
        if self.times != 1 {
            write!(f, "*{}", self.times)?;
        }
        if self.per != 1 {
            write!(f, "/{}", self.per)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_data_files_write() {
        let e = Expression::parse("link_bps:3*8/1000000").unwrap();
        assert_eq!(
            (e.quantity.name, e.number, e.times, e.per),
            ("link_bps", 3, 8, 1_000_000)
        );
        assert_eq!(e.to_string(), "link_bps:3*8/1000000");
        assert_eq!(Expression::parse("sm_mhz").unwrap().to_string(), "sm_mhz");
    }

    #[test]
    fn says_what_is_wrong() {
        let near = Expression::parse("sm_mh").unwrap_err();
        assert!(near.contains("did you mean sm_mhz?"), "{near}");
        for bad in ["", "sm_mhz*", "sm_mhz/0", "sm_mhz*-1", "sm_mhz:x", "*2"] {
            assert!(Expression::parse(bad).is_err(), "{bad}");
        }
    }
}
