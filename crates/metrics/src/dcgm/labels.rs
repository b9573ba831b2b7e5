//! The label text of a node's devices, rendered once for as many families as follow.
//!
//! A series has three groups of labels, each sorted by name: those that say which device it is (the *head*), fields
//! that are labels together with the labels of the pod (the *group*), and attributes: who holds the device.

mod write;

use std::ops::Range;

use mirage_state::Node;
use mirage_state::layout::{Board, Holding, header_flags, vendors};

use self::write::{push_fixed, push_label_field, push_name};
use crate::dcgm::fields::Field;
use crate::device::{Device, WHOLE};
use crate::notes::{ClaimNote, Subject};
use crate::options::{Devices, Options, holds};
use crate::text::push_escaped;

pub(crate) use self::write::{number_format, push_host, push_label_fields};

/// Instances a GPU can have, as DCGM numbers them.
const INSTANCES_PER_GPU: u32 = 8;

/// "No link" of [`Entry::link`].
const NO_LINK: u32 = u32::MAX;

/// How labels are written.
#[derive(Debug)]
pub(crate) struct Style {
    pub(crate) options: Options,
    /// `Hostname` or `hostname`.
    pub(crate) hostname: &'static str,
    /// Whether a pod's label that is called as one of ours gets another name; before, it is left out.
    pub(crate) renames_pod_labels: bool,
    /// Fields that are labels, by name.
    pub(crate) labels: Vec<(String, &'static Field)>,
    /// The same for dynamic-MIG nodes, which always show the driver version.
    pub(crate) dynamic_labels: Vec<(String, &'static Field)>,
    /// Those of them that belong to no device, for links, switches and CPUs.
    pub(crate) global_labels: Vec<(String, &'static Field)>,
    /// Whether families with labels of their own follow: then the group is kept piece by piece.
    pub(crate) itemised: bool,
}

impl Style {
    /// Whether any GPU of a node is shown.
    pub(crate) fn shows_any(&self, node: &Node<'_>) -> bool {
        let mut boards = node.cards.iter().filter_map(|card| node.board(card));
        boards.any(|board| self.shows(board))
    }

    fn shows(&self, board: &Board) -> bool {
        self.options.any_vendor || board.vendor == vendors::NVIDIA
    }
}

/// The devices of a node with their labels. It borrows nothing, so that it can be kept from one family to
/// the next.
#[derive(Debug, Default)]
pub(crate) struct Labelled {
    pub(crate) text: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    variants: Vec<Variant>,
    items: Vec<Item>,
}

/// A range of [`Labelled::text`].
type Span = Range<u32>;

/// A device with its labels.
#[derive(Debug)]
pub(crate) struct Entry {
    gpu: u32,
    /// Place in the node's instances, [`WHOLE`] for a GPU.
    instance: u32,
    /// The link it is about, if it is about one.
    pub(crate) link: u32,
    /// `gpu="0",…` up to the end of the group.
    pub(crate) head: Span,
    /// Where the group begins in it.
    fixed: u32,
    group: Span,
    variants: Span,
    /// The same without pods, for series that are shown whole beside their parts.
    plain: Span,
}

/// One set of attributes of a device: a pod that holds it, a job that runs on it, or both.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// As the entry's, with the pod's labels in between.
    pub(crate) head: Span,
    group: Span,
    /// `,container="…",namespace="…",pod="…"` and what options add.
    pub(crate) attributes: Span,
    /// Where attributes that sort behind `container` and `dra_…` may be put in.
    pub(crate) split: u32,
    /// The same, always with `pod_uid`.
    pub(crate) with_uid: Span,
    pub(crate) gpu_percent: u32,
    pub(crate) memory: u64,
}

/// One label of a group: `,name="value"`.
#[derive(Debug)]
struct Item {
    text: Span,
    name: u32,
}

/// Who holds a device, as one set of attributes tells it.
#[derive(Debug, Clone, Copy, Default)]
struct Holder<'a> {
    holding: Option<&'a Holding>,
    share: Option<&'a str>,
    claim: Option<&'a ClaimNote>,
    labels: &'a [(String, String)],
    job: Option<&'a str>,
    gpu_percent: u32,
    memory: u64,
}

impl Entry {
    /// The device in its node, as long as that is the node it was labelled in.
    pub(crate) fn device<'a>(&self, node: &'a Node<'a>) -> Option<Device<'a>> {
        let gpu = Device::gpu(node, self.gpu)?;
        if self.instance == WHOLE {
            Some(gpu)
        } else {
            gpu.with_instance(self.instance)
        }
    }
}

impl Labelled {
    /// Renders the labels of the devices of a node that `style` shows.
    pub(crate) fn of(style: &Style, subject: &Subject<'_>) -> Labelled {
        let mut labelled = Labelled::default();
        labelled.fill(style, subject);
        labelled
    }

    /// Forgets what it holds and renders another node's.
    pub(crate) fn fill(&mut self, style: &Style, subject: &Subject<'_>) {
        self.text.clear();
        self.entries.clear();
        self.variants.clear();
        self.items.clear();
        for gpu in shown(style, &subject.node) {
            match &style.options.devices {
                Devices::Flexible => {
                    let before = self.entries.len();
                    for instance in gpu.instances() {
                        self.push(style, subject, &instance, NO_LINK);
                    }
                    if self.entries.len() == before {
                        self.push(style, subject, &gpu, NO_LINK);
                    }
                }
                Devices::Gpus(ranges) => {
                    if holds(ranges.as_deref(), gpu.index) {
                        self.push(style, subject, &gpu, NO_LINK);
                    }
                }
                Devices::Instances(ranges) => {
                    for instance in gpu.instances() {
                        let ordinal = instance.slice.map_or(0, |s| s.ordinal);
                        let id = gpu
                            .index
                            .saturating_mul(INSTANCES_PER_GPU)
                            .saturating_add(ordinal);
                        if holds(ranges.as_deref(), id) {
                            self.push(style, subject, &instance, NO_LINK);
                        }
                    }
                }
            }
        }
    }

    /// Labels of whole GPUs, whatever devices are shown otherwise.
    pub(crate) fn of_gpus(style: &Style, subject: &Subject<'_>) -> Labelled {
        let mut labelled = Labelled::default();
        for gpu in shown(style, &subject.node) {
            labelled.push(style, subject, &gpu, NO_LINK);
        }
        labelled
    }

    /// Labels of the links of GPUs that are up.
    pub(crate) fn of_links(style: &Style, subject: &Subject<'_>) -> Labelled {
        let mut labelled = Labelled::default();
        for gpu in shown(style, &subject.node) {
            for link in gpu.links_up() {
                labelled.push(style, subject, &gpu, link);
            }
        }
        labelled
    }

    /// The sets of attributes of a device: none, that of the last pod, or those of all that share it.
    pub(crate) fn variants(&self, entry: &Entry) -> &[Variant] {
        &self.variants[entry.variants.start as usize..entry.variants.end as usize]
    }

    /// Those without pods.
    pub(crate) fn plain(&self, entry: &Entry) -> &[Variant] {
        &self.variants[entry.plain.start as usize..entry.plain.end as usize]
    }

    /// Whether pods hold the device.
    pub(crate) fn has_pods(&self, entry: &Entry) -> bool {
        !entry.variants.is_empty() && entry.variants != entry.plain
    }

    /// The text of a span.
    pub(crate) fn at(&self, span: &Span) -> &[u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Appends the labels of an entry up to its attributes, with `more` sorted into the group.
    pub(crate) fn push_with(
        &self,
        entry: &Entry,
        variant: Option<&Variant>,
        more: &[(&str, &[u8])],
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(self.at(&(entry.head.start..entry.fixed)));
        let group = variant.map_or(&entry.group, |v| &v.group);
        let mut more = more.iter().peekable();
        for item in &self.items[group.start as usize..group.end as usize] {
            let name = self.at(&(item.text.start + 1..item.text.start + 1 + item.name));
            while let Some((next, value)) = more.next_if(|(next, _)| next.as_bytes() < name) {
                push_pair(out, next, value);
            }
            // A label of the series' own stands for one of its name.
            if more.peek().is_none_or(|(next, _)| next.as_bytes() != name) {
                out.extend_from_slice(self.at(&item.text));
            }
        }
        for (name, value) in more {
            push_pair(out, name, value);
        }
    }

    /// Bytes it takes up.
    pub(crate) fn size(&self) -> usize {
        self.text.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.variants.capacity() * size_of::<Variant>()
            + self.items.capacity() * size_of::<Item>()
    }

    /// Gives back what it does not use.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.variants.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    fn end(&self) -> u32 {
        // A node's labels are kilobytes; one with more than 4 GiB of names could not be in memory twice.
        u32::try_from(self.text.len()).unwrap_or(u32::MAX)
    }

    fn push(&mut self, style: &Style, subject: &Subject<'_>, device: &Device<'_>, link: u32) {
        let start = self.end();
        let link_number = (link != NO_LINK).then_some(link);
        push_fixed(&mut self.text, style, device, link_number);
        let fixed = self.end();
        let fields = fields_of(style, device, link_number);
        let group = self.push_group(style, fields, device, &[]);
        let mut entry = Entry {
            gpu: device.index,
            instance: device.slice.map_or(WHOLE, |s| s.at),
            link,
            head: start..self.end(),
            fixed,
            group,
            variants: 0..0,
            plain: 0..0,
        };
        let gi = device.slice.map(|slice| slice.instance.gi);
        let jobs = subject
            .notes
            .map_or(&[][..], |notes| notes.jobs(device.index, gi));
        let first = self.variants.len() as u32;
        if style.options.pods && !is_dynamic(device.node) {
            self.push_holders(style, subject, device, &entry, fields, jobs);
        }
        entry.variants = first..self.variants.len() as u32;
        if !jobs.is_empty() && (entry.variants.is_empty() || style.options.virtual_gpus) {
            let start = self.variants.len() as u32;
            for job in jobs {
                let holder = Holder {
                    job: Some(job),
                    ..Holder::default()
                };
                self.push_variant(style, device, &entry, fields, holder);
            }
            entry.plain = start..self.variants.len() as u32;
            if entry.variants.is_empty() {
                entry.variants = entry.plain.clone();
            }
        }
        self.entries.push(entry);
    }

    fn push_holders(
        &mut self,
        style: &Style,
        subject: &Subject<'_>,
        device: &Device<'_>,
        entry: &Entry,
        fields: &[(String, &'static Field)],
        jobs: &[String],
    ) {
        let first = self.variants.len();
        for (at, holding) in device.holdings() {
            let container = device.node.containers.get(holding.container as usize);
            if container.is_none_or(|container| container.pod.len == 0) {
                continue;
            }
            // Without sharing there is one pod to a device: the last that took it.
            if !style.options.virtual_gpus {
                self.variants.truncate(first);
            }
            let grant = subject.notes.and_then(|notes| notes.grant(at));
            let mut holder = Holder {
                holding: Some(holding),
                gpu_percent: holding.gpu_percent,
                memory: holding.memory,
                ..Holder::default()
            };
            if !style.options.virtual_gpus {
                holder.claim = grant.and_then(|grant| grant.claim.as_ref());
                holder.labels = subject
                    .notes
                    .map_or(&[], |notes| notes.labels(holding.container));
                self.push_jobs(style, device, entry, fields, holder, jobs);
                continue;
            }
            let shares = grant.map_or(&[][..], |grant| &grant.shares);
            if shares.is_empty() {
                self.push_jobs(style, device, entry, fields, holder, jobs);
            }
            let count = shares.len().max(1) as u64;
            for (at, share) in shares.iter().enumerate() {
                // Of what does not divide, the first ones get one more.
                let part = |all: u64| all / count + u64::from((at as u64) < all % count);
                let holder = Holder {
                    share: Some(share),
                    gpu_percent: part(holding.gpu_percent.into()) as u32,
                    memory: part(holding.memory),
                    ..holder
                };
                self.push_jobs(style, device, entry, fields, holder, jobs);
            }
        }
    }

    fn push_jobs(
        &mut self,
        style: &Style,
        device: &Device<'_>,
        entry: &Entry,
        fields: &[(String, &'static Field)],
        holder: Holder<'_>,
        jobs: &[String],
    ) {
        if jobs.is_empty() {
            self.push_variant(style, device, entry, fields, holder);
        }
        for job in jobs {
            let holder = Holder {
                job: Some(job),
                ..holder
            };
            self.push_variant(style, device, entry, fields, holder);
        }
    }

    fn push_variant(
        &mut self,
        style: &Style,
        device: &Device<'_>,
        entry: &Entry,
        fields: &[(String, &'static Field)],
        holder: Holder<'_>,
    ) {
        let (mut head, mut group) = (entry.head.clone(), entry.group.clone());
        if !holder.labels.is_empty() {
            head.start = self.end();
            self.text
                .extend_from_within(entry.head.start as usize..entry.fixed as usize);
            let labels = write::pod_labels(style, holder.labels);
            group = self.push_group(style, fields, device, &labels);
            head.end = self.end();
        }
        let uid = style.options.pod_uid;
        let (attributes, split) = self.push_attributes(style, device, &holder, uid);
        let with_uid = if style.options.virtual_gpus && !uid {
            self.push_attributes(style, device, &holder, true).0
        } else {
            attributes.clone()
        };
        self.variants.push(Variant {
            head,
            group,
            attributes,
            split,
            with_uid,
            gpu_percent: holder.gpu_percent,
            memory: holder.memory,
        });
    }

    /// Appends fields and a pod's labels, both sorted by name, as one sorted group.
    fn push_group(
        &mut self,
        style: &Style,
        fields: &[(String, &'static Field)],
        device: &Device<'_>,
        labels: &[(String, &str)],
    ) -> Span {
        let first = self.items.len() as u32;
        let mut labels = labels.iter().peekable();
        for (name, field) in fields {
            while let Some((next, value)) = labels.next_if(|(next, _)| next < name) {
                self.push_item(style, next, |out| push_escaped(out, value));
            }
            // As in the real one, a pod's label takes the place of a field's.
            if labels.peek().is_some_and(|(next, _)| next == name) {
                continue;
            }
            self.push_item(style, name, |out| push_label_field(out, field, device));
        }
        for (name, value) in labels {
            self.push_item(style, name, |out| push_escaped(out, value));
        }
        first..self.items.len() as u32
    }

    fn push_item(&mut self, style: &Style, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.end();
        if !write::push_label(&mut self.text, name, write) || !style.itemised {
            return;
        }
        self.items.push(Item {
            text: start..self.end(),
            name: name.len() as u32,
        });
    }

    fn push_attributes(
        &mut self,
        style: &Style,
        device: &Device<'_>,
        holder: &Holder<'_>,
        uid: bool,
    ) -> (Span, u32) {
        let start = self.end();
        let split = write::push_attributes(&mut self.text, style, device, holder, uid);
        (start..self.end(), u32::try_from(split).unwrap_or(u32::MAX))
    }
}

/// The GPUs of a node that `style` shows.
fn shown<'a>(style: &'a Style, node: &'a Node<'a>) -> impl Iterator<Item = Device<'a>> {
    Device::gpus(node).filter(|gpu| style.shows(gpu.board))
}

/// The fields that are labels of a device, or of one of its links.
fn fields_of<'s>(
    style: &'s Style,
    device: &Device<'_>,
    link: Option<u32>,
) -> &'s [(String, &'static Field)] {
    if link.is_some() {
        &style.global_labels
    } else if is_dynamic(device.node) {
        &style.dynamic_labels
    } else {
        &style.labels
    }
}

/// Whether a node follows the dynamic-MIG design.
pub(crate) fn is_dynamic(node: &Node<'_>) -> bool {
    node.facts.flags & header_flags::DYNAMIC_MIG != 0
}

fn push_pair(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    push_name(out, name);
    out.extend_from_slice(value);
    out.push(b'"');
}
