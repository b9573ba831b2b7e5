//! Parser events into the tree, under budgets. No recursion: the stack of open
//! collections is a vector, so nesting costs heap, never the thread's stack.

use std::collections::{HashMap, HashSet};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{
    Key, MAX_ALIAS_BYTES, MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_PROBLEMS, Node, Position, Problem,
    Scalar, Span, Style, Value,
};

pub(super) fn build(text: &str) -> Result<Node, Vec<Problem>> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "the document has {} bytes, more than the limit of {} MiB",
            text.len(),
            MAX_BYTES >> 20
        );
        return Err(vec![Problem::new(Span::default(), message)]);
    }
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let step = next
            .map_err(|error| vec![syntax(&error)])
            .and_then(|(event, at)| builder.take(event, span(at.start, at.end)).map_err(one));
        if let Err(mut fatal) = step {
            builder.problems.append(&mut fatal);
            break;
        }
    }
    match builder.root {
        root if builder.problems.is_empty() => Ok(root.unwrap_or_else(empty)),
        _ => Err(builder.problems),
    }
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
    copied: usize,
    anchors: HashMap<usize, Anchored>,
    problems: Vec<Problem>,
}

/// A collection whose end has not been read.
struct Open {
    value: Value,
    tag: Option<String>,
    span: Span,
    anchor: usize,
    key: Option<Key>,
    seen: HashSet<String>,
    height: usize,
}

struct Anchored {
    node: Node,
    height: usize,
    nodes: usize,
    bytes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Span) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document starts here; one file holds one document";
                    return Err(Problem::new(at, message).help("remove the `---` and what follows"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let node = Node {
                    value: Value::Scalar(Scalar {
                        text: text.into_owned(),
                        style: style_of(style),
                    }),
                    tag: tag.map(|tag| tag_text(&tag)),
                    span: at,
                };
                self.add(node, anchor, 0)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(Value::Sequence(Vec::new()), tag.as_deref(), at, anchor)?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.open(Value::Mapping(Vec::new()), tag.as_deref(), at, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(at)?,
            Event::Alias(id) => self.alias(id, at)?,
            _ => {}
        }
        Ok(())
    }

    fn open(
        &mut self,
        value: Value,
        tag: Option<&Tag>,
        span: Span,
        anchor: usize,
    ) -> Result<(), Problem> {
        self.check_depth(1, span)?;
        self.open.push(Open {
            value,
            tag: tag.map(tag_text),
            span,
            anchor,
            key: None,
            seen: HashSet::new(),
            height: 1,
        });
        Ok(())
    }

    fn close(&mut self, at: Span) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let last = match &open.value {
            Value::Sequence(items) => items.last().map(|node| node.span.end),
            Value::Mapping(entries) => entries.last().map(|(_, node)| node.span.end),
            Value::Scalar(_) => None,
        };
        // A block collection ends where its last element ends; the parser only notices at
        // the next token, which may be many blank lines later.
        let end = if at.end.offset > at.start.offset {
            at.end
        } else {
            last.unwrap_or(at.end)
        };
        let node = Node {
            value: open.value,
            tag: open.tag,
            span: Span {
                start: open.span.start,
                end,
            },
        };
        self.add(node, open.anchor, open.height)
    }

    fn alias(&mut self, id: usize, at: Span) -> Result<(), Problem> {
        let Some(anchored) = self.anchors.get(&id) else {
            let message = "this alias stands inside the value it names";
            return Err(Problem::new(at, message));
        };
        let (nodes, bytes, height) = (anchored.nodes, anchored.bytes, anchored.height);
        self.check_depth(height, at)?;
        self.copy(nodes, bytes, at)?;
        let mut node = self.anchors[&id].node.clone();
        node.span = at;
        self.add(node, 0, height)
    }

    /// Puts a finished node where it belongs.
    fn add(&mut self, node: Node, anchor: usize, height: usize) -> Result<(), Problem> {
        self.count(1, node.span)?;
        if anchor != 0 {
            let (nodes, bytes) = weigh(&node);
            self.copy(nodes, bytes, node.span)?;
            let anchored = Anchored {
                node: node.clone(),
                height,
                nodes,
                bytes,
            };
            self.anchors.insert(anchor, anchored);
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.height = open.height.max(height + 1);
        match &mut open.value {
            Value::Sequence(items) => items.push(node),
            Value::Mapping(entries) => match open.key.take() {
                Some(key) => entries.push((key, node)),
                None => {
                    let Value::Scalar(scalar) = node.value else {
                        let message = format!("a key must be text, not {}", node.shape());
                        return Err(Problem::new(node.span, message));
                    };
                    let key = Key {
                        text: scalar.text,
                        span: node.span,
                    };
                    if !open.seen.insert(key.text.clone()) && self.problems.len() < MAX_PROBLEMS {
                        let first = entries.iter().find(|(other, _)| other.text == key.text);
                        let line = first.map_or(0, |(other, _)| other.span.start.line);
                        let problem =
                            Problem::new(key.span, format!("duplicate key `{}`", key.text))
                                .help(format!("it is already on line {line}; keep one of them"));
                        self.problems.push(problem);
                    }
                    open.key = Some(key);
                }
            },
            Value::Scalar(_) => {}
        }
        Ok(())
    }

    fn check_depth(&self, height: usize, at: Span) -> Result<(), Problem> {
        if self.open.len() + height > MAX_DEPTH {
            return Err(Problem::new(at, too_deep()));
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, at: Span) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let message = format!("more values than the limit of {MAX_NODES}, aliases included");
            return Err(Problem::new(at, message));
        }
        Ok(())
    }

    fn copy(&mut self, nodes: usize, bytes: usize, at: Span) -> Result<(), Problem> {
        self.count(nodes, at)?;
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_ALIAS_BYTES {
            let message = format!(
                "aliases copy more text than the limit of {} MiB",
                MAX_ALIAS_BYTES >> 20
            );
            return Err(Problem::new(at, message));
        }
        Ok(())
    }
}

/// Nodes and bytes of text a copy costs.
fn weigh(node: &Node) -> (usize, usize) {
    match &node.value {
        Value::Scalar(scalar) => (1, scalar.text.len()),
        Value::Sequence(items) => items.iter().map(weigh).fold((1, 0), sum),
        Value::Mapping(entries) => entries
            .iter()
            .map(|(key, node)| sum((1, key.text.len()), weigh(node)))
            .fold((1, 0), sum),
    }
}

fn sum(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

fn one(problem: Problem) -> Vec<Problem> {
    vec![problem]
}

fn syntax(error: &ScanError) -> Problem {
    let at = *error.marker();
    // The parser looks ahead, so it may meet the limit on depth before the tree does.
    let message = match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(),
        _ => format!("not valid YAML: {}", error.info()),
    };
    Problem::new(span(at, at), message)
}

fn too_deep() -> String {
    format!("nested deeper than the limit of {MAX_DEPTH} levels")
}

fn span(start: Marker, end: Marker) -> Span {
    Span {
        start: position(start),
        end: position(end),
    }
}

fn position(mark: Marker) -> Position {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Position {
        offset: small(mark.byte_offset().unwrap_or(0)),
        line: small(mark.line().max(1)),
        column: small(mark.col().saturating_add(1)),
    }
}

fn style_of(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}

fn tag_text(tag: &Tag) -> String {
    tag.to_string()
}

fn empty() -> Node {
    let start = Position {
        offset: 0,
        line: 1,
        column: 1,
    };
    Node {
        value: Value::Scalar(Scalar {
            text: String::new(),
            style: Style::Plain,
        }),
        tag: None,
        span: Span { start, end: start },
    }
}
