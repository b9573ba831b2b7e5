//! What is told while working: lines on standard error, for people or as JSON, from a level on. The result goes to standard output.

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::cli;

/// How much matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[allow(missing_docs, reason = "the usual names")]
pub enum Level {
    Error,
    #[value(alias = "warning")]
    Warn,
    Info,
    Debug,
    Trace,
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Format {
    Text,
    Json,
}

/// Where things are told.
#[derive(Debug)]
pub(super) struct Report {
    level: Level,
    format: Format,
    /// The result is kept for whoever asked, instead of printed.
    silent: bool,
    /// What was kept.
    pub(super) facts: Value,
    #[cfg(test)]
    pub(super) told: Vec<String>,
}

impl Report {
    pub(super) fn new(level: Level, format: Format) -> Report {
        Report {
            level,
            format,
            silent: false,
            facts: Value::Null,
            #[cfg(test)]
            told: Vec::new(),
        }
    }

    /// Tells only what went wrong, and prints no result.
    pub(super) fn silent() -> Report {
        Report {
            silent: true,
            ..Report::new(Level::Error, Format::Text)
        }
    }

    /// Tells something, with its facts.
    pub(super) fn tell(&mut self, level: Level, message: &str, facts: &[(&str, Value)]) {
        #[cfg(test)]
        self.told.push(line(Format::Text, level, message, facts));
        if level <= self.level {
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(
                std::io::stderr().lock(),
                "{}",
                line(self.format, level, message, facts)
            );
        }
    }

    /// Tells what happened to a path.
    pub(super) fn path(&mut self, level: Level, message: &str, path: &Path) {
        let shown = path.display().to_string();
        self.tell(level, message, &[("path", shown.into())]);
    }

    /// A failure as lines are asked for: as JSON it is told here, as text by whoever ends the program.
    pub(super) fn failure(&mut self, error: anyhow::Error) -> anyhow::Error {
        if self.silent || self.format == Format::Text || cli::is_closed_pipe(&error) {
            return error;
        }
        self.tell(Level::Error, &format!("{error:#}"), &[]);
        cli::Told::of(&error)
    }

    /// Prints the result: the text, or the facts as one JSON object.
    pub(super) fn result(&mut self, text: &str, facts: Value) -> std::io::Result<()> {
        #[cfg(test)]
        self.told.push(text.into());
        if self.silent {
            self.facts = facts;
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        match self.format {
            Format::Text => writeln!(out, "{}", text.trim_end()),
            Format::Json => writeln!(out, "{facts}"),
        }
    }
}

fn line(format: Format, level: Level, message: &str, facts: &[(&str, Value)]) -> String {
    match format {
        Format::Json => {
            let mut object = Map::new();
            object.insert("level".into(), level.to_string().into());
            object.insert("message".into(), message.into());
            object.extend(
                facts
                    .iter()
                    .map(|(key, value)| ((*key).into(), value.clone())),
            );
            Value::Object(object).to_string()
        }
        Format::Text => {
            let mut line = format!("{level:<5} {message}");
            for (key, value) in facts {
                match value {
                    // Quoted where it could be taken for something else.
                    Value::String(text) if !text.contains([' ', '"', '\n', '\x1b']) => {
                        line.push_str(&format!(" {key}={text}"));
                    }
                    value => line.push_str(&format!(" {key}={value}")),
                }
            }
            line
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_facts_apart() {
        let facts = [("path", Value::from("/a b\nc")), ("n", 3.into())];
        assert_eq!(
            line(Format::Text, Level::Warn, "kept", &facts),
            "warn  kept path=\"/a b\\nc\" n=3"
        );
        assert_eq!(
            line(Format::Json, Level::Warn, "kept", &facts),
            r#"{"level":"warn","message":"kept","path":"/a b\nc","n":3}"#
        );
    }
}
