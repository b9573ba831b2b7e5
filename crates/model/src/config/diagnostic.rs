//! Problems as people read them: place, source line, caret, way out. Plain text, no
//! colours, and nothing hostile from the document reaches the terminal as it is.

use std::fmt;

use crate::quantity::visible;
use crate::yaml::{MAX_PROBLEMS, Problem, Span};

/// Characters of a source line shown around the caret.
const WINDOW: usize = 100;

/// Everything wrong with one document, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

/// One problem, rendered for its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Name of the document.
    pub name: String,
    /// Line, from 1; 0 when it is about the whole document.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub help: Option<String>,
    /// Only worth knowing; the document is accepted.
    pub warning: bool,
    source: String,
    indent: usize,
    carets: usize,
}

impl Diagnostics {
    pub(crate) fn errors(name: &str, text: &str, problems: Vec<Problem>) -> Self {
        Self::new(name, text, problems, false)
    }

    pub(crate) fn warnings(name: &str, text: &str, problems: Vec<Problem>) -> Self {
        Self::new(name, text, problems, true)
    }

    fn new(name: &str, text: &str, mut problems: Vec<Problem>, warning: bool) -> Self {
        problems.sort_by_key(|problem| problem.span.start);
        problems.dedup();
        problems.truncate(MAX_PROBLEMS);
        let item = |problem: Problem| Diagnostic::new(name, text, problem, warning);
        Self {
            items: problems.into_iter().map(item).collect(),
        }
    }

    /// Each problem.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Diagnostic {
    fn new(name: &str, text: &str, problem: Problem, warning: bool) -> Self {
        let Span { start, end } = problem.span;
        let line = source_line(text, start.offset as usize);
        let before = (start.column as usize).saturating_sub(1);
        let letters: Vec<char> = line.chars().collect();
        let before = before.min(letters.len());
        let width = if end.line == start.line {
            end.column.saturating_sub(start.column) as usize
        } else {
            letters.len() - before
        };
        // A line of a megabyte is shown around the caret only.
        let cut = if letters.len() > WINDOW {
            before.saturating_sub(WINDOW / 2)
        } else {
            0
        };
        let shown: String = letters[cut..].iter().take(WINDOW).map(printable).collect();
        let (left, right) = (cut > 0, letters.len() > cut + WINDOW);
        let room = shown.chars().count().saturating_sub(before - cut);
        Self {
            name: name.chars().flat_map(visible).collect(),
            line: start.line,
            column: start.column,
            message: problem.message.chars().flat_map(visible).collect(),
            help: problem.help,
            warning,
            source: format!(
                "{}{shown}{}",
                if left { "…" } else { "" },
                if right { "…" } else { "" }
            ),
            indent: before - cut + usize::from(left),
            carets: width.min(room).max(1),
        }
    }
}

/// One column per character, whatever the character was.
fn printable(letter: &char) -> char {
    match letter {
        '\t' => ' ',
        letter if visible(*letter).nth(1).is_some() => '\u{fffd}',
        letter => *letter,
    }
}

fn source_line(text: &str, offset: usize) -> &str {
    let offset = offset.min(text.len());
    let (Some(head), Some(tail)) = (text.get(..offset), text.get(offset..)) else {
        return "";
    };
    let from = head.rfind(['\n', '\r']).map_or(0, |at| at + 1);
    let to = tail.find(['\n', '\r']).unwrap_or(tail.len());
    &text[from..offset + to]
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, item) in self.items.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "{item}")?;
        }
        if self.items.len() == MAX_PROBLEMS {
            write!(f, "\nonly the first {MAX_PROBLEMS} are shown")?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.warning { "warning: " } else { "" };
        let Self { name, message, .. } = self;
        if self.line == 0 {
            write!(f, "{name}: {warning}{message}")?;
            return match &self.help {
                Some(help) => write!(f, "; {help}"),
                None => Ok(()),
            };
        }
        writeln!(
            f,
            "{name}:{}:{}: {warning}{message}",
            self.line, self.column
        )?;
        writeln!(f, "{:>5} | {}", self.line, self.source)?;
        let (indent, carets) = (" ".repeat(self.indent), "^".repeat(self.carets));
        write!(f, "      | {indent}{carets}")?;
        match &self.help {
            Some(help) => write!(f, " {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::Position;

    fn show(text: &str, line: u32, column: u32, length: u32) -> String {
        let lines = text.split_inclusive('\n').take(line as usize - 1);
        let start: usize = lines.map(str::len).sum();
        let skipped = text[start..].chars().take(column as usize - 1);
        let offset = (start + skipped.map(char::len_utf8).sum::<usize>()) as u32;
        let at = |more: u32| Position {
            offset: offset + more,
            line,
            column: column + more,
        };
        let span = Span {
            start: at(0),
            end: at(length),
        };
        let problem = Problem::new(span, "wrong").help("do this");
        Diagnostics::errors("f.yaml", text, vec![problem]).to_string()
    }

    #[test]
    fn the_caret_stands_under_the_span() {
        let expected = "f.yaml:2:3: wrong\n    2 |   gpu: 8\n      |   ^^^ do this";
        assert_eq!(show("a: 1\n  gpu: 8\nb: 2\n", 2, 3, 3), expected);
        let expected = "f.yaml:1:4: wrong\n    1 | ä: ö\n      |    ^ do this";
        assert_eq!(show("ä: ö", 1, 4, 0), expected);
    }

    #[test]
    fn long_lines_are_cut_and_control_characters_hidden() {
        let text = format!("{}BAD{}", "x".repeat(5000), "y".repeat(5000));
        let shown = show(&text, 1, 5001, 3);
        assert!(
            shown.lines().all(|line| line.chars().count() < 130),
            "{shown}"
        );
        let source: Vec<char> = shown.lines().nth(1).unwrap().chars().collect();
        let caret = shown.lines().nth(2).unwrap().find('^').unwrap();
        assert_eq!(source[caret..caret + 3], ['B', 'A', 'D']);
        assert!(!show("a\u{1b}[31m: 1", 1, 1, 1).contains('\u{1b}'));
    }
}
