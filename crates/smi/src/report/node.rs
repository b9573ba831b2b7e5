//! The report as a tree: a line or a group of lines, which has a label in text and an element in XML.

use std::io::Write;

use super::sections::Part;
use crate::Stop;
use crate::query::Value;

/// Column of the colon, and the one of newer drivers.
pub(super) const COLON: usize = 42;
pub(super) const WIDE_COLON: usize = 55;
const INDENT: usize = 4;

/// A line, a group, or a line with lines under it.
#[derive(Debug)]
pub(super) struct Node {
    /// Empty: shows in XML only.
    label: String,
    /// Empty: shows in text only.
    tag: &'static str,
    value: Option<String>,
    /// Differs from the text's in few places.
    xml_value: Option<String>,
    children: Vec<Node>,
    pub(super) part: Part,
}

impl Node {
    /// A line.
    pub(super) fn leaf(label: &str, tag: &'static str, value: impl ToString) -> Node {
        Node {
            value: Some(value.to_string()),
            ..Node::group(label, tag, Vec::new())
        }
    }

    /// A line with a value that NVML may refuse.
    pub(super) fn value(label: &str, tag: &'static str, value: &Value) -> Node {
        Node::leaf(label, tag, value.plain(""))
    }

    /// The same with a unit.
    pub(super) fn amount(label: &str, tag: &'static str, value: &Value, unit: &str) -> Node {
        Node::leaf(label, tag, value.plain(unit))
    }

    /// Lines under a heading.
    pub(super) fn group(label: &str, tag: &'static str, children: Vec<Node>) -> Node {
        Node {
            label: label.to_owned(),
            tag,
            value: None,
            xml_value: None,
            children,
            part: Part::None,
        }
    }

    /// A heading rather than a line.
    pub(super) fn is_group(&self) -> bool {
        self.value.is_none()
    }

    /// Belongs to a part of the report.
    pub(super) fn part(self, part: Part) -> Node {
        Node { part, ..self }
    }

    /// Lines under a line; in XML they stand beside it.
    pub(super) fn with(self, children: Vec<Node>) -> Node {
        Node { children, ..self }
    }

    /// Another value in XML.
    pub(super) fn in_xml(self, value: impl ToString) -> Node {
        Node {
            xml_value: Some(value.to_string()),
            ..self
        }
    }

    /// Writes lines, with their colons in this column.
    pub(super) fn text(&self, depth: usize, colon: usize, out: &mut Vec<u8>) -> Result<(), Stop> {
        if self.label.is_empty() {
            return Ok(());
        }
        let indent = depth * INDENT;
        let label = &self.label;
        match &self.value {
            Some(value) => {
                let width = colon.saturating_sub(indent);
                writeln!(out, "{:indent$}{label:<width$}: {value}", "")?;
            }
            None => writeln!(out, "{:indent$}{label}", "")?,
        }
        for child in &self.children {
            child.text(depth + 1, colon, out)?;
        }
        Ok(())
    }

    /// Writes elements.
    pub(super) fn xml(&self, depth: usize, out: &mut Vec<u8>) -> Result<(), Stop> {
        let indent = "\t".repeat(depth);
        let tag = self.tag;
        let value = self.xml_value.as_ref().or(self.value.as_ref());
        if let Some(value) = value {
            if !tag.is_empty() {
                writeln!(out, "{indent}<{tag}>{}</{tag}>", escaped(value))?;
            }
            for child in &self.children {
                child.xml(depth, out)?;
            }
            return Ok(());
        }
        if tag.is_empty() {
            return Ok(());
        }
        writeln!(out, "{indent}<{tag}>")?;
        for child in &self.children {
            child.xml(depth + 1, out)?;
        }
        writeln!(out, "{indent}</{tag}>")?;
        Ok(())
    }
}

/// Text that cannot be taken for an element; what XML cannot hold becomes a question mark.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() && c != '\t' => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(node: &Node) -> String {
        let mut out = Vec::new();
        node.text(1, COLON, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    fn elements(node: &Node) -> String {
        let mut out = Vec::new();
        node.xml(0, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_colon_stays_in_its_column() {
        let group = Node::group("Outer", "outer", vec![Node::leaf("Inner", "inner", 3)]);
        let text = lines(&group);
        let line = text.lines().nth(1).expect("a second line");
        assert_eq!(line.find(':'), Some(COLON));
        assert_eq!(line, format!("{:<COLON$}: 3", "        Inner"));
        assert_eq!(elements(&group), "<outer>\n\t<inner>3</inner>\n</outer>\n");
    }

    #[test]
    fn lines_under_a_line_stand_beside_it_in_xml() {
        let node = Node::leaf("A", "a", 1).with(vec![Node::leaf("B", "b", 2)]);
        assert_eq!(elements(&node), "<a>1</a>\n<b>2</b>\n");
        assert_eq!(lines(&node).lines().count(), 2);
    }

    #[test]
    fn hostile_text_stays_text() {
        let node = Node::leaf("Name", "name", "</name><x>&\u{1}");
        assert_eq!(
            elements(&node),
            "<name>&lt;/name&gt;&lt;x&gt;&amp;?</name>\n"
        );
    }

    #[test]
    fn each_form_may_go_without() {
        let text_only = Node::leaf("A", "", 1);
        let xml_only = Node::leaf("", "a", 1).in_xml("one");
        assert_eq!(
            (lines(&xml_only).as_str(), elements(&text_only).as_str()),
            ("", "")
        );
        assert_eq!(elements(&xml_only), "<a>one</a>\n");
    }
}
