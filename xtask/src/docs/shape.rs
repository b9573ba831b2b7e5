//! The shape of a text: what stays the same from run to run.

/// A text with the host's name and the repository's path taken out.
pub(super) fn without_host(text: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let root = crate::shell::root().display().to_string();
    let target = crate::shell::target().display().to_string();
    let text = text
        .replace(&target, "target")
        .replace(&format!("{root}/"), "");
    replace_word(&text, host, "laptop")
}

/// Replaces a word where it stands alone: a host may have a very short name.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !before.ends_with(is_id) && !after.starts_with(is_id);
        out.push_str(before);
        out.push_str(if alone { by } else { word });
        rest = after;
    }
    out + rest
}

/// Numbers become `#`, ids become `ID`, runs of blanks one blank, rules one dash.
pub(super) fn of(text: &str) -> String {
    text.lines()
        .map(shape_of_line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn shape_of_line(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !is_id(c)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            shape.push_str(&shape_of_run(run));
            let mut characters = after.chars();
            shape.extend(characters.next());
            rest = characters.as_str();
        }
        shape.push(' ');
    }
    shape
}

fn is_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '.'
}

/// A UUID, a number, or a word with numbers in it.
fn shape_of_run(run: &str) -> String {
    if run.len() >= 36 && run.matches('-').count() >= 4 {
        return "ID".to_owned();
    }
    let mut shape = String::new();
    for c in run.chars() {
        let c = if c.is_ascii_digit() || (c == '.' && shape.ends_with('#')) {
            '#'
        } else {
            c
        };
        if !(c == '#' && shape.ends_with('#')) {
            shape.push(c);
        }
    }
    shape
}

/// Where two texts first differ in shape.
pub(super) fn difference(shown: &str, printed: &str) -> Option<String> {
    let (left, right) = (of(shown), of(printed));
    let (mut left, mut right) = (left.lines(), right.lines());
    let (mut shown, mut printed) = (shown.lines(), printed.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (a, b) = (left.next(), right.next());
        let (show, print) = (shown.next(), printed.next());
        if a != b {
            let none = "(nothing)";
            return Some(format!(
                "line {number}\n  shows   {}\n  printed {}",
                show.unwrap_or(none),
                print.unwrap_or(none)
            ));
        }
        a?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_have_one_shape() {
        assert_eq!(of("temp 41 C"), of("temp   7.25 C"));
        assert_eq!(
            of("{UUID=\"GPU-cc0557e3-8fbd-51f0-b7d3-7a548c581d7f\"}"),
            "{UUID=\"ID\"} "
        );
        assert_ne!(of("a 1"), of("b 1"));
    }

    #[test]
    fn a_host_is_replaced_where_it_stands_alone() {
        assert_eq!(
            replace_word("node vm, \"vm\" vmlinux", "vm", "laptop"),
            "node laptop, \"laptop\" vmlinux"
        );
        assert_eq!(replace_word("as it is", "", "laptop"), "as it is");
    }

    #[test]
    fn a_difference_names_its_line() {
        assert_eq!(difference("a 1\nb", "a 2\nb"), None);
        assert!(difference("a\nb", "a\nc").unwrap().starts_with("line 2"));
        assert!(difference("a", "a\nb").is_some());
    }
}
