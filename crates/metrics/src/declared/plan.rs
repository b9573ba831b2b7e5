//! A declared page, compiled.

use std::ops::Range;

use mirage_state::Node;
use mirage_state::layout::{Board, header_flags};

use super::{Comments, Declared, Label, Of, On, Series, Value};
use crate::Options;
use crate::decimal::push_uint;
use crate::device::Device;
use crate::text::push_escaped;

/// A compiled page.
#[derive(Debug)]
pub(crate) struct Plan {
    declared: std::sync::Arc<Declared>,
    any_vendor: bool,
    host: Option<String>,
    /// `# HELP` and `# TYPE` of each family.
    heads: Vec<Vec<u8>>,
}

/// Buffers to reuse from node to node.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    text: Vec<u8>,
    lines: Vec<Line>,
    host: Vec<u8>,
    /// The text that `host` holds, of the present node.
    host_of: Option<&'static str>,
}

/// A sample, as ranges of the scratch text.
#[derive(Debug)]
struct Line {
    labels: Range<usize>,
    value: Range<usize>,
}

impl Plan {
    pub(crate) fn new(declared: std::sync::Arc<Declared>, options: Options) -> Plan {
        let heads = declared
            .families
            .iter()
            .map(|family| {
                if declared.comments == Comments::None {
                    return Vec::new();
                }
                let help = family.help.replace('\\', "\\\\");
                format!(
                    "# HELP {0} {1}\n# TYPE {0} {2}\n",
                    family.name, help, family.prometheus
                )
                .into_bytes()
            })
            .collect();
        Plan {
            declared,
            any_vendor: options.any_vendor,
            host: options.hostname,
            heads,
        }
    }

    pub(crate) fn families(&self) -> usize {
        self.declared.families.len()
    }

    /// What stands before every sample.
    pub(crate) fn preamble(&self, out: &mut Vec<u8>) {
        if !self.declared.preamble.is_empty() {
            out.extend_from_slice(self.declared.preamble.as_bytes());
            out.push(b'\n');
        }
        if self.declared.comments == Comments::First {
            self.heads
                .iter()
                .for_each(|head| out.extend_from_slice(head));
        }
    }

    /// What stands before a family's samples.
    pub(crate) fn head(&self, family: usize) -> &[u8] {
        match self.declared.comments {
            Comments::Before => &self.heads[family],
            Comments::First | Comments::None => &[],
        }
    }

    /// Appends the samples of a family.
    pub(crate) fn samples(
        &self,
        family: usize,
        node: &Node<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let family = &self.declared.families[family];
        let dynamic = node.facts.flags & header_flags::DYNAMIC_MIG != 0;
        scratch.text.clear();
        scratch.lines.clear();
        scratch.host_of = None;
        for gpu in Device::gpus(node).filter(|gpu| self.shows(gpu.board)) {
            for series in &family.series {
                match series.on {
                    On::DynamicMig if !dynamic => continue,
                    On::Others if dynamic => continue,
                    _ => {}
                }
                self.push_gpu(series, &gpu, scratch);
            }
        }
        self.finish(&family.name, scratch, out);
    }

    /// Whether it shows any GPU of a node.
    pub(crate) fn shows_any(&self, node: &Node<'_>) -> bool {
        let mut boards = node.cards.iter().filter_map(|card| node.board(card));
        boards.any(|board| self.shows(board))
    }

    fn shows(&self, board: &Board) -> bool {
        self.any_vendor
            || self.declared.vendors.is_empty()
            || self.declared.vendors.contains(&board.vendor)
    }

    fn push_gpu(&self, series: &Series, gpu: &Device<'_>, scratch: &mut Scratch) {
        match series.of {
            Of::Gpu => self.push(series, gpu, None, scratch),
            Of::Node if scratch.lines.is_empty() => self.push(series, gpu, None, scratch),
            Of::Node => {}
            Of::Instance => gpu
                .instances()
                .for_each(|device| self.push(series, &device, None, scratch)),
            Of::Device => {
                let mut instances = gpu.instances().peekable();
                if instances.peek().is_none() {
                    self.push(series, gpu, None, scratch);
                }
                instances.for_each(|device| self.push(series, &device, None, scratch));
            }
            Of::Link => (0..gpu.board.nvlink_links.min(32))
                .for_each(|link| self.push(series, gpu, Some(link), scratch)),
        }
    }

    fn push(&self, series: &Series, device: &Device<'_>, link: Option<u32>, scratch: &mut Scratch) {
        let value = match link {
            Some(link) => series.from.value_at(device, link),
            None => series.from.value(device),
        };
        let Some(value) = value else {
            return;
        };
        let start = scratch.text.len();
        for label in &series.labels {
            self.push_label(label, device, link, start, scratch);
        }
        let out = &mut scratch.text;
        let end = out.len();
        value.write(series.numbers, out);
        scratch.lines.push(Line {
            labels: start..end,
            value: end..out.len(),
        });
    }

    fn push_label(
        &self,
        label: &Label,
        device: &Device<'_>,
        link: Option<u32>,
        start: usize,
        scratch: &mut Scratch,
    ) {
        let out = &mut scratch.text;
        let mark = out.len();
        if mark > start {
            out.extend_from_slice(self.declared.separator.as_bytes());
        }
        out.extend_from_slice(label.name.as_bytes());
        out.extend_from_slice(b"=\"");
        let empty = out.len();
        match (&label.value, &self.host) {
            (Value::Constant(text), _) => push_escaped(out, text),
            (Value::Host(_), Some(host)) => push_escaped(out, host),
            (Value::Host(text), None) => {
                // All devices of a node share it, and one of these texts takes a hash.
                if scratch.host_of != Some(text.name) {
                    scratch.host.clear();
                    (text.write)(device, &mut scratch.host);
                    scratch.host_of = Some(text.name);
                }
                out.extend_from_slice(&scratch.host);
            }
            (Value::Text(text), _) => (text.write)(device, out),
            (Value::Link, _) => push_uint(out, link.unwrap_or(0).into()),
        }
        if label.optional && out.len() == empty {
            out.truncate(mark);
        } else {
            out.push(b'"');
        }
    }

    /// Writes out the gathered lines, sorted if the identity sorts. Of lines with the same labels the
    /// last counts: a second one would break the page.
    fn finish(&self, name: &str, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let Scratch { text, lines, .. } = scratch;
        let labels_of = |line: &Line| &text[line.labels.clone()];
        lines.sort_by(|a, b| labels_of(a).cmp(labels_of(b)));
        lines.dedup_by(|later, earlier| {
            let same = labels_of(later) == labels_of(earlier);
            if same {
                earlier.value = later.value.clone();
            }
            same
        });
        if !self.declared.sorted_samples {
            lines.sort_by_key(|line| line.labels.start);
        }
        for line in lines.iter() {
            let labels = labels_of(line);
            out.extend_from_slice(name.as_bytes());
            if !labels.is_empty() {
                out.push(b'{');
                out.extend_from_slice(labels);
                out.push(b'}');
            }
            out.push(b' ');
            out.extend_from_slice(&text[line.value.clone()]);
            out.push(b'\n');
        }
    }
}
