//! A dcgm page, compiled: families in order, each with its ready-made lines.

use mirage_state::layout::{flags, valid};

use crate::Options;
use crate::dcgm::fields::{self, Field, Level, Source};
use crate::dcgm::labels::{Entry, Labelled, Style, Variant, is_dynamic, number_format};
use crate::dcgm::{Version, computed, entity, xid};
use crate::decimal::{Decimal, Format, push_uint};
use crate::notes::Subject;
use crate::selection::Selection;
use crate::text::push_escaped;

const DRIVER_VERSION: u16 = 1;
const GPU_UTIL: u16 = 203;
const FB_USED: u16 = 252;
/// Series with this id and above are computed by the exporter, and have labels of their own.
const COMPUTED: u16 = 9000;

/// A compiled page.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) style: Style,
    pub(crate) families: Vec<Family>,
}

/// A family of a page.
#[derive(Debug)]
pub(crate) struct Family {
    /// `# HELP` and `# TYPE`.
    pub(crate) head: Vec<u8>,
    /// `NAME{`.
    pub(crate) open: Vec<u8>,
    pub(crate) field: &'static Field,
    format: Format,
}

impl Plan {
    pub(crate) fn new(version: Version, selection: &Selection, options: Options) -> Plan {
        let (labels, values): (Vec<_>, Vec<_>) = selection
            .columns
            .iter()
            .partition(|column| column.is_label());
        let mut labels: Vec<_> = labels
            .into_iter()
            .map(|column| (column.name.clone(), column.field))
            .collect();
        let mut dynamic_labels = labels.clone();
        if let Some(driver) = fields::FIELDS.iter().find(|f| f.id == DRIVER_VERSION)
            && labels.iter().all(|(_, field)| field.id != DRIVER_VERSION)
        {
            dynamic_labels.push((driver.name.clone(), driver));
        }
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        dynamic_labels.sort_by(|a, b| a.0.cmp(&b.0));
        let mut families: Vec<_> = values
            .into_iter()
            .map(|column| Family {
                head: format!(
                    "# HELP {0} {1}\n# TYPE {0} {2}\n",
                    column.name, column.help, column.prometheus
                )
                .into_bytes(),
                open: format!("{}{{", column.name).into_bytes(),
                field: column.field,
                format: number_format(column.field.kind),
            })
            .collect();
        families.sort_by(|a, b| {
            let key = |f: &Family| (f.field.level.group(), f.field.id);
            key(a).cmp(&key(b)).then_with(|| a.open.cmp(&b.open))
        });
        let global_labels: Vec<_> = labels
            .iter()
            .filter(|(_, field)| field.is_global())
            .cloned()
            .collect();
        let itemised = families.iter().any(|family| family.field.id >= COMPUTED);
        Plan {
            style: Style {
                options,
                hostname: version.hostname,
                renames_pod_labels: version.renames_pod_labels,
                labels,
                dynamic_labels,
                global_labels,
                itemised,
            },
            families,
        }
    }

    /// Whether it needs to know of clock events in the past.
    pub(crate) fn wants_clock_events(&self) -> bool {
        let sources = self.families.iter().map(|family| &family.field.source);
        sources
            .into_iter()
            .any(|s| matches!(s, Source::ClockEvents))
    }

    /// Appends the samples of a family.
    pub(crate) fn samples(
        &self,
        family: &Family,
        subject: &Subject<'_>,
        labelled: &Labelled,
        out: &mut Vec<u8>,
    ) {
        let node = &subject.node;
        let devices = labelled
            .entries
            .iter()
            .filter_map(|entry| Some((entry, entry.device(node)?)));
        match family.field.source {
            Source::Blank | Source::Text(_) => {}
            Source::Number(expression) if family.field.level == Level::Link => {
                let links = Labelled::of_links(&self.style, subject);
                for entry in &links.entries {
                    let value = entry
                        .device(node)
                        .and_then(|gpu| expression.value_at(&gpu, entry.link));
                    if let Some(value) = value {
                        self.sample(family, &links, entry, value, out);
                    }
                }
            }
            Source::Switch(read) => {
                entity::switch_samples(family, &self.style, node, read, out);
            }
            Source::Cpu(read) => entity::cpu_samples(family, &self.style, node, read, out),
            Source::Number(expression) => {
                if family.field.id == GPU_UTIL && is_dynamic(node) {
                    return;
                }
                let profiling = family.field.is_profiling();
                for (entry, device) in devices {
                    if profiling && !device.knows(valid::PROFILING) {
                        continue;
                    }
                    if let Some(value) = expression.value(&device)
                        && !is_blank(value, family.format)
                    {
                        self.sample(family, labelled, entry, value, out);
                    }
                }
            }
            Source::Xid(_) => {
                for (entry, device) in devices {
                    if device.knows(valid::XID) {
                        xid_sample(family, labelled, entry, device.live.xid.into(), out);
                    } else if self.style.options.xid_zero && !device.has(flags::LOST) {
                        xid_sample(family, labelled, entry, 0, out);
                    }
                }
            }
            Source::XidWindow => {
                let window = self.style.options.xid_window_ms;
                for (entry, device) in devices {
                    computed::xid_window(family, labelled, entry, &device, window, out);
                }
            }
            Source::ClockEvents => {
                let window = self.style.options.clock_window_ms;
                let counts = subject.notes.map_or(&[][..], |notes| &notes.clock_events);
                for (entry, device) in devices {
                    let counts = counts.get(device.index as usize);
                    computed::clock_events(family, labelled, entry, counts, window, out);
                }
            }
            Source::Health => {
                let window = self.style.options.xid_window_ms;
                for (entry, device) in devices {
                    computed::health(family, labelled, entry, &device, window, out);
                }
            }
            Source::PeerToPeer => {
                let gpus = Labelled::of_gpus(&self.style, subject);
                computed::peer_to_peer(family, &gpus, node, out);
            }
        }
    }

    /// Appends a device's sample, or one for each pod that shares it.
    fn sample(
        &self,
        family: &Family,
        labelled: &Labelled,
        entry: &Entry,
        value: Decimal,
        out: &mut Vec<u8>,
    ) {
        let variants = labelled.variants(entry);
        let parts = self.style.options.virtual_gpus && labelled.has_pods(entry);
        if parts && matches!(family.field.id, GPU_UTIL | FB_USED) {
            family.whole(labelled, entry, labelled.plain(entry), value, out);
            for variant in variants {
                out.extend_from_slice(&family.open);
                out.extend_from_slice(labelled.at(&variant.head));
                out.extend_from_slice(labelled.at(&variant.with_uid));
                let part = if family.field.id == GPU_UTIL {
                    Decimal::whole(variant.gpu_percent.into())
                } else {
                    Decimal::whole(variant.memory >> 20)
                };
                family.close(part, out);
            }
            return;
        }
        family.whole(labelled, entry, variants, value, out);
    }
}

impl Family {
    /// Appends the end of a line.
    pub(crate) fn close(&self, value: Decimal, out: &mut Vec<u8>) {
        out.extend_from_slice(b"} ");
        value.write(self.format, out);
        out.push(b'\n');
    }

    /// Appends name and labels up to the attributes for each set of attributes, or once if there is none; `rest` writes what
    /// follows.
    fn each(
        &self,
        labelled: &Labelled,
        entry: &Entry,
        variants: &[Variant],
        out: &mut Vec<u8>,
        rest: impl Fn(Option<&Variant>, &mut Vec<u8>),
    ) {
        if variants.is_empty() {
            out.extend_from_slice(&self.open);
            out.extend_from_slice(labelled.at(&entry.head));
            rest(None, out);
        }
        for variant in variants {
            out.extend_from_slice(&self.open);
            out.extend_from_slice(labelled.at(&variant.head));
            rest(Some(variant), out);
        }
    }

    /// Appends the same value for each set of attributes.
    fn whole(
        &self,
        labelled: &Labelled,
        entry: &Entry,
        variants: &[Variant],
        value: Decimal,
        out: &mut Vec<u8>,
    ) {
        self.each(labelled, entry, variants, out, |variant, out| {
            if let Some(variant) = variant {
                out.extend_from_slice(labelled.at(&variant.attributes));
            }
            self.close(value, out);
        });
    }

    /// Appends lines with labels of their own beside the device's.
    pub(crate) fn with_labels(
        &self,
        labelled: &Labelled,
        entry: &Entry,
        more: &[(&str, &[u8])],
        value: u64,
        out: &mut Vec<u8>,
    ) {
        let variants = labelled.variants(entry);
        for at in 0..variants.len().max(1) {
            let variant = variants.get(at);
            out.extend_from_slice(&self.open);
            labelled.push_with(entry, variant, more, out);
            if let Some(variant) = variant {
                out.extend_from_slice(labelled.at(&variant.attributes));
            }
            out.extend_from_slice(b"} ");
            push_uint(out, value);
            out.push(b'\n');
        }
    }
}

/// Whether the real exporter takes a value for one of DCGM's blanks and leaves it out. A true value can
/// be one of them for a moment; then its series is gone there too.
fn is_blank(value: Decimal, format: Format) -> bool {
    const INT32: std::ops::RangeInclusive<i64> = 0x7fff_fff0..=0x7fff_fff3;
    const INT64: std::ops::RangeInclusive<i64> = 0x7fff_ffff_ffff_fff0..=0x7fff_ffff_ffff_fff3;
    const DOUBLE: std::ops::RangeInclusive<i64> = 140_737_488_355_328..=140_737_488_355_331;
    let whole = value.whole_part();
    match format {
        Format::Fixed6 => value.is_whole() && DOUBLE.contains(&whole),
        _ => INT32.contains(&whole) || INT64.contains(&whole),
    }
}

/// Appends the last Xid, whose attributes sort in between those of the pod.
fn xid_sample(family: &Family, labelled: &Labelled, entry: &Entry, number: u64, out: &mut Vec<u8>) {
    let variants = labelled.variants(entry);
    family.each(labelled, entry, variants, out, |variant, out| {
        if let Some(variant) = variant {
            out.extend_from_slice(labelled.at(&(variant.attributes.start..variant.split)));
        }
        out.extend_from_slice(b",err_code=\"");
        push_uint(out, number);
        out.extend_from_slice(b"\",err_msg=\"");
        push_escaped(out, xid::message(number));
        out.push(b'"');
        if let Some(variant) = variant {
            out.extend_from_slice(labelled.at(&(variant.split..variant.attributes.end)));
        }
        out.extend_from_slice(b"} ");
        push_uint(out, number);
        out.push(b'\n');
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_the_real_ones() {
        let int = |n: u64| is_blank(Decimal::whole(n), Format::Int);
        assert!(!int(0x7fff_ffef) && int(0x7fff_fff0) && int(0x7fff_fff3) && !int(0x7fff_fff4));
        assert!(int(0x7fff_ffff_ffff_fff0) && !int(0x7fff_ffff_ffff_fff4));
        assert!(!int(140_737_488_355_328));
        let double = |n: u64, places| is_blank(Decimal::of(n, places), Format::Fixed6);
        assert!(double(140_737_488_355_328_000, 3) && !double(140_737_488_355_328_500, 3));
        assert!(!double(0x7fff_fff0, 0));
    }
}
