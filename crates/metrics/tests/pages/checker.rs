//! The exposition format, strictly: what Prometheus would refuse or silently mangle is an error.

use std::collections::{BTreeMap, BTreeSet};

/// A sample as read back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: String,
}

impl Sample {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    pub(crate) fn label_names(&self) -> Vec<&str> {
        self.labels.iter().map(|(n, _)| n.as_str()).collect()
    }
}

/// Reads a page; the error names the line.
pub(crate) fn read(page: &[u8]) -> Result<Vec<Sample>, String> {
    let page = str::from_utf8(page).map_err(|e| e.to_string())?;
    if !page.is_empty() && !page.ends_with('\n') {
        return Err("the last line does not end".into());
    }
    let mut samples: Vec<Sample> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut closed = BTreeSet::new();
    let mut comments: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (at, line) in page.lines().enumerate() {
        let fail = |problem: &str| Err(format!("line {}: {problem}: {line}", at + 1));
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (kind, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if !matches!(kind, "HELP" | "TYPE") {
                continue;
            }
            if !is_name(name) {
                return fail("a comment names no metric");
            }
            if kind == "TYPE" && !matches!(words.next(), Some("gauge" | "counter")) {
                return fail("unknown type");
            }
            if comments.insert((kind.into(), name.into()), at).is_some() {
                return fail("a second comment of its kind");
            }
            if closed.contains(name) || samples.last().is_some_and(|s| s.name == name) {
                return fail("a comment after its samples");
            }
            continue;
        }
        if line.is_empty() {
            return fail("empty line");
        }
        let sample = match sample(line) {
            Ok(sample) => sample,
            Err(problem) => return fail(&problem),
        };
        if let Some(last) = samples.last()
            && last.name != sample.name
        {
            closed.insert(last.name.clone());
        }
        if closed.contains(&sample.name) {
            return fail("its family is already over");
        }
        let mut labels = sample.labels.clone();
        labels.sort();
        if labels.windows(2).any(|w| w[0].0 == w[1].0) {
            return fail("a label is there twice");
        }
        if !seen.insert((sample.name.clone(), labels)) {
            return fail("a second series with these labels");
        }
        samples.push(sample);
    }
    Ok(samples)
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

fn sample(line: &str) -> Result<Sample, String> {
    let name_end = line.find(['{', ' ']).ok_or("no value")?;
    let name = &line[..name_end];
    if !is_name(name) {
        return Err("bad name".into());
    }
    let mut rest = &line[name_end..];
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("no label value")?;
            if !is_name(label) {
                return Err(format!("bad label {label:?}"));
            }
            let (value, after) = unquote(after)?;
            labels.push((label.to_owned(), value));
            if let Some(end) = after.strip_prefix('}') {
                rest = end;
                break;
            }
            rest = after.strip_prefix(',').ok_or("no comma")?.trim_start();
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    if value.contains(' ') || value.parse::<f64>().is_err() {
        return Err(format!("bad value {value:?}"));
    }
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value: value.to_owned(),
    })
}

fn unquote(text: &str) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((out, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => out.push('\n'),
                Some((_, c @ ('"' | '\\'))) => out.push(c),
                _ => return Err("bad escape".into()),
            },
            c => out.push(c),
        }
    }
    Err("a label value does not end".into())
}

#[test]
fn the_checker_finds_what_is_wrong() {
    assert!(read(b"# HELP a x\n# TYPE a gauge\na{b=\"c\",d=\"\"} 1\na 2\n").is_ok());
    for bad in [
        "a 1",
        "a{b=\"c\"} 1\na{b=\"c\"} 2\n",
        "a 1\nb 1\na{x=\"y\"} 1\n",
        "a 1\n# TYPE a gauge\n",
        "# TYPE a gauge\n# TYPE a gauge\n",
        "# TYPE a gage\n",
        "a-b 1\n",
        "a{b=\"c} 1\n",
        "a{b=\"c\\x\"} 1\n",
        "a{b=\"c\",b=\"d\"} 1\n",
        "a{b=\"c\"}1\n",
        "a one\n",
        "a 1 2\n",
        "\n",
    ] {
        assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
