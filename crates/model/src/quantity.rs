//! Amounts as people write them: `1h30m`, `30GiB`, `80-100`, `20-50%`.
//!
//! Everything is bounded and exact: no exponents, no NaN, no negative amounts, and every
//! refusal names the limit or shows a spelling that works.

use std::fmt;
use std::time::Duration;

use crate::plan::{Amount, Range};

/// Longest duration.
pub const MAX_DURATION: Duration = Duration::from_secs(3650 * 86400);
/// Largest amount of memory, 1 PiB.
pub const MAX_BYTES: u64 = 1 << 50;

/// Why a text is no such quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("`{text}` is no {what}; write for example `{example}`")]
    Shape {
        text: String,
        what: &'static str,
        example: &'static str,
    },
    #[error("`{text}` has no unit; write for example `{example}`")]
    NoUnit { text: String, example: String },
    #[error("unknown unit `{unit}`; {known}")]
    Unit { unit: String, known: &'static str },
    #[error("`{text}` is above the limit of {limit}")]
    TooLarge { text: String, limit: &'static str },
    #[error("`{text}` runs backwards: its first value is above its last")]
    Backwards { text: String },
}

const DURATION_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
];

/// A duration: `90s`, `1h30m`, `500ms`, `1.5h`, or `0`.
pub fn duration(text: &str) -> Result<Duration, Error> {
    let (what, example) = ("duration from 0 to 3650d", "1h30m");
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(shape(text, what, example));
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = number(rest).ok_or_else(|| shape(text, what, example))?;
        let (unit, after) = unit(after);
        if unit.is_empty() {
            let example = format!("{}s", clip(text.trim()));
            return Err(Error::NoUnit {
                text: clip(text),
                example,
            });
        }
        let known = "durations use ns, us, ms, s, m, h and d";
        let scale = lookup(DURATION_UNITS, unit, known)?;
        total = total.saturating_add(number.times(scale));
        rest = after;
    }
    if total > MAX_DURATION.as_nanos() {
        return Err(too_large(text, "3650d"));
    }
    let seconds = u64::try_from(total / 1_000_000_000).unwrap_or(u64::MAX);
    let nanos = u32::try_from(total % 1_000_000_000).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

/// An amount of memory in bytes: `30GiB`, `40GB`, `512Mi`, or `0`.
pub fn bytes(text: &str) -> Result<u64, Error> {
    let trimmed = text.trim();
    let (number, rest) =
        number(trimmed).ok_or_else(|| shape(text, "amount of memory from 0 to 1 PiB", "30GiB"))?;
    let scale = match rest.trim_start() {
        "" if number.is_zero() => 1,
        "" => {
            let example = format!("{}MiB", clip(trimmed));
            return Err(Error::NoUnit {
                text: clip(text),
                example,
            });
        }
        unit => lookup(
            BYTE_UNITS,
            unit,
            "memory uses B, MiB, GiB, TiB, MB, GB and TB",
        )?,
    };
    match u64::try_from(number.times(scale)) {
        Ok(bytes) if bytes <= MAX_BYTES => Ok(bytes),
        _ => Err(too_large(text, "1 PiB")),
    }
}

/// A percentage or a range of them: `80`, `80%`, `80-100`, `80-100%`.
pub fn percent(text: &str) -> Result<Range, Error> {
    let (low, high) = ends(text);
    let low = one_percent(low, text)?;
    let high = high.map_or(Ok(low), |high| one_percent(high, text))?;
    ordered(Range { low, high }, text)
}

/// Memory as bytes or as a share: `30GiB`, `10-30GiB`, `50%`, `20-50%`.
pub fn amount(text: &str) -> Result<Amount, Error> {
    if text.trim_end().ends_with('%') {
        return percent(text).map(Amount::Share);
    }
    let (low, high) = ends(text);
    let Some(high) = high else {
        let bytes = bytes(low)? as f64;
        return Ok(Amount::Bytes(Range {
            low: bytes,
            high: bytes,
        }));
    };
    let top = bytes(high)? as f64;
    let bottom = match number(low) {
        // `10-30GiB`: the unit stands once, at the end.
        Some((_, "")) => {
            let (_, unit) = number(high).unwrap_or((Number::default(), ""));
            bytes(&format!("{low}{unit}"))?
        }
        _ => bytes(low)?,
    };
    let range = Range {
        low: bottom as f64,
        high: top,
    };
    ordered(range, text).map(Amount::Bytes)
}

/// A duration as one would write it: `1h30m`, `500ms`, `0`.
pub fn show_duration(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    if rest == 0 {
        return "0".into();
    }
    let mut text = String::new();
    for (unit, scale) in DURATION_UNITS.iter().rev() {
        let count = rest / u128::from(*scale);
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
        rest %= u128::from(*scale);
    }
    text
}

/// A decimal number without a sign or exponent, kept exact.
#[derive(Default)]
struct Number {
    whole: u128,
    /// Billionths.
    fraction: u128,
}

impl Number {
    fn is_zero(&self) -> bool {
        self.whole == 0 && self.fraction == 0
    }

    fn times(&self, scale: u64) -> u128 {
        let scale = u128::from(scale);
        let fraction = self.fraction * scale / 1_000_000_000;
        self.whole.saturating_mul(scale).saturating_add(fraction)
    }
}

/// The number a text begins with, and what follows it.
fn number(text: &str) -> Option<(Number, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let length = digits(text);
    if length == 0 {
        return None;
    }
    // More digits than any limit needs: saturate instead of overflowing.
    let whole = text[..length].parse().unwrap_or(u128::MAX);
    let mut rest = &text[length..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let length = digits(after);
        if length == 0 {
            return None;
        }
        let kept = format!("{:0<9.9}", &after[..length]);
        fraction = kept.parse().unwrap_or(0);
        rest = &after[length..];
    }
    // `1e300` is no number with the unit `e`.
    let power = rest.strip_prefix(['e', 'E']);
    let power = power.map(|power| power.strip_prefix(['+', '-']).unwrap_or(power));
    if power.is_some_and(|power| digits(power) > 0) {
        return None;
    }
    Some((Number { whole, fraction }, rest))
}

fn unit(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text
        .find(|letter: char| letter.is_ascii_digit())
        .unwrap_or(text.len());
    (text[..end].trim_end(), &text[end..])
}

fn lookup(units: &[(&str, u64)], unit: &str, known: &'static str) -> Result<u64, Error> {
    let found = units.iter().find(|(name, _)| *name == unit);
    found.map(|(_, scale)| *scale).ok_or_else(|| Error::Unit {
        unit: clip(unit),
        known,
    })
}

/// The two ends of `a-b`; a leading minus is part of `a`.
fn ends(text: &str) -> (&str, Option<&str>) {
    let text = text.trim();
    match text
        .char_indices()
        .skip(1)
        .find(|(_, letter)| *letter == '-')
    {
        Some((at, _)) => (text[..at].trim(), Some(text[at + 1..].trim())),
        None => (text, None),
    }
}

fn one_percent(part: &str, text: &str) -> Result<f64, Error> {
    let bare = part.strip_suffix('%').unwrap_or(part).trim_end();
    let value = match number(bare) {
        Some((number, "")) => number.times(1_000_000) as f64 / 1e6,
        _ => return Err(shape(text, "percentage from 0 to 100", "80-100")),
    };
    if value > 100.0 {
        return Err(too_large(text, "100 percent"));
    }
    Ok(value)
}

fn ordered(range: Range, text: &str) -> Result<Range, Error> {
    if range.low > range.high {
        return Err(Error::Backwards { text: clip(text) });
    }
    Ok(range)
}

fn shape(text: &str, what: &'static str, example: &'static str) -> Error {
    Error::Shape {
        text: clip(text),
        what,
        example,
    }
}

fn too_large(text: &str, limit: &'static str) -> Error {
    Error::TooLarge {
        text: clip(text),
        limit,
    }
}

/// Foreign text made fit for a message: short, and without control characters.
pub(crate) fn clip(text: &str) -> String {
    const KEPT: usize = 60;
    let mut clipped: String = text.chars().take(KEPT).flat_map(visible).collect();
    if text.chars().nth(KEPT).is_some() {
        clipped.push('…');
    }
    clipped
}

/// A character as it may be printed on a terminal.
pub(crate) fn visible(letter: char) -> impl Iterator<Item = char> {
    let hidden =
        letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let plain = (!hidden).then_some(letter);
    let escaped = hidden.then(|| letter.escape_unicode());
    plain.into_iter().chain(escaped.into_iter().flatten())
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low == self.high {
            write!(f, "{}", self.low)
        } else {
            write!(f, "{}-{}", self.low, self.high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_units() {
        let seconds = |text| duration(text).unwrap().as_secs_f64();
        assert_eq!(seconds("1h30m"), 5400.0);
        assert_eq!(seconds("1.5h"), 5400.0);
        assert_eq!(seconds("500ms"), 0.5);
        assert_eq!(seconds("0"), 0.0);
        assert_eq!(seconds(" 2d "), 172_800.0);
        assert_eq!(show_duration(duration("1h30m5s").unwrap()), "1h30m5s");
    }

    #[test]
    fn durations_refuse_what_is_unclear_or_endless() {
        let error = |text| duration(text).unwrap_err().to_string();
        assert_eq!(error("10"), "`10` has no unit; write for example `10s`");
        assert_eq!(
            error("10y"),
            "unknown unit `y`; durations use ns, us, ms, s, m, h and d"
        );
        assert_eq!(error("3651d"), "`3651d` is above the limit of 3650d");
        let huge = format!("{}s", "9".repeat(500));
        assert!(error(&huge).contains("above the limit of 3650d"));
        for text in [
            "", "-5s", "nan", "inf", "1e300s", "1E-3s", ".5s", "h", "1.s",
        ] {
            assert!(error(text).contains("from 0 to 3650d"), "{text}");
        }
    }

    #[test]
    fn memory_needs_its_unit() {
        assert_eq!(bytes("30GiB").unwrap(), 30 << 30);
        assert_eq!(bytes("1.5 GiB").unwrap(), 3 << 29);
        assert_eq!(bytes("512Mi").unwrap(), 512 << 20);
        assert_eq!(bytes("0").unwrap(), 0);
        let error = bytes("40").unwrap_err().to_string();
        assert_eq!(error, "`40` has no unit; write for example `40MiB`");
        assert!(bytes("1GiBx").is_err());
        for text in ["", "-1GiB", "NaN", "-inf", "1e30GiB", "9999999TiB"] {
            let error = bytes(text).unwrap_err().to_string();
            assert!(error.contains("1 PiB"), "{error}");
        }
    }

    #[test]
    fn percentages_may_be_ranges() {
        let range = |text| percent(text).map(|range| (range.low, range.high));
        assert_eq!(range("80"), Ok((80.0, 80.0)));
        assert_eq!(range("80-100%"), Ok((80.0, 100.0)));
        assert_eq!(range("80% - 90.5%"), Ok((80.0, 90.5)));
        assert!(range("90-80").is_err());
        for text in ["", "-5", "101", "inf", "nan", "1e1", "1e300", "5-", "-"] {
            let error = range(text).unwrap_err().to_string();
            assert!(error.contains("100"), "{error}");
        }
    }

    #[test]
    fn amounts_are_bytes_or_shares() {
        let giga = |count: u64| (count << 30) as f64;
        let bytes = |low, high| Amount::Bytes(Range { low, high });
        assert_eq!(amount("30GiB"), Ok(bytes(giga(30), giga(30))));
        assert_eq!(amount("10-30GiB"), Ok(bytes(giga(10), giga(30))));
        assert_eq!(amount("1GiB-2GiB"), Ok(bytes(giga(1), giga(2))));
        let half = Range {
            low: 20.0,
            high: 50.0,
        };
        assert_eq!(amount("20-50%"), Ok(Amount::Share(half)));
        assert!(amount("30").is_err());
        assert!(amount("3GiB-1GiB").is_err());
    }

    #[test]
    fn hostile_text_is_shown_harmless() {
        assert_eq!(clip("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(clip(&"x".repeat(100)).chars().count(), 61);
    }
}
