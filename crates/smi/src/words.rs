//! The command line, word by word. `nvidia-smi` lets a value follow its option after `=` or as the next word, for
//! short and long options alike.

use std::collections::VecDeque;

use super::Stop;

/// What is left of the command line.
#[derive(Debug)]
pub(super) struct Words(VecDeque<String>);

/// An option or a bare word.
#[derive(Debug)]
pub(super) struct Word {
    /// The option as written, without its value.
    pub(super) name: String,
    attached: Option<String>,
}

impl Words {
    pub(super) fn new(words: Vec<String>) -> Words {
        Words(words.into())
    }

    /// The next word, which stays.
    pub(super) fn peek(&self) -> Option<&str> {
        self.0.front().map(String::as_str)
    }

    /// The next word as an option, with its value if one is attached.
    pub(super) fn next(&mut self) -> Option<Word> {
        let word = self.0.pop_front()?;
        Some(match word.split_once('=') {
            Some((name, value)) if name.starts_with('-') => Word {
                name: name.to_owned(),
                attached: Some(value.to_owned()),
            },
            _ => Word {
                name: word,
                attached: None,
            },
        })
    }

    /// The value of an option that needs one.
    pub(super) fn value(&mut self, of: Word) -> Result<String, Stop> {
        let name = of.name.clone();
        self.optional(of)
            .filter(|value| !value.is_empty())
            .ok_or_else(|| Stop::usage(format!("Option \"{name}\" is missing its value.")))
    }

    /// The value of an option that may have one.
    pub(super) fn optional(&mut self, of: Word) -> Option<String> {
        if of.attached.is_some() {
            return of.attached;
        }
        let next = self.peek()?;
        let is_value = !next.starts_with('-') || next == "-";
        if is_value { self.0.pop_front() } else { None }
    }

    /// The value as a number.
    pub(super) fn number(&mut self, of: Word) -> Result<u32, Stop> {
        let name = of.name.clone();
        let value = self.value(of)?;
        let number = value.parse().ok();
        number.ok_or_else(|| Stop::usage(format!("\"{value}\" is not a number, as {name} takes.")))
    }

    /// The value as a switch: 0 or 1, or in words.
    pub(super) fn switch(&mut self, of: Word) -> Result<bool, Stop> {
        let name = of.name.clone();
        let value = self.value(of)?;
        match value.to_ascii_uppercase().as_str() {
            "0" | "DISABLED" => Ok(false),
            "1" | "ENABLED" => Ok(true),
            _ => Err(Stop::usage(format!(
                "\"{value}\" is neither 0/DISABLED nor 1/ENABLED, as {name} takes."
            ))),
        }
    }
}

/// An option that does not exist.
pub(super) fn unknown(word: &Word) -> Stop {
    Stop::usage(format!(
        "Option \"{}\" is not recognized. Please run 'nvidia-smi -h'.",
        word.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Words {
        Words::new(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn a_value_is_attached_or_follows() {
        for line in ["-i 3", "-i=3", "--id=3", "--id 3"] {
            let mut words = words(line);
            let word = words.next().expect("a word");
            assert_eq!(words.number(word).expect("a number"), 3, "{line}");
            assert!(words.peek().is_none());
        }
    }

    #[test]
    fn an_option_is_no_value() {
        let mut words = words("-l -i 0");
        let word = words.next().expect("a word");
        assert_eq!(words.optional(word), None);
        assert_eq!(words.peek(), Some("-i"));
        let missing = super::super::words::Words::new(vec!["-i".into()])
            .next()
            .expect("a word");
        let error = Words::new(Vec::new()).value(missing).expect_err("missing");
        assert_eq!(error.code, 2);
        assert!(error.message.contains("-i"));
    }

    #[test]
    fn a_bare_word_keeps_its_equals_sign() {
        let mut words = words("a=b");
        assert_eq!(words.next().expect("a word").name, "a=b");
    }
}
