//! A JSON object per line and sample.

use std::io::Write;

use anyhow::Result;
use mirage_sim::Event;
use serde_json::json;

use super::Offline;
use crate::view::{EventView, gpu_view};

/// Events since the last sample.
#[derive(Default)]
pub(super) struct Lines {
    events: Vec<EventView>,
}

impl Lines {
    pub(super) fn tick(&mut self, offline: &Offline, events: &[Event]) {
        let views = events
            .iter()
            .map(|event| EventView::new(event, &offline.plan, offline.clock()));
        self.events.extend(views);
    }

    pub(super) fn sample(&mut self, offline: &Offline, out: &mut impl Write) -> Result<()> {
        // Written in pieces: a fleet's sample is large.
        write!(
            out,
            "{{\"time_s\":{},\"gpus\":[",
            json!(offline.world.now().as_secs_f64())
        )?;
        let mut is_first = true;
        for image in &offline.nodes {
            let node = image.node();
            for view in (0..node.cards.len()).filter_map(|gpu| gpu_view(&node, gpu)) {
                if !std::mem::take(&mut is_first) {
                    out.write_all(b",")?;
                }
                serde_json::to_writer(&mut *out, &view)?;
            }
        }
        out.write_all(b"],\"events\":")?;
        serde_json::to_writer(&mut *out, &self.events)?;
        out.write_all(b"}\n")?;
        self.events.clear();
        Ok(())
    }
}
