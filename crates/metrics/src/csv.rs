//! Comma-separated lines, as our tables and dcgm-exporter's field lists are written.

/// The trimmed columns of one line. A column may be quoted, with `""` for a quote; a quote that does not
/// close on its line is an error.
pub(crate) fn columns(line: &str) -> Result<Vec<String>, &'static str> {
    let mut out = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.trim_start();
        let (column, after) = match start.strip_prefix('"') {
            Some(inside) => quoted(inside)?,
            None => match start.split_once(',') {
                Some((column, after)) => (column.trim_end().to_owned(), Some(after)),
                None => (start.trim_end().to_owned(), None),
            },
        };
        out.push(column);
        match after {
            Some(after) => rest = after,
            None => return Ok(out),
        }
    }
}

/// A column after its opening quote, and what follows the comma behind it.
fn quoted(mut inside: &str) -> Result<(String, Option<&str>), &'static str> {
    let mut column = String::new();
    loop {
        let (text, after) = inside.split_once('"').ok_or("a quote is not closed")?;
        column.push_str(text);
        if let Some(more) = after.strip_prefix('"') {
            column.push('"');
            inside = more;
            continue;
        }
        let after = after.trim_start();
        return if after.is_empty() {
            Ok((column.trim().to_owned(), None))
        } else {
            let after = after
                .strip_prefix(',')
                .ok_or("text stands between a closing quote and the comma")?;
            Ok((column.trim().to_owned(), Some(after)))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_trims_and_unquotes() {
        let read = |line| columns(line).unwrap();
        assert_eq!(read("a, b ,c"), ["a", "b", "c"]);
        assert_eq!(read("a,\"b, c\",d"), ["a", "b, c", "d"]);
        assert_eq!(read("\"a \"\"x\"\"\" , b"), ["a \"x\"", "b"]);
        assert_eq!(read(""), [""]);
        assert_eq!(read("a,"), ["a", ""]);
        assert!(columns("a,\"b").is_err());
        assert!(columns("\"a\"b,c").is_err());
    }
}
