//! Numbers as C's and Go's `%g` print them: the shortest digits that read back as the same
//! value, with an exponent below 1e-4 and from 1e+06 on.

use std::fmt::Write;

/// Appends a finite number.
pub(super) fn push(out: &mut String, value: f64) {
    if value == 0.0 {
        // Also minus zero, which no reading of a device has.
        out.push('0');
        return;
    }
    let start = out.len();
    write!(out, "{value:e}").expect("a string takes every write");
    let Some(mark) = out[start..].find('e') else {
        // Infinite or not a number: Rust's word for it is as good as any.
        return;
    };
    let exponent: i32 = out[start + mark + 1..]
        .parse()
        .expect("{:e} ends in its exponent");
    out.truncate(start + mark);
    if (-4..6).contains(&exponent) {
        out.truncate(start);
        write!(out, "{value}").expect("a string takes every write");
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.unsigned_abs()).expect("a string takes every write");
    }
}

#[cfg(test)]
mod tests {
    fn g(value: f64) -> String {
        let mut out = String::from("x ");
        super::push(&mut out, value);
        out[2..].to_owned()
    }

    #[test]
    fn prints_as_go_does() {
        let table = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (300.0, "300"),
            (1048576.0, "1.048576e+06"),
            (4007657472.0, "4.007657472e+09"),
            (100000.0, "100000"),
            (999999.0, "999999"),
            (1e6, "1e+06"),
            (1234567.5, "1.2345675e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.000123456, "0.000123456"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (1e100, "1e+100"),
            (1.5e-7, "1.5e-07"),
            (123456789012345680000.0, "1.2345678901234568e+20"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ];
        for (value, text) in table {
            assert_eq!(g(value), text);
        }
    }

    #[test]
    fn reads_back_as_the_same_value() {
        for step in 0..2000 {
            let value = (f64::from(step) - 1000.0) * 1.0123456789e-3 * 10f64.powi(step % 13);
            assert_eq!(g(value).parse::<f64>().unwrap(), value);
        }
    }
}
