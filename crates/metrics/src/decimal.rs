//! Numbers as exporters print them.
//!
//! Every quantity is a whole number of some power of ten, so nothing is ever rounded on the way from
//! state to text, and the same state prints the same digits on every machine.

/// A number: `digits` divided by ten to the power of `places`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) digits: i64,
    pub(crate) places: u32,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Whole, the rest cut off.
    Int,
    /// Six decimals, C's `%f`.
    Fixed6,
    /// Shortest, exponent from a million on: Go's `%g` and its Prometheus client.
    Go,
    /// As Go, but always with a point: Python's Prometheus client.
    Python,
    /// Fifteen digits, C's `%.15g`.
    C15,
}

impl Format {
    /// The format of a name in an identity file.
    pub(crate) fn parse(name: &str) -> Option<Format> {
        Some(match name {
            "int" => Format::Int,
            "fixed6" => Format::Fixed6,
            "go" => Format::Go,
            "python" => Format::Python,
            "c15" => Format::C15,
            _ => return None,
        })
    }
}

const POWERS: [i64; 19] = {
    let mut table = [1i64; 19];
    let mut i = 1;
    while i < 19 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

impl Decimal {
    /// A whole number; one that is too large stays at the largest.
    pub(crate) fn whole(value: u64) -> Decimal {
        Decimal::of(value, 0)
    }

    /// `value / 10^places`.
    pub(crate) fn of(value: u64, places: u32) -> Decimal {
        Decimal {
            digits: i64::try_from(value).unwrap_or(i64::MAX),
            places,
        }
    }

    /// `value / 10^places`, with a sign.
    pub(crate) fn signed(value: i32) -> Decimal {
        Decimal {
            digits: i64::from(value),
            places: 0,
        }
    }

    /// `part / whole` to six places; nothing of nothing is zero.
    pub(crate) fn ratio(part: u64, whole: u64) -> Decimal {
        let millionths = (u128::from(part) * 1_000_000)
            .checked_div(u128::from(whole))
            .unwrap_or(0);
        Decimal::of(u64::try_from(millionths).unwrap_or(u64::MAX), 6)
    }

    /// Times a factor, staying at the largest number there is.
    pub(crate) fn times(self, factor: i64) -> Decimal {
        Decimal {
            digits: self.digits.saturating_mul(factor),
            ..self
        }
    }

    /// Divided: exactly by powers of ten, else cut to the places it has.
    pub(crate) fn per(self, divisor: i64) -> Decimal {
        let power = POWERS.iter().position(|&p| p == divisor);
        match power {
            Some(power) if self.places as usize + power < POWERS.len() => Decimal {
                digits: self.digits,
                places: self.places + power as u32,
            },
            _ => Decimal {
                digits: self.digits.checked_div(divisor).unwrap_or(0),
                ..self
            },
        }
    }

    /// The number, its decimals cut off.
    pub(crate) fn whole_part(self) -> i64 {
        self.digits / power(self.places)
    }

    /// Whether it has no decimals but zeros.
    pub(crate) fn is_whole(self) -> bool {
        self.digits % power(self.places) == 0
    }

    /// Appends the number.
    pub(crate) fn write(self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Int => push_int(out, self.whole_part()),
            Format::Fixed6 => self.write_fixed6(out),
            Format::Go => self.write_shortest(6, out),
            Format::C15 => self.write_shortest(15, out),
            Format::Python => {
                let mark = out.len();
                self.write_shortest(6, out);
                if !out[mark..].iter().any(|b| matches!(b, b'.' | b'e')) {
                    out.extend_from_slice(b".0");
                }
            }
        }
    }

    fn write_fixed6(self, out: &mut Vec<u8>) {
        if self.digits < 0 {
            out.push(b'-');
        }
        let digits = self.digits.unsigned_abs();
        let unit = power(self.places).unsigned_abs();
        push_uint(out, digits / unit);
        // At most 18 places, so the rest fits a million-fold only in wider arithmetic.
        let rest = u128::from(digits % unit) * 1_000_000 / u128::from(unit);
        let mut six = [b'0'; 6];
        let mut rest = rest as u32;
        for slot in six.iter_mut().rev() {
            *slot = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.push(b'.');
        out.extend_from_slice(&six);
    }

    /// Shortest digits; exponents below -4 and from `limit` on are written as such.
    fn write_shortest(self, limit: i32, out: &mut Vec<u8>) {
        let mut digits = self.digits.unsigned_abs();
        if digits == 0 {
            out.push(b'0');
            return;
        }
        if self.digits < 0 {
            out.push(b'-');
        }
        let mut places = self.places as i32;
        // A double holds 15 decimal digits for sure; what it cannot hold would not be printed.
        while digits >= 1_000_000_000_000_000 {
            digits = (digits + 5) / 10;
            places -= 1;
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            places -= 1;
        }
        let mut buffer = [0u8; 20];
        let text = digits_of(digits, &mut buffer);
        let exponent = text.len() as i32 - 1 - places;
        if exponent < -4 || exponent >= limit {
            out.push(text[0]);
            if text.len() > 1 {
                out.push(b'.');
                out.extend_from_slice(&text[1..]);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            let exponent = u64::from(exponent.unsigned_abs());
            if exponent < 10 {
                out.push(b'0');
            }
            push_uint(out, exponent);
        } else if exponent < 0 {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
            out.extend_from_slice(text);
        } else {
            let point = exponent as usize + 1;
            if point >= text.len() {
                out.extend_from_slice(text);
                out.extend(std::iter::repeat_n(b'0', point - text.len()));
            } else {
                out.extend_from_slice(&text[..point]);
                out.push(b'.');
                out.extend_from_slice(&text[point..]);
            }
        }
    }
}

fn power(places: u32) -> i64 {
    POWERS.get(places as usize).copied().unwrap_or(i64::MAX)
}

/// Appends a whole number with its sign.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_uint(out, value.unsigned_abs());
}

/// Appends a whole number.
pub(crate) fn push_uint(out: &mut Vec<u8>, value: u64) {
    let mut buffer = [0u8; 20];
    out.extend_from_slice(digits_of(value, &mut buffer));
}

/// The decimal digits of a number.
fn digits_of(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    &buffer[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(digits: i64, places: u32, format: Format) -> String {
        let mut out = Vec::new();
        Decimal { digits, places }.write(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(written(0, 0, Format::Int), "0");
        assert_eq!(written(1999, 3, Format::Int), "1");
        assert_eq!(written(-7, 0, Format::Int), "-7");
        assert_eq!(written(i64::MIN, 0, Format::Int), i64::MIN.to_string());
        assert_eq!(written(i64::MAX, 0, Format::Int), i64::MAX.to_string());
    }

    #[test]
    fn six_decimals() {
        assert_eq!(written(53_217, 3, Format::Fixed6), "53.217000");
        assert_eq!(written(7, 6, Format::Fixed6), "0.000007");
        assert_eq!(written(-1_500, 3, Format::Fixed6), "-1.500000");
        assert_eq!(written(1, 0, Format::Fixed6), "1.000000");
        assert_eq!(written(i64::MAX, 18, Format::Fixed6), "9.223372");
    }

    #[test]
    fn go_changes_to_exponents_at_a_million() {
        assert_eq!(written(0, 0, Format::Go), "0");
        assert_eq!(written(999_999, 0, Format::Go), "999999");
        assert_eq!(written(1_000_000, 0, Format::Go), "1e+06");
        assert_eq!(written(1_048_576, 0, Format::Go), "1.048576e+06");
        assert_eq!(written(123_456_789, 3, Format::Go), "123456.789");
        assert_eq!(written(5, 1, Format::Go), "0.5");
        assert_eq!(written(120, 1, Format::Go), "12");
        assert_eq!(written(1, 4, Format::Go), "0.0001");
        assert_eq!(written(12, 6, Format::Go), "1.2e-05");
        assert_eq!(written(-40, 0, Format::Go), "-40");
        assert_eq!(written(42_949_672_960, 0, Format::Go), "4.294967296e+10");
    }

    #[test]
    fn python_and_c_have_their_own_ways() {
        assert_eq!(written(0, 0, Format::Python), "0.0");
        assert_eq!(written(53, 0, Format::Python), "53.0");
        assert_eq!(written(53_217, 3, Format::Python), "53.217");
        assert_eq!(written(1_048_576, 0, Format::Python), "1.048576e+06");
        assert_eq!(written(42_949_672_960, 0, Format::C15), "42949672960");
        assert_eq!(written(1_000_000_000_000_000, 0, Format::C15), "1e+15");
    }

    #[test]
    fn arithmetic_saturates_and_never_divides_by_zero() {
        assert_eq!(Decimal::whole(u64::MAX).digits, i64::MAX);
        assert_eq!(Decimal::whole(5).times(i64::MAX).digits, i64::MAX);
        assert_eq!(Decimal::whole(5).per(0).digits, 0);
        assert_eq!(
            Decimal::whole(5).per(1000),
            Decimal {
                digits: 5,
                places: 3
            }
        );
        assert_eq!(Decimal::whole(3 << 20).per(1 << 20).digits, 3);
        assert_eq!(Decimal::ratio(1, 0).digits, 0);
        assert_eq!(Decimal::ratio(1, 3).digits, 333_333);
    }

    #[test]
    fn agrees_with_doubles() {
        for n in (0..=400u32).chain([65_535, 999_999]) {
            let digits = i64::from(n) * 7_919;
            let shortest = written(digits, 3, Format::C15);
            let back: f64 = shortest.parse().unwrap();
            assert_eq!(back, digits as f64 / 1000.0, "{shortest}");
        }
    }
}
