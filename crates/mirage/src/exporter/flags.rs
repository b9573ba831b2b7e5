//! Flags as a Go program takes them: long names with one dash or two.

use std::ffi::OsString;

/// Gives long names their second dash. `-f`, `-f=x`, numbers and everything after `--` stay.
pub(super) fn two_dashes(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut done = false;
    let fix = |arg: OsString| {
        done |= arg == "--";
        let long = arg.to_str().and_then(|text| text.strip_prefix('-'));
        match long {
            Some(rest) if !done && is_long(rest) => format!("--{rest}").into(),
            _ => arg,
        }
    };
    args.into_iter().map(fix).collect()
}

fn is_long(rest: &str) -> bool {
    let name = rest.split('=').next().unwrap_or_default();
    name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_get_two_dashes() {
        for (given, meant) in [
            ("-collectors", "--collectors"),
            ("-collectors=x.csv", "--collectors=x.csv"),
            ("--collectors", "--collectors"),
            ("-rbmn", "--rbmn"),
            ("-f", "-f"),
            ("-f=x", "-f=x"),
            ("-1", "-1"),
            ("-", "-"),
            ("file-name", "file-name"),
        ] {
            assert_eq!(two_dashes([given.into()]), [OsString::from(meant)]);
        }
        let after = two_dashes(["--".into(), "-collectors".into()]);
        assert_eq!(after[1], "-collectors");
    }
}
