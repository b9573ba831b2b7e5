//! The event ring of a node.

use mirage_sim::Event;
use mirage_state::Image;
use mirage_state::layout;

use super::Clock;

/// "None" in every id field.
const NONE: u32 = u32::MAX;

/// Writes an event over the oldest once the ring is full.
pub(super) fn append(image: &mut Image, event: &Event, clock: Clock, capacity: usize) {
    let Event {
        time,
        node: _,
        gpu,
        kind,
        data,
        gi,
        ci,
        // Kernel-log lines are kept with the fleet's events, not in the ring.
        message: _,
    } = event;
    let head = image.header.event_head;
    let record = layout::Event {
        number: head + 1,
        kind: kind.bit(),
        data: *data,
        unix_ms: clock.unix_ms(*time),
        gpu: *gpu,
        gi: gi.unwrap_or(NONE),
        ci: ci.unwrap_or(NONE),
        reserved: 0,
    };
    if image.events.len() < capacity {
        image.events.push(record);
    } else if let Some(slot) = usize::try_from(head % capacity.max(1) as u64)
        .ok()
        .and_then(|at| image.events.get_mut(at))
    {
        *slot = record;
    }
    image.header.event_head = head + 1;
}
