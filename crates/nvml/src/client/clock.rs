//! Local time, which people read in timestamps and which takes the C library's zone rules to know.

use std::mem::MaybeUninit;

/// A moment in the zone of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the parts of a date")]
pub struct LocalTime {
    pub year: i32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// Days since Sunday.
    pub weekday: u32,
}

/// The local time at these seconds since 1970; a moment past the calendar's end reads as its beginning.
pub fn local_time(unix_s: i64) -> LocalTime {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to values of this frame; the function keeps neither.
    let done = unsafe { libc::localtime_r(&unix_s, parts.as_mut_ptr()) };
    if done.is_null() {
        return local_time(0);
    }
    // SAFETY: zeroed is a value of each field, and the call has filled them in.
    let parts = unsafe { parts.assume_init() };
    LocalTime {
        year: parts.tm_year.saturating_add(1900),
        month: parts.tm_mon as u32 + 1,
        day: parts.tm_mday as u32,
        hour: parts.tm_hour as u32,
        minute: parts.tm_min as u32,
        second: parts.tm_sec as u32,
        weekday: parts.tm_wday as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_name_wherever_one_is() {
        // Noon of a Monday in Greenwich is Monday or, at the far end of the Pacific, Tuesday.
        let time = local_time(1_731_931_200);
        assert_eq!((time.year, time.month), (2024, 11));
        assert_eq!(time.day - 18, time.weekday - 1);
        assert!((18..=19).contains(&time.day));
    }

    #[test]
    fn the_end_of_the_calendar_is_no_panic() {
        assert_eq!(local_time(i64::MAX), local_time(0));
    }
}
