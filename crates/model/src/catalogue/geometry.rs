//! The MIG tables of a model file into a [`Geometry`].
//!
//! Here a row names its source once, and lists under `estimated` the figures that are not
//! from it.

use crate::mig::{ComputeProfile, Geometry, GpuProfile};
use crate::yaml::Node;

use super::read::{Reader, string_of, u32_of};

/// Reads the `mig` section; problems go to the reader.
pub(super) fn read<'a>(mig: &'a Node, file: &mut Reader<'a>) -> Option<Geometry> {
    let mut number = |key: &str| {
        let pair = mig.get(key)?;
        file.value_of(pair).and_then(u32_of)
    };
    let (max_instances, memory_slices) = (number("max-instances"), number("memory-slices"));
    let profiles: Vec<GpuProfile> = mig
        .get("profiles")
        .and_then(Node::items)
        .unwrap_or_default()
        .iter()
        .filter_map(|row| profile(row, file))
        .collect();
    if max_instances.is_none() || memory_slices.is_none() || profiles.is_empty() {
        file.problem(mig, "`mig` needs max-instances, memory-slices and profiles");
    }
    Some(Geometry {
        max_instances: max_instances?,
        memory_slices: memory_slices?,
        profiles,
    })
}

fn profile(row: &Node, file: &mut Reader<'_>) -> Option<GpuProfile> {
    file.check_source(row.get("source"), row);
    let mut read = Row { row, file };
    let name = read.name();
    let profile = GpuProfile {
        index: read.number("figures", "index"),
        id: read.number("figures", "id"),
        slices: read.number("figures", "slices"),
        memory_mib: u64::from(read.number("figures", "memory-mib")),
        sm_count: read.number("figures", "sm-count"),
        copy_engines: read.number("engines", "copy"),
        decoders: read.number("engines", "decoders"),
        encoders: read.number("engines", "encoders"),
        jpeg_engines: read.number("engines", "jpeg"),
        ofa_engines: read.number("engines", "ofa"),
        p2p: read
            .node("figures", "p2p")
            .and_then(Node::bool)
            .unwrap_or(false),
        max_instances: read.number("figures", "max-instances"),
        placement_starts: read.numbers("placement", "starts"),
        placement_size: read.number("placement", "size"),
        compute: Vec::new(),
        name,
    };
    let compute = row.get("compute").and_then(Node::items).unwrap_or_default();
    let compute = compute
        .iter()
        .map(|row| compute_profile(row, &profile, file))
        .collect();
    Some(GpuProfile { compute, ..profile })
}

fn compute_profile(row: &Node, parent: &GpuProfile, file: &mut Reader<'_>) -> ComputeProfile {
    file.check_source(row.get("source"), row);
    let mut read = Row { row, file };
    let slices = read.number("", "slices");
    ComputeProfile {
        name: read.name(),
        index: read.number("", "index"),
        id: read.number("", "id"),
        slices,
        sm_count: read.number("", "sm-count"),
        max_instances: read.number("", "max-instances"),
        placement_starts: read.numbers("", "starts"),
        placement_size: read.number("", "size"),
        // All compute instances of a GPU instance share its engines.
        shared_copy_engines: parent.copy_engines,
        shared_decoders: parent.decoders,
        shared_encoders: parent.encoders,
        shared_jpeg_engines: parent.jpeg_engines,
        shared_ofa_engines: parent.ofa_engines,
        whole: slices == parent.slices,
    }
}

/// One row, with its figures in groups or, for the empty group, in the row itself.
struct Row<'a, 'b, 'c> {
    row: &'a Node,
    file: &'b mut Reader<'c>,
}

impl<'a> Row<'a, '_, '_> {
    fn name(&mut self) -> String {
        let name = self.row.get("name").and_then(string_of);
        if name.is_none() {
            self.file.problem(self.row, "a profile needs a name");
        }
        name.unwrap_or_default()
    }

    fn node(&mut self, group: &str, key: &str) -> Option<&'a Node> {
        let holder = match group {
            "" => Some(self.row),
            name => self.row.get(name),
        };
        let node = holder.and_then(|holder| holder.get(key));
        if node.is_none() {
            let message = format!("`{key}` is missing from this profile");
            self.file.problem(self.row, message);
        }
        node
    }

    fn number(&mut self, group: &str, key: &str) -> u32 {
        let node = self.node(group, key);
        let number = node.and_then(u32_of);
        if let (Some(node), None) = (node, number) {
            self.file
                .problem(node, format!("`{key}` must be a whole number"));
        }
        number.unwrap_or_default()
    }

    fn numbers(&mut self, group: &str, key: &str) -> Vec<u32> {
        let Some(node) = self.node(group, key) else {
            return Vec::new();
        };
        let numbers = node
            .items()
            .and_then(|items| items.iter().map(u32_of).collect::<Option<Vec<u32>>>());
        if numbers.is_none() {
            let message = format!("`{key}` must be a list of whole numbers");
            self.file.problem(node, message);
        }
        numbers.unwrap_or_default()
    }
}
