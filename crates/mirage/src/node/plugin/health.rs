//! Which devices containers may be given: the health checks of NVIDIA's plugin, with a way back.
//!
//! An Xid that is not the application's fault makes its device unhealthy, and so does falling off the bus. Unlike the
//! real plugin, each device stands for itself (every MIG device and replica of a GPU turns, or only the instance the Xid
//! is about), and it becomes healthy again when what broke it heals. An Xid that leaves nothing behind keeps its device
//! away for [`QUIET`].

use std::collections::BTreeMap;
use std::time::Duration;

use mirage_model::xid;
use mirage_state::Image;
use mirage_state::layout::{event_kinds, flags};

/// How long a device stays away after an Xid that leaves nothing to heal.
const QUIET: Duration = Duration::from_secs(60);
/// The Xid of a GPU that fell off the bus.
const LOST: u64 = 79;
/// The Xid that announces what another one led to; it comes with healing too.
const ANNOUNCEMENT: u64 = 154;
/// "The whole" in ids of instances.
const WHOLE: u32 = u32::MAX;

/// Which Xids count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Checks {
    /// `Some(false)`: none but those listed; `Some(true)`: every one.
    all: Option<bool>,
    /// What was said about single ones.
    said: BTreeMap<u64, bool>,
}

impl Checks {
    /// From the lists of `DP_DISABLE_HEALTHCHECKS` and `DP_ENABLE_HEALTHCHECKS`; words that mean nothing are returned.
    pub(super) fn read(disabled: &str, enabled: &str) -> (Checks, Vec<String>) {
        let mut checks = Checks::default();
        let mut unknown = Vec::new();
        for (list, counts) in [(disabled, false), (enabled, true)] {
            for word in list
                .split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
            {
                match word.to_ascii_lowercase().as_str() {
                    "all" | "xids" => checks.all = Some(counts),
                    number => match number.parse() {
                        Ok(number) => _ = checks.said.insert(number, counts),
                        Err(_) => unknown.push(word.to_owned()),
                    },
                }
            }
        }
        (checks, unknown)
    }

    /// Whether an Xid makes a device unhealthy.
    fn counts(&self, number: u64) -> bool {
        if self.all == Some(true) {
            return true;
        }
        if let Some(counts) = self.said.get(&number) {
            return *counts;
        }
        if self.all == Some(false) || number == ANNOUNCEMENT {
            return false;
        }
        let row = u32::try_from(number).ok().and_then(xid::xid);
        !row.is_some_and(|row| row.ignored_by_plugin)
    }
}

/// What is unhealthy and why, from tick to tick.
#[derive(Debug, Default)]
pub(super) struct Sick {
    checks: Checks,
    /// The last event that was looked at.
    seen: u64,
    /// GPU, GPU instance and compute instance of devices that an Xid struck.
    struck: BTreeMap<(u32, u32, u32), Struck>,
    lost: Vec<bool>,
}

#[derive(Debug)]
struct Struck {
    unix_ms: u64,
    /// Something was broken beside it: it heals when that does.
    lasting: bool,
}

impl Sick {
    pub(super) fn new(checks: Checks) -> Self {
        Self {
            checks,
            ..Self::default()
        }
    }

    /// Looks at what is published. `broken` are the GPUs with a fault that is still there.
    pub(super) fn look(&mut self, image: &Image, broken: &[u32]) {
        let mut new: Vec<_> = image
            .events
            .iter()
            .filter(|event| event.number > self.seen && event.kind == event_kinds::XID)
            .collect();
        new.sort_unstable_by_key(|event| event.number);
        for event in new {
            if self.checks.counts(event.data) {
                let struck = Struck {
                    unix_ms: event.unix_ms,
                    lasting: false,
                };
                self.struck.insert((event.gpu, event.gi, event.ci), struck);
            }
        }
        self.seen = self.seen.max(image.header.event_head);
        let now = image.header.unix_ms;
        let quiet = u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
        self.struck.retain(|(gpu, _, _), struck| {
            if broken.contains(gpu) {
                struck.lasting = true;
                return true;
            }
            !struck.lasting && now < struck.unix_ms.saturating_add(quiet)
        });
        let counts = self.checks.counts(LOST);
        let lost = |live: &mirage_state::layout::Live| counts && live.flags & flags::LOST != 0;
        self.lost = image.lives.iter().map(lost).collect();
    }

    /// Whether a GPU, or one instance of it, may be given to containers.
    pub(super) fn is_healthy(&self, gpu: u32, instance: Option<(u32, u32)>) -> bool {
        if self.lost.get(gpu as usize).copied().unwrap_or(false) {
            return false;
        }
        !self.struck.keys().any(|&(struck, gi, ci)| {
            let same = |of: u32, mine: u32| of == WHOLE || of == mine;
            // A whole GPU has whatever happens in a part of it.
            struck == gpu && instance.is_none_or(|mine| same(gi, mine.0) && same(ci, mine.1))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mirage_state::layout::{Card, Event, Live};

    use super::*;

    fn image(events: &[(u32, u32, u64)], unix_ms: u64) -> Image {
        let mut image = Image {
            cards: Arc::from(vec![Card::default(); 2]),
            lives: vec![Live::default(); 2],
            ..Image::default()
        };
        image.header.unix_ms = unix_ms;
        for &(gpu, gi, data) in events {
            image.header.event_head += 1;
            image.events.push(Event {
                number: image.header.event_head,
                kind: event_kinds::XID,
                data,
                unix_ms: 1000,
                gpu,
                gi,
                ci: if gi == WHOLE { WHOLE } else { 0 },
                reserved: 0,
            });
        }
        image
    }

    fn checks(disabled: &str, enabled: &str) -> Checks {
        let (checks, unknown) = Checks::read(disabled, enabled);
        assert!(unknown.is_empty());
        checks
    }

    #[test]
    fn lists_of_checks_are_nvidias() {
        let usual = checks("", "");
        for ignored in [13, 31, 43, 45, 68, 109, 154] {
            assert!(!usual.counts(ignored), "{ignored}");
        }
        for counts in [48, 63, 74, 79, 94, 95, 119, 9999] {
            assert!(usual.counts(counts), "{counts}");
        }
        assert!(!checks("48", "").counts(48));
        assert!(checks("48", "").counts(79));
        for none in [checks("all", ""), checks("XIDs", "")] {
            assert!(!none.counts(48) && !none.counts(79));
        }
        assert!(checks("all", "48").counts(48) && !checks("all", "48").counts(79));
        assert!(checks("", "13").counts(13));
        assert!(checks("48", "all").counts(48) && checks("", "xids").counts(31));
        assert_eq!(Checks::read("48,x", "").1, ["x"]);
    }

    #[test]
    fn a_device_is_well_when_what_broke_it_is() {
        let mut sick = Sick::default();
        sick.look(&image(&[(0, WHOLE, 48)], 1000), &[0]);
        assert!(!sick.is_healthy(0, None) && sick.is_healthy(1, None));
        assert!(!sick.is_healthy(0, Some((1, 0))));
        // However long it takes.
        sick.look(&image(&[(0, WHOLE, 48)], 1_000_000), &[0]);
        assert!(!sick.is_healthy(0, None));
        // Healing announces itself by another Xid.
        sick.look(&image(&[(0, WHOLE, 48), (0, WHOLE, 154)], 1_001_000), &[]);
        assert!(sick.is_healthy(0, None));
    }

    #[test]
    fn what_leaves_nothing_behind_passes() {
        let mut sick = Sick::default();
        sick.look(&image(&[(0, WHOLE, 63)], 1000), &[]);
        assert!(!sick.is_healthy(0, None));
        sick.look(&image(&[(0, WHOLE, 63)], 60_999), &[]);
        assert!(!sick.is_healthy(0, None));
        sick.look(&image(&[(0, WHOLE, 63)], 61_000), &[]);
        assert!(sick.is_healthy(0, None));
        // The application's own fault is nobody else's.
        sick.look(&image(&[(0, WHOLE, 63), (0, WHOLE, 31)], 62_000), &[]);
        assert!(sick.is_healthy(0, None));
    }

    #[test]
    fn an_instance_suffers_alone() {
        let mut sick = Sick::default();
        sick.look(&image(&[(1, 2, 48)], 1000), &[1]);
        assert!(!sick.is_healthy(1, Some((2, 0))));
        assert!(sick.is_healthy(1, Some((3, 0))) && sick.is_healthy(1, Some((2, 1))));
        assert!(!sick.is_healthy(1, None));
    }

    #[test]
    fn a_lost_gpu_is_away_until_it_is_back() {
        let mut lost = image(&[], 0);
        lost.lives[1].flags |= flags::LOST;
        let mut sick = Sick::default();
        sick.look(&lost, &[]);
        assert!(sick.is_healthy(0, None) && !sick.is_healthy(1, None));
        sick.look(&image(&[], 0), &[]);
        assert!(sick.is_healthy(1, None));
        let mut blind = Sick::new(checks("79", ""));
        blind.look(&lost, &[]);
        assert!(blind.is_healthy(1, None));
    }
}
