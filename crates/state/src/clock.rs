//! The one clock that compares across processes and containers, and which boot it counts from.

/// `CLOCK_BOOTTIME` in nanoseconds.
pub fn boottime_ns() -> u64 {
    read_ns(libc::CLOCK_BOOTTIME)
}

/// A clock that is some milliseconds behind and costs a fifth of the others: for telling whether it is time to ask them.
#[inline]
pub fn coarse_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC_COARSE)
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec for the call to fill; it keeps no reference.
    let answer = unsafe { libc::clock_gettime(clock, &mut now) };
    if answer != 0 {
        return 0;
    }
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// The kernel's boot id; zero where it cannot be read.
pub(crate) fn boot_id() -> [u8; 16] {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()
        .and_then(|text| parse_uuid(text.trim()))
        .unwrap_or_default()
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|&c| c != '-')
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let mut out = [0; 16];
    if digits.len() != 32 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_ids_are_uuids() {
        let id = parse_uuid("0102a0ff-0000-4000-8000-00000000000f").unwrap();
        assert_eq!((id[0], id[2], id[3], id[15]), (1, 0xa0, 0xff, 15));
        assert_eq!(parse_uuid("0102"), None);
        assert_eq!(parse_uuid("zz02a0ff-0000-4000-8000-00000000000f"), None);
    }

    #[test]
    fn clocks_do_not_run_backwards() {
        for clock in [boottime_ns, coarse_ns] {
            let first = clock();
            assert!(first > 0);
            assert!(clock() >= first);
        }
    }
}
