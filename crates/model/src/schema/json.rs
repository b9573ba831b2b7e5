//! Just enough JSON to write a schema: objects, arrays, strings, indented by two.

#[derive(Default)]
pub(super) struct Writer {
    text: String,
    depth: usize,
    /// Something stands before the next value on this level.
    filled: bool,
    /// The next value follows its key.
    keyed: bool,
}

impl Writer {
    pub(super) fn object(&mut self, fill: impl FnOnce(&mut Self)) {
        self.nest('{', '}', fill);
    }

    pub(super) fn array(&mut self, fill: impl FnOnce(&mut Self)) {
        self.nest('[', ']', fill);
    }

    pub(super) fn key(&mut self, key: &str) {
        self.begin();
        self.quote(key);
        self.text.push_str(": ");
        self.keyed = true;
    }

    pub(super) fn string(&mut self, value: &str) {
        self.begin();
        self.quote(value);
    }

    /// A key and its text.
    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    /// A number or a word, as it is.
    pub(super) fn raw(&mut self, value: &str) {
        self.begin();
        self.text.push_str(value);
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }

    fn nest(&mut self, open: char, close: char, fill: impl FnOnce(&mut Self)) {
        self.begin();
        self.text.push(open);
        self.depth += 1;
        self.filled = false;
        fill(self);
        self.depth -= 1;
        if self.filled {
            self.line();
        }
        self.text.push(close);
        self.filled = true;
    }

    /// Commas and line breaks before a key or an element.
    fn begin(&mut self) {
        if std::mem::take(&mut self.keyed) {
            return;
        }
        if self.filled {
            self.text.push(',');
        }
        if self.depth > 0 {
            self.line();
        }
        self.filled = true;
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.text.push_str(&"  ".repeat(self.depth));
    }

    fn quote(&mut self, value: &str) {
        self.text.push('"');
        for letter in value.chars() {
            match letter {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                letter if letter.is_control() => {
                    self.text.push_str(&format!("\\u{:04x}", u32::from(letter)));
                }
                letter => self.text.push(letter),
            }
        }
        self.text.push('"');
    }
}
