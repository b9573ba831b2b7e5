//! Where a JSON object ends, found while it comes in, byte by byte and each byte once. Clients do
//! not close their side, so the closing brace is all there is to tell.

/// The longest object that is taken.
const LONGEST: usize = 1024 * 1024;

/// The object so far.
#[derive(Debug, Default)]
pub(super) struct Frame {
    text: Vec<u8>,
    depth: usize,
    within_string: bool,
    escaped: bool,
    whole: bool,
}

/// What came of the latest bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// The object is complete.
    Whole,
    /// More has to come.
    Partial,
    /// It can never become one.
    Wrong(String),
}

impl Frame {
    /// Takes what came in.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Scan {
        if self.text.len() + bytes.len() > LONGEST {
            return Scan::Wrong(format!("more than {LONGEST} bytes"));
        }
        for byte in bytes {
            if let Err(why) = self.see(*byte) {
                return Scan::Wrong(why.to_owned());
            }
        }
        self.text.extend_from_slice(bytes);
        if self.whole {
            Scan::Whole
        } else {
            Scan::Partial
        }
    }

    /// All of it; what it says is for the parser to judge.
    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }

    fn see(&mut self, byte: u8) -> Result<(), &'static str> {
        if self.within_string {
            match byte {
                0..=0x1f => return Err("a control character within a string"),
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.within_string = false,
                _ => {}
            }
            return Ok(());
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.whole => return Err("something came after the JSON object"),
            b'{' => self.depth += 1,
            _ if self.depth == 0 => return Err("no JSON object"),
            b'"' => self.within_string = true,
            b'}' => {
                self.depth -= 1;
                self.whole = self.depth == 0;
            }
            0..=0x1f => return Err("a control character"),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &[u8]) -> Scan {
        Frame::default().take(text)
    }

    #[test]
    fn the_end_is_found_in_any_slicing() {
        let text = br#"  {"a": {"b": "}\"{"}, "c": [1]} "#;
        assert_eq!(scan(text), Scan::Whole);
        let mut frame = Frame::default();
        for (place, byte) in text.iter().enumerate() {
            let whole = place >= text.len() - 2;
            let expected = if whole { Scan::Whole } else { Scan::Partial };
            assert_eq!(frame.take(&[*byte]), expected, "{place}");
        }
        assert_eq!(frame.into_text(), text);
    }

    #[test]
    fn what_can_never_be_an_object_is_told_at_once() {
        for wrong in [
            &b"foobar"[..],
            &[0; 200],
            b"}",
            b"[1]",
            b"{\"Name\":\")\0",
            b"{} x",
            b"{}{",
            b"{\0",
        ] {
            assert!(matches!(scan(wrong), Scan::Wrong(_)), "{wrong:?}");
        }
        assert_eq!(scan(b""), Scan::Partial);
        assert_eq!(scan(b"{\"a\": "), Scan::Partial);
    }

    #[test]
    fn there_is_an_end_to_everything() {
        let mut frame = Frame::default();
        assert_eq!(frame.take(b"{\"a\": \""), Scan::Partial);
        let chunk = vec![b'x'; 64 * 1024];
        let mut taken = 0;
        while frame.take(&chunk) == Scan::Partial {
            taken += chunk.len();
            assert!(taken <= LONGEST);
        }
        assert!(taken > LONGEST - 2 * chunk.len());
    }
}
