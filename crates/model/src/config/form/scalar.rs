//! Reading one scalar of a declared kind, and saying in words what a kind wants.

use super::Parsed;
use crate::config::language::{Form, Kind};
use crate::config::limits::{MAX_ID, MAX_SERIAL};
use crate::quantity::{self, clip, show_duration};
use crate::select::closest;
use crate::yaml::{Node, Problem, Style, Value};

pub(in crate::config) const NAMES: &str =
    "names have lower-case letters, digits and `-`, and dots between them";

/// What ids look like.
pub(in crate::config) fn ids() -> String {
    format!("ids have up to {MAX_ID} letters, digits and any of `-/._:`")
}

/// Reads a scalar; `kind` is none of the collections.
pub(in crate::config) fn read<'n>(kind: &Kind, node: &'n Node) -> Result<Parsed<'n>, Problem> {
    let Some(scalar) = node.scalar().filter(|_| !node.is_null()) else {
        let message = format!("expected {}, not {}", kind.describe(), node.shape());
        return Err(Problem::new(node.span, message));
    };
    let text = scalar.text.as_str();
    let wrong = || {
        let message = format!("expected {}, not `{}`", kind.describe(), clip(text));
        Problem::new(node.span, message)
    };
    let quantity = |error: quantity::Error| Problem::new(node.span, error.to_string());
    // What is no such amount at all is told the limits of this key, not the language's.
    let limited = |error: quantity::Error| match error {
        quantity::Error::Shape { .. } | quantity::Error::TooLarge { .. } => wrong(),
        error => quantity(error),
    };
    match kind {
        Kind::Integer { min, max } => match node.u64() {
            Some(value) if (*min..=*max).contains(&value) => Ok(Parsed::Integer(value)),
            None if scalar.style != Style::Plain && !text.is_empty() => {
                Err(wrong().help("remove the quotes"))
            }
            _ => Err(wrong()),
        },
        Kind::Number { min, max } => match node.f64() {
            Some(value) if (*min..=*max).contains(&value) => Ok(Parsed::Number(value)),
            _ => Err(wrong()),
        },
        Kind::Flag => node.bool().map(Parsed::Flag).ok_or_else(wrong),
        Kind::Present => match node.bool() {
            Some(true) => Ok(Parsed::Flag(true)),
            Some(false) => {
                let message = "`false` does nothing here";
                Err(Problem::new(node.span, message).help("remove the key"))
            }
            None => Err(wrong()),
        },
        Kind::Text(form) if form.accepts(text) => Ok(Parsed::Text(text)),
        Kind::Text(Form::Name) => Err(wrong().help(NAMES)),
        Kind::Text(Form::Id) => Err(wrong().help(ids())),
        Kind::Text(Form::Serial) => {
            let help = format!("serial numbers have up to {MAX_SERIAL} letters, digits and `-`");
            Err(wrong().help(help))
        }
        Kind::Text(_) => Err(wrong()),
        Kind::Choice(words) => choose(words.iter().copied(), text)
            .map(Parsed::Choice)
            .map_err(|near| suggest(wrong(), near)),
        Kind::Coded(words) => choose(words.iter().map(|(word, _)| *word), text)
            .map(|word| {
                let code = words.iter().find(|(known, _)| *known == word);
                Parsed::Integer(code.map_or(0, |(_, code)| *code))
            })
            .map_err(|near| suggest(wrong(), near)),
        Kind::Duration { min, max } => {
            let value = quantity::duration(text).map_err(limited)?;
            if value < *min || value > *max {
                return Err(wrong());
            }
            Ok(Parsed::Duration(value))
        }
        Kind::Bytes { min, max } => {
            let value = quantity::bytes(text).map_err(limited)?;
            if value < *min || value > *max {
                return Err(wrong());
            }
            Ok(Parsed::Integer(value))
        }
        Kind::Percent => quantity::percent(text)
            .map(Parsed::Percent)
            .map_err(quantity),
        Kind::Amount => quantity::amount(text).map(Parsed::Amount).map_err(quantity),
        Kind::Table(_) | Kind::Named(_) | Kind::List(..) | Kind::Either(_) => Err(wrong()),
    }
}

/// The word itself, or the word it probably meant.
fn choose<'a>(
    words: impl Iterator<Item = &'a str> + Clone,
    text: &str,
) -> Result<&'a str, Option<&'a str>> {
    let mut candidates = words.clone();
    candidates
        .find(|word| *word == text)
        .ok_or_else(|| closest(text, words))
}

fn suggest(problem: Problem, near: Option<&str>) -> Problem {
    match near {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem,
    }
}

impl Kind {
    /// Whether a node of this shape could be of this kind.
    pub(super) fn fits(&self, node: &Node) -> bool {
        match (self, &node.value) {
            (Self::Table(_) | Self::Named(_), value) => matches!(value, Value::Mapping(_)),
            (Self::List(..), value) => matches!(value, Value::Sequence(_)),
            (Self::Either(kinds), _) => kinds.iter().any(|kind| kind.fits(node)),
            (_, value) => matches!(value, Value::Scalar(_)),
        }
    }

    /// The words it accepts.
    pub(super) fn words(&self) -> Vec<&'static str> {
        match self {
            Self::Choice(words) => words.to_vec(),
            Self::Coded(words) => words.iter().map(|(word, _)| *word).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is a plain number.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Number { .. })
    }

    /// What it wants, in words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Self::Number { min, max } => format!("a number from {min} to {max}"),
            Self::Flag => "`true` or `false`".into(),
            Self::Present => "`true`".into(),
            Self::Text(Form::Any) => "text".into(),
            Self::Text(form) => {
                let (what, example) = form.describe();
                format!("a {what} such as `{example}`")
            }
            Self::Choice(words) => choices(words.iter().copied()),
            Self::Coded(words) => choices(words.iter().map(|(word, _)| *word)),
            Self::Duration { min, max } => {
                let (min, max) = (show_duration(*min), show_duration(*max));
                format!("a duration from {min} to {max}")
            }
            Self::Bytes { min, max } => {
                format!("memory from {} to {}", show_bytes(*min), show_bytes(*max))
            }
            Self::Percent => "a percentage or a range such as `80-100`".into(),
            Self::Amount => "memory such as `30GiB`, `50%` or `10-30GiB`".into(),
            Self::Table(table) => format!("a mapping ({})", table.name),
            Self::Named(table) => format!("a mapping from names ({})", table.name),
            Self::List(item, _) => format!("a list, each {}", item.describe()),
            Self::Either(kinds) => {
                let each: Vec<String> = kinds.iter().map(Self::describe).collect();
                each.join(", or ")
            }
        }
    }
}

fn choices<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [one] => one.clone(),
        [first, second] => format!("{first} or {second}"),
        _ => format!("one of {}", quoted.join(", ")),
    }
}

pub(crate) fn show_bytes(bytes: u64) -> String {
    for (unit, shift) in [
        ("PiB", 50),
        ("TiB", 40),
        ("GiB", 30),
        ("MiB", 20),
        ("KiB", 10),
    ] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}
