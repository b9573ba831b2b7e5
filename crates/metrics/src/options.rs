//! How an exporter is run: the flags of the real ones that change its text.

use crate::Error;

/// Flags that change what is printed. The default is what dcgm-exporter does without any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Host name to print instead of the node's name.
    pub hostname: Option<String>,
    /// Leave the host name out.
    pub no_hostname: bool,
    /// The label names of 1.x (`uuid`, `pod_name`, …).
    pub old_namespace: bool,
    /// Join the words of a model name with `-`.
    pub replace_blanks_in_model_name: bool,
    /// Which GPUs and MIG instances are shown.
    pub devices: Devices,
    /// Which NVSwitches (`g`) and ports of theirs (`i`) are shown; both by default.
    pub switches: Devices,
    /// Which CPUs (`g`) and cores (`i`) are shown; both by default.
    pub cpus: Devices,
    /// Add container, namespace and pod of whoever holds a device.
    pub pods: bool,
    /// Add `pod_uid` to those.
    pub pod_uid: bool,
    /// One series for each pod that shares a device.
    pub virtual_gpus: bool,
    /// Window of `DCGM_EXP_XID_ERRORS_COUNT` in milliseconds.
    pub xid_window_ms: u64,
    /// Window of `DCGM_EXP_CLOCK_EVENTS_COUNT` in milliseconds.
    pub clock_window_ms: u64,
    /// Print Xid 0 for a GPU that never had one; the real exporter leaves such a series out.
    pub xid_zero: bool,
    /// Also show boards of makers the identity's exporter does not serve.
    pub any_vendor: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hostname: None,
            no_hostname: false,
            old_namespace: false,
            replace_blanks_in_model_name: false,
            devices: Devices::default(),
            switches: Devices::default(),
            cpus: Devices::default(),
            pods: false,
            pod_uid: false,
            virtual_gpus: false,
            xid_window_ms: 300_000,
            clock_window_ms: 300_000,
            xid_zero: false,
            any_vendor: false,
        }
    }
}

/// Which GPUs and MIG instances an exporter shows (`-d` of dcgm-exporter).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Devices {
    /// The instances of a GPU that has some, else the GPU (`f`).
    #[default]
    Flexible,
    /// Whole GPUs (`g`), of all indices or some.
    Gpus(Option<Vec<(u32, u32)>>),
    /// Instances (`i`), of all ids or some. The id of a GPU's n-th instance is `8 × gpu + n`.
    Instances(Option<Vec<(u32, u32)>>),
}

impl Devices {
    /// Whether the whole thing of a number (a switch, a CPU) is shown.
    pub(crate) fn has_whole(&self, number: u32) -> bool {
        match self {
            Devices::Flexible => true,
            Devices::Gpus(ranges) => holds(ranges.as_deref(), number),
            Devices::Instances(_) => false,
        }
    }

    /// Whether the part of a number (a port, a core) is shown.
    pub(crate) fn has_part(&self, number: u32) -> bool {
        match self {
            Devices::Flexible => true,
            Devices::Gpus(_) => false,
            Devices::Instances(ranges) => holds(ranges.as_deref(), number),
        }
    }

    /// Reads `f`, `g`, `g:0-3`, `i`, `i:0,2-4`.
    pub fn parse(text: &str) -> Result<Devices, Error> {
        let bad = |problem: String| Error::Devices {
            text: text.to_owned(),
            problem,
        };
        let (letter, ranges) = match text.split_once(':') {
            Some((letter, list)) => (letter, Some(ranges(list).map_err(bad)?)),
            None => (text, None),
        };
        match (letter, ranges) {
            ("f", None) => Ok(Devices::Flexible),
            ("f", Some(_)) => Err(bad("f takes no list".to_owned())),
            ("g", ranges) => Ok(Devices::Gpus(ranges)),
            ("i", ranges) => Ok(Devices::Instances(ranges)),
            (other, _) => Err(bad(format!("{other:?} is not a kind of device"))),
        }
    }
}

/// Reads `0,2-4` into inclusive ranges.
fn ranges(list: &str) -> Result<Vec<(u32, u32)>, String> {
    list.split(',')
        .map(|part| {
            let number = |text: &str| {
                text.trim()
                    .parse::<u32>()
                    .map_err(|_| format!("{text:?} is not a number"))
            };
            let (first, last) = match part.split_once('-') {
                Some((a, b)) => (number(a)?, number(b)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(format!("{part:?} runs backwards"));
            }
            Ok((first, last))
        })
        .collect()
}

/// Whether inclusive ranges hold a number; no list holds all.
pub(crate) fn holds(ranges: Option<&[(u32, u32)]>, n: u32) -> bool {
    ranges.is_none_or(|list| list.iter().any(|&(a, b)| (a..=b).contains(&n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_choices_read_as_the_real_flag() {
        assert_eq!(Devices::parse("f"), Ok(Devices::Flexible));
        assert_eq!(Devices::parse("g"), Ok(Devices::Gpus(None)));
        assert_eq!(
            Devices::parse("g:0-3"),
            Ok(Devices::Gpus(Some(vec![(0, 3)])))
        );
        assert_eq!(
            Devices::parse("i:0,2-4"),
            Ok(Devices::Instances(Some(vec![(0, 0), (2, 4)])))
        );
        for bad in [
            "",
            "x",
            "f:1",
            "g:",
            "g:3-1",
            "g:a",
            "i:1-",
            "g:99999999999",
        ] {
            let error = Devices::parse(bad).expect_err(bad).to_string();
            assert!(error.contains("write f, g"), "{error}");
        }
    }

    #[test]
    fn no_list_holds_all() {
        assert!(holds(None, 7));
        assert!(holds(Some(&[(0, 1), (5, 9)]), 7));
        assert!(!holds(Some(&[(0, 1)]), 7));
    }
}
