//! An exporter, compiled: nodes in, text out.

use mirage_state::Node;

use crate::dcgm::labels::{Labelled, Style};
use crate::identity::Speech;
use crate::notes::Subject;
use crate::{Error, Identity, Options, Selection, dcgm, declared};

/// What `/metrics` answers as its content type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Text is handed on when about this much has gathered.
const CHUNK: usize = 64 * 1024;

/// A compiled exporter. It holds no state of any node.
#[derive(Debug)]
pub struct Exporter {
    plan: Plan,
}

#[derive(Debug)]
enum Plan {
    Dcgm(dcgm::plan::Plan),
    Declared(declared::plan::Plan),
}

/// Labels of the first nodes of a stream are kept from family to family, up to this many bytes.
const KEPT_LABELS: usize = 256 * 1024;

/// What rendering reuses from node to node and from family to family.
#[derive(Debug, Default)]
struct Scratch {
    labels: Labelled,
    kept: Vec<Labelled>,
    kept_bytes: usize,
    declared: declared::plan::Scratch,
}

impl Scratch {
    /// The labels of the stream's node number `at`.
    fn labels(&mut self, style: &Style, subject: &Subject<'_>, at: usize) -> &Labelled {
        if at < self.kept.len() {
            return &self.kept[at];
        }
        self.labels.fill(style, subject);
        if at == self.kept.len() && self.kept_bytes < KEPT_LABELS {
            let mut labels = std::mem::take(&mut self.labels);
            labels.shrink();
            self.kept_bytes += labels.size();
            self.kept.push(labels);
            return &self.kept[at];
        }
        &self.labels
    }
}

impl Exporter {
    /// Compiles an exporter. Identities that are not dcgm ignore the selection.
    pub fn new(
        identity: &Identity,
        selection: &Selection,
        options: Options,
    ) -> Result<Exporter, Error> {
        let plan = match &identity.speech {
            Speech::Dcgm(version) => {
                Plan::Dcgm(dcgm::plan::Plan::new(*version, selection, options))
            }
            Speech::Declared(declared) => {
                Plan::Declared(declared::plan::Plan::new(declared.clone(), options))
            }
        };
        Ok(Exporter { plan })
    }

    /// Appends the page of one node.
    pub fn render_node(&self, node: &Node<'_>, out: &mut Vec<u8>) {
        self.render(&Subject::from(*node), out);
    }

    /// Appends the page of one node, with what is known beside it.
    pub fn render(&self, subject: &Subject<'_>, out: &mut Vec<u8>) {
        match &self.plan {
            Plan::Dcgm(plan) => {
                let labelled = Labelled::of(&plan.style, subject);
                for family in &plan.families {
                    headed(&family.head, out, |out| {
                        plan.samples(family, subject, &labelled, out);
                    });
                }
            }
            Plan::Declared(plan) => {
                plan.preamble(out);
                let mut scratch = declared::plan::Scratch::default();
                for family in 0..plan.families() {
                    headed(plan.head(family), out, |out| {
                        plan.samples(family, &subject.node, &mut scratch, out);
                    });
                }
            }
        }
    }

    /// The page of many nodes, in pieces. The iterator is walked once for each family, so it has to give
    /// the same nodes each time: a fixed set of snapshots, not live readers. They are [`Node`]s, or
    /// [`Subject`]s where something is known beside them.
    pub fn chunks<'n, I>(&self, nodes: I) -> Chunks<'_, I>
    where
        I: Iterator<Item: Into<Subject<'n>>> + Clone,
    {
        Chunks {
            exporter: self,
            rest: nodes.clone(),
            nodes,
            node: 0,
            at: Position::Preamble,
            scratch: Scratch::default(),
        }
    }

    /// What to answer as the content type.
    pub fn content_type(&self) -> &'static str {
        CONTENT_TYPE
    }

    /// Whether it shows any GPU of a node: exporters serve boards of their makers.
    pub fn shows(&self, node: &Node<'_>) -> bool {
        match &self.plan {
            Plan::Dcgm(plan) => plan.style.shows_any(node),
            Plan::Declared(plan) => plan.shows_any(node),
        }
    }

    /// Whether its pages need [`crate::Notes::clock_events`].
    pub fn wants_clock_events(&self) -> bool {
        matches!(&self.plan, Plan::Dcgm(plan) if plan.wants_clock_events())
    }

    fn families(&self) -> usize {
        match &self.plan {
            Plan::Dcgm(plan) => plan.families.len(),
            Plan::Declared(plan) => plan.families(),
        }
    }

    fn preamble(&self, out: &mut Vec<u8>) {
        if let Plan::Declared(plan) = &self.plan {
            plan.preamble(out);
        }
    }

    fn head(&self, family: usize) -> &[u8] {
        match &self.plan {
            Plan::Dcgm(plan) => &plan.families[family].head,
            Plan::Declared(plan) => plan.head(family),
        }
    }

    fn samples(
        &self,
        family: usize,
        (at, subject): (usize, &Subject<'_>),
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        match &self.plan {
            Plan::Dcgm(plan) => {
                let labelled = scratch.labels(&plan.style, subject, at);
                plan.samples(&plan.families[family], subject, labelled, out);
            }
            Plan::Declared(plan) => {
                plan.samples(family, &subject.node, &mut scratch.declared, out);
            }
        }
    }
}

/// Appends a head and samples, or nothing when there are no samples; says whether there were.
fn headed(head: &[u8], out: &mut Vec<u8>, samples: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.extend_from_slice(head);
    let mark = out.len();
    samples(out);
    let any = out.len() > mark;
    if !any {
        out.truncate(start);
    }
    any
}

/// The page of many nodes, in pieces of about 64 KiB: family by family, each over all nodes.
#[derive(Debug)]
pub struct Chunks<'e, I> {
    exporter: &'e Exporter,
    nodes: I,
    /// The nodes whose samples of the present family are still to come.
    rest: I,
    /// Number of the next of them.
    node: usize,
    at: Position,
    scratch: Scratch,
}

#[derive(Debug, Clone, Copy)]
enum Position {
    Preamble,
    Family { family: usize, headed: bool },
}

impl<'n, I> Chunks<'_, I>
where
    I: Iterator<Item: Into<Subject<'n>>> + Clone,
{
    /// Puts the next piece into `out`, which is cleared first; `false` at the end.
    pub fn next_into(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        if let Position::Preamble = self.at {
            self.exporter.preamble(out);
            self.at = Position::Family {
                family: 0,
                headed: false,
            };
        }
        while out.len() < CHUNK {
            let Position::Family {
                family,
                headed: done,
            } = self.at
            else {
                break;
            };
            if family == self.exporter.families() {
                break;
            }
            let Some(node) = self.rest.next() else {
                self.rest = self.nodes.clone();
                self.node = 0;
                self.at = Position::Family {
                    family: family + 1,
                    headed: false,
                };
                continue;
            };
            let head = if done {
                &[]
            } else {
                self.exporter.head(family)
            };
            let subject = node.into();
            let at = self.node;
            self.node += 1;
            let any = headed(head, out, |out| {
                self.exporter
                    .samples(family, (at, &subject), &mut self.scratch, out);
            });
            self.at = Position::Family {
                family,
                headed: done || any,
            };
        }
        !out.is_empty()
    }
}

impl<'n, I> Iterator for Chunks<'_, I>
where
    I: Iterator<Item: Into<Subject<'n>>> + Clone,
{
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(CHUNK + CHUNK / 8);
        self.next_into(&mut out).then_some(out)
    }
}
