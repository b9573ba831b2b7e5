//! The exporter's page at each sample, with the clock events of the ticks before it.

use std::io::Write;

use anyhow::Result;
use mirage_metrics::{ClockHistory, Exporter, Notes, Subject};

use super::Offline;
use crate::publish::millis;

/// Samples of clock events are this far apart.
const EVERY_MS: u64 = 1_000;

/// Prints pages.
pub(super) struct Pages {
    exporter: Exporter,
    window_ms: u64,
    /// Of each node, while the exporter shows them.
    clocks: Vec<ClockHistory>,
}

impl Pages {
    pub(super) fn new(exporter: Exporter, window_ms: u64) -> Pages {
        Pages {
            exporter,
            window_ms,
            clocks: Vec::new(),
        }
    }

    /// Notes what holds clocks back.
    pub(super) fn tick(&mut self, offline: &Offline) {
        if !self.exporter.wants_clock_events() {
            return;
        }
        let fresh = || ClockHistory::new(self.window_ms, EVERY_MS);
        self.clocks.resize_with(offline.nodes.len(), fresh);
        let now = offline.clock().unix_ms(offline.world.now());
        for (node, clocks) in self.clocks.iter_mut().enumerate() {
            let gpus = offline.world.node(node);
            let gpus = gpus.map_or(&[][..], |node| node.gpus());
            let reasons = gpus.iter().map(|gpu| u64::from(gpu.readings().reasons));
            clocks.note_reasons(now, reasons);
        }
    }

    pub(super) fn sample(
        &self,
        offline: &Offline,
        several: bool,
        out: &mut impl Write,
    ) -> Result<()> {
        if several {
            let seconds = millis(offline.world.now()) as f64 / 1e3;
            writeln!(out, "# simulated time {seconds} s")?;
        }
        let notes: Vec<Notes> = self.clocks.iter().map(of).collect();
        let nodes = offline.nodes.iter().enumerate();
        let subjects = nodes.map(|(at, image)| Subject {
            node: image.node(),
            notes: notes.get(at),
        });
        let mut chunks = self.exporter.chunks(subjects);
        let mut text = Vec::new();
        while chunks.next_into(&mut text) {
            out.write_all(&text)?;
        }
        Ok(())
    }
}

fn of(clocks: &ClockHistory) -> Notes {
    Notes {
        clock_events: clocks.counts().to_vec(),
        ..Notes::default()
    }
}
