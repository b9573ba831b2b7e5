//! Durations as Go writes them: `300ms`, `1.5s`, `2m`, `1h30m`; a bare number is seconds.

use std::time::Duration;

/// Reads a duration, or says what one looks like.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; 500ms, 1s and 2m are");
    let mut seconds = 0.0;
    let mut rest = text;
    if let Ok(number) = text.parse::<f64>() {
        seconds = number;
        rest = "";
    } else if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = &rest[digits..];
        let (scale, length) = [
            ("ms", 1e-3),
            ("us", 1e-6),
            ("s", 1.0),
            ("m", 60.0),
            ("h", 3600.0),
        ]
        .iter()
        .find(|(name, _)| unit.starts_with(name))
        .map(|(name, scale)| (*scale, name.len()))
        .ok_or_else(wrong)?;
        seconds += number * scale;
        rest = &unit[length..];
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let millis = |text: &str| parse(text).unwrap().as_millis();
        assert_eq!(millis("300ms"), 300);
        assert_eq!(millis("1.5s"), 1500);
        assert_eq!(millis("1h30m"), 5_400_000);
        assert_eq!(millis("2"), 2000);
        for wrong in ["", "s", "1x", "-1s", "1s1", "nan", "inf", "1..2s", "-3"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
