//! The time of a sample in the ways `nvidia-smi` writes it, all of them local time.

use std::time::{SystemTime, UNIX_EPOCH};

use nvidia_ml::client::{LocalTime, local_time};

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    time: LocalTime,
    millis: u32,
}

impl Stamp {
    pub(super) fn now() -> Stamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Stamp {
            time: local_time(since.as_secs() as i64),
            millis: since.subsec_millis(),
        }
    }

    /// `Mon Nov 18 09:06:33 2024`.
    pub(super) fn long(self) -> String {
        let LocalTime {
            year, day, weekday, ..
        } = self.time;
        let weekday = DAYS.get(weekday as usize).copied().unwrap_or("???");
        let month = MONTHS.get(self.time.month as usize - 1).copied();
        let month = month.unwrap_or("???");
        format!("{weekday} {month} {day:2} {} {year}", self.clock())
    }

    /// `2024/11/18 09:06:33.412`.
    pub(super) fn precise(self) -> String {
        let LocalTime {
            year, month, day, ..
        } = self.time;
        let (clock, millis) = (self.clock(), self.millis);
        format!("{year:04}/{month:02}/{day:02} {clock}.{millis:03}")
    }

    /// `20241118`.
    pub(super) fn date(self) -> String {
        let LocalTime {
            year, month, day, ..
        } = self.time;
        format!("{year:04}{month:02}{day:02}")
    }

    /// `09:06:33`.
    pub(super) fn clock(self) -> String {
        let LocalTime {
            hour,
            minute,
            second,
            ..
        } = self.time;
        format!("{hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_each_way() {
        let stamp = Stamp {
            time: LocalTime {
                year: 2024,
                month: 7,
                day: 4,
                hour: 9,
                minute: 6,
                second: 3,
                weekday: 4,
            },
            millis: 7,
        };
        assert_eq!(stamp.long(), "Thu Jul  4 09:06:03 2024");
        assert_eq!(stamp.precise(), "2024/07/04 09:06:03.007");
        assert_eq!(stamp.date(), "20240704");
    }
}
