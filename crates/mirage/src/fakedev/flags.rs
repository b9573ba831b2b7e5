//! Flags as Go's `flag` package takes them: one dash or two, `-name value` or `-name=value`.
//! `-h`, `-help` ask for the usage text; an unknown flag is an error.

use std::ffi::OsString;
use std::fmt::Write;

use super::Error;

/// One flag: its name, its default as the usage text shows it, and what it is for.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) help: &'static str,
}

/// What was given, over what was not.
#[derive(Debug)]
pub(super) struct Given(Vec<(&'static str, String)>);

/// What the command line asks for.
#[derive(Debug)]
pub(super) enum Asked {
    /// To run with these flags.
    Run(Given),
    /// To be told the flags.
    Help,
}

/// Reads a command line against the flags there are.
pub(super) fn parse(
    flags: &'static [Flag],
    args: impl IntoIterator<Item = OsString>,
) -> Result<Asked, Error> {
    let mut given = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let arg = arg
            .into_string()
            .map_err(|arg| Error::Usage(format!("argument {arg:?} is not UTF-8")))?;
        let Some(body) = arg
            .strip_prefix("--")
            .or_else(|| arg.strip_prefix('-'))
            .filter(|body| !body.is_empty())
        else {
            return Err(Error::Usage(format!(
                "argument {arg:?} is no flag; flags begin with a dash"
            )));
        };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        if matches!(name, "h" | "help") {
            return Ok(Asked::Help);
        }
        let flag = flags.iter().find(|flag| flag.name == name).ok_or_else(|| {
            Error::Usage(format!(
                "flag provided but not defined: -{}",
                name.escape_debug()
            ))
        })?;
        let value = match value {
            Some(value) => value,
            None => args
                .next()
                .ok_or_else(|| Error::Usage(format!("flag needs an argument: -{name}")))?
                .into_string()
                .map_err(|value| {
                    Error::Usage(format!("value {value:?} of -{name} is not UTF-8"))
                })?,
        };
        given.push((flag.name, value));
    }
    Ok(Asked::Run(Given(given)))
}

/// The usage text.
pub(super) fn usage(program: &str, about: &str, flags: &[Flag]) -> String {
    let mut text = format!("{about}\n\nUsage of {program}:\n");
    for flag in flags {
        let default = if flag.default.is_empty() {
            String::new()
        } else {
            format!(" (default {})", flag.default)
        };
        writeln!(text, "  -{}\n\t{}{default}", flag.name, flag.help)
            .expect("a string takes every write");
    }
    text
}

impl Given {
    /// The last value given for a flag.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a flag whose absence and emptiness mean the same.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// A value as something else than text.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        self.get(name)
            .map(|value| {
                read(value)
                    .map_err(|what| Error::Usage(format!("invalid value for -{name}: {what}")))
            })
            .transpose()
    }

    /// A whole number from 0 on.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, Error> {
        self.read(name, |text| {
            text.parse()
                .map_err(|_| format!("{text:?} is no whole number from 0 on"))
        })
    }

    /// A number above 0.
    pub(super) fn positive(&self, name: &str) -> Result<Option<f64>, Error> {
        self.read(name, |text| {
            text.parse()
                .ok()
                .filter(|number: &f64| number.is_finite() && *number > 0.0)
                .ok_or_else(|| format!("{text:?} is no number above 0"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[
        Flag {
            name: "address",
            default: ":9999",
            help: "where to listen",
        },
        Flag {
            name: "count",
            default: "1",
            help: "how many",
        },
    ];

    fn given(args: &[&str]) -> Result<Given, String> {
        match parse(FLAGS, args.iter().map(OsString::from)) {
            Ok(Asked::Run(given)) => Ok(given),
            Ok(Asked::Help) => Err("help".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn takes_one_dash_or_two_and_either_form() {
        for args in [
            &["-address", ":1"][..],
            &["--address", ":1"],
            &["-address=:1"],
            &["--address=:1"],
            &["-address", ":0", "-address", ":1"],
        ] {
            assert_eq!(given(args).unwrap().get("address"), Some(":1"), "{args:?}");
        }
        assert_eq!(given(&["-address="]).unwrap().text("address"), None);
        assert_eq!(
            given(&["-count", "3"]).unwrap().count("count").unwrap(),
            Some(3)
        );
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(
            given(&["-adress", ":1"]).unwrap_err(),
            "flag provided but not defined: -adress"
        );
        assert_eq!(
            given(&["-count"]).unwrap_err(),
            "flag needs an argument: -count"
        );
        assert!(given(&["card0"]).unwrap_err().contains("is no flag"));
        assert!(given(&["-"]).is_err());
        assert!(given(&["--"]).is_err());
        assert_eq!(given(&["-help"]).unwrap_err(), "help");
        assert!(given(&["-count", "-1"]).unwrap().count("count").is_err());
        assert!(usage("x", "y", FLAGS).contains("-address\n\twhere to listen (default :9999)"));
    }
}
