//! The MIG devices that selectors may name: those that are published.

use std::sync::RwLockReadGuard;

use mirage_model::plan::DeviceRef;
use mirage_model::select::MigDevices;
use mirage_state::Image;
use mirage_state::layout::{Instance, text};

use crate::fleet::Published;

/// What is published, to look MIG devices up in.
#[derive(Debug)]
pub(super) struct Instances<'a>(pub(super) RwLockReadGuard<'a, Published>);

/// The MIG devices of a node. GPU instances without a compute instance are none yet.
fn devices(image: &Image) -> impl Iterator<Item = &Instance> {
    let is_whole = |instance: &&Instance| instance.index != u32::MAX;
    image.instances.iter().filter(is_whole)
}

impl MigDevices for Instances<'_> {
    fn count(&self, node: u32, gpu: u32) -> u32 {
        let image = self.0.nodes.get(node as usize);
        let devices = image.into_iter().flat_map(|image| devices(image));
        let count = devices.filter(|instance| instance.gpu == gpu).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn find(&self, id: &str) -> Option<DeviceRef> {
        let nodes = self.0.nodes.iter().zip(0u32..);
        let mut all = nodes.flat_map(|(image, node)| devices(image).map(move |at| (node, at)));
        let (node, found) = all.find(|(_, at)| text(&at.uuid).eq_ignore_ascii_case(id))?;
        Some(DeviceRef {
            node,
            gpu: found.gpu,
            instance: Some(found.index),
        })
    }
}
