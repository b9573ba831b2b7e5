//! A short memory of why clocks were held back, for `DCGM_EXP_CLOCK_EVENTS_COUNT`.
//!
//! DCGM takes a sample of a GPU's reasons now and then and counts, for each reason, the samples of a window that
//! have it. So does this: whoever serves pages notes a node's reasons as its ticks go by, never during a scrape.
//! Times are the node's own (`unix_ms`), so a fleet that runs faster than the wall has its window too.

use std::collections::VecDeque;

use mirage_state::Node;

/// How many clock events DCGM tells apart: NVML's first nine reasons, by bit.
pub const CLOCK_EVENTS: usize = 9;

/// Their names, by bit.
pub(crate) const CLOCK_EVENT_NAMES: [&str; CLOCK_EVENTS] = [
    "gpu_idle",
    "clocks_setting",
    "power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal",
    "hw_thermal",
    "hw_power_brake",
    "display_clocks",
];

/// Most samples of a window; one that would hold more takes them further apart.
const MOST: u64 = 4096;

/// The reasons of a node's GPUs in a window of time.
#[derive(Debug, Clone)]
pub struct ClockHistory {
    window_ms: u64,
    every_ms: u64,
    /// When samples were taken, oldest first.
    times: VecDeque<u64>,
    /// A row of reasons for each sample, one for each GPU.
    reasons: VecDeque<u16>,
    counts: Vec<[u32; CLOCK_EVENTS]>,
}

impl ClockHistory {
    /// Nothing has been seen yet. Samples are at least `every_ms` apart.
    pub fn new(window_ms: u64, every_ms: u64) -> ClockHistory {
        ClockHistory {
            window_ms,
            every_ms: every_ms.max(window_ms / MOST).max(1),
            times: VecDeque::new(),
            reasons: VecDeque::new(),
            counts: Vec::new(),
        }
    }

    /// Looks at a node; takes a sample if it is time, and forgets what has left the window.
    pub fn note(&mut self, node: &Node<'_>) {
        let reasons = node.lives.iter().map(|live| live.reasons);
        self.note_reasons(node.facts.unix_ms, reasons);
    }

    /// The same for whoever has no node at hand: the time, and the reasons of each GPU.
    pub fn note_reasons(&mut self, now: u64, reasons: impl ExactSizeIterator<Item = u64>) {
        let gpus = reasons.len();
        if self.counts.len() != gpus || self.times.back().is_some_and(|&t| t > now) {
            // Other GPUs, or another run: what was noted means nothing any more.
            self.times.clear();
            self.reasons.clear();
            self.counts = vec![[0; CLOCK_EVENTS]; gpus];
        }
        while let Some(&oldest) = self.times.front()
            && now - oldest >= self.window_ms
        {
            self.times.pop_front();
            for counts in &mut self.counts {
                let gone = self.reasons.pop_front().unwrap_or(0);
                for (bit, count) in counts.iter_mut().enumerate() {
                    *count -= u32::from(gone >> bit & 1);
                }
            }
        }
        let due = self
            .times
            .back()
            .is_none_or(|&last| now - last >= self.every_ms);
        if !due || self.window_ms == 0 {
            return;
        }
        self.times.push_back(now);
        for (reasons, counts) in reasons.zip(&mut self.counts) {
            let seen = (reasons & ((1 << CLOCK_EVENTS) - 1)) as u16;
            self.reasons.push_back(seen);
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += u32::from(seen >> bit & 1);
            }
        }
    }

    /// Samples of the window that have each event, by GPU.
    pub fn counts(&self) -> &[[u32; CLOCK_EVENTS]] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use mirage_state::Image;
    use mirage_state::layout::Live;

    use super::*;

    /// A node at a time, with the reasons of its GPUs.
    fn at(unix_ms: u64, reasons: &[u64]) -> Image {
        let mut image = Image::default();
        image.header.unix_ms = unix_ms;
        image.lives = reasons
            .iter()
            .map(|&reasons| Live {
                reasons,
                ..Live::default()
            })
            .collect();
        image
    }

    #[test]
    fn samples_count_until_they_leave_the_window() {
        let mut history = ClockHistory::new(10_000, 1_000);
        for second in 0..20u64 {
            let power = if second < 5 { 0x4 } else { 0x21 };
            history.note(&at(100_000 + second * 1_000, &[power, 0x1]).node());
        }
        // The window holds the last ten samples: seconds 10 to 19.
        assert_eq!(history.counts()[0], [10, 0, 0, 0, 0, 10, 0, 0, 0]);
        assert_eq!(history.counts()[1], [10, 0, 0, 0, 0, 0, 0, 0, 0]);
        history.note(&at(124_500, &[0, 0]).node());
        assert_eq!(history.counts()[0][0], 5);
    }

    #[test]
    fn samples_keep_their_distance() {
        let mut history = ClockHistory::new(60_000, 30_000);
        for second in 0..=59u64 {
            history.note(&at(second * 1_000, &[1]).node());
        }
        assert_eq!(history.counts()[0][0], 2);
        // A day in steps of a second would be more than is kept.
        let mut day = ClockHistory::new(86_400_000, 1);
        for second in 0..3_600u64 {
            day.note(&at(second * 1_000, &[1]).node());
        }
        assert!(day.counts()[0][0] <= 172, "{:?}", day.counts()[0]);
    }

    #[test]
    fn another_run_begins_anew() {
        let mut history = ClockHistory::new(10_000, 1_000);
        history.note(&at(50_000, &[1, 1]).node());
        history.note(&at(1_000, &[1, 1]).node());
        assert_eq!(history.counts()[0][0], 1);
        history.note(&at(2_000, &[1]).node());
        assert_eq!(history.counts().len(), 1);
        assert_eq!(history.counts()[0][0], 1);
        assert!(ClockHistory::new(0, 0).counts().is_empty());
    }
}
