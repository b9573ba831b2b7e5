//! `-d`: which parts of the report are wanted.

use crate::Stop;

/// A part of the report. Some lines belong to none and show only in the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    None,
    Memory,
    Utilization,
    Ecc,
    Temperature,
    Power,
    Clock,
    Compute,
    Pids,
    Performance,
    SupportedClocks,
    PageRetirement,
    Accounting,
    EncoderStats,
    TargetTemperature,
    Voltage,
    FbcStats,
    RowRemapper,
    ResetStatus,
    GspFirmware,
    PowerSmoothing,
    PowerProfiles,
    // Show beside the part they belong to, if that was asked for by name.
    UtilizationSamples,
    PowerSamples,
    ClockSamples,
}

const NAMES: [(&str, Part); 21] = [
    ("MEMORY", Part::Memory),
    ("UTILIZATION", Part::Utilization),
    ("ECC", Part::Ecc),
    ("TEMPERATURE", Part::Temperature),
    ("POWER", Part::Power),
    ("CLOCK", Part::Clock),
    ("COMPUTE", Part::Compute),
    ("PIDS", Part::Pids),
    ("PERFORMANCE", Part::Performance),
    ("SUPPORTED_CLOCKS", Part::SupportedClocks),
    ("PAGE_RETIREMENT", Part::PageRetirement),
    ("ACCOUNTING", Part::Accounting),
    ("ENCODER_STATS", Part::EncoderStats),
    ("SUPPORTED_GPU_TARGET_TEMP", Part::TargetTemperature),
    ("VOLTAGE", Part::Voltage),
    ("FBC_STATS", Part::FbcStats),
    ("ROW_REMAPPER", Part::RowRemapper),
    ("RESET_STATUS", Part::ResetStatus),
    ("GSP_FIRMWARE_VERSION", Part::GspFirmware),
    ("POWER_SMOOTHING", Part::PowerSmoothing),
    ("POWER_PROFILES", Part::PowerProfiles),
];

/// The parts that were asked for; none means the whole.
#[derive(Debug, Default)]
pub(crate) struct Sections(Vec<Part>);

impl Sections {
    pub(crate) fn parse(text: &str) -> Result<Sections, Stop> {
        let find = |name: &str| {
            let name = name.trim().to_ascii_uppercase();
            let found = NAMES.iter().find(|(known, _)| *known == name);
            found.map(|(_, part)| *part).ok_or_else(|| {
                let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                Stop::usage(format!(
                    "\"{name}\" is no part of the report. There are {known}."
                ))
            })
        };
        text.split(',')
            .map(find)
            .collect::<Result<_, _>>()
            .map(Sections)
    }

    pub(super) fn shows(&self, part: Part, xml: bool) -> bool {
        let sampled = match part {
            Part::UtilizationSamples => Some(Part::Utilization),
            Part::PowerSamples => Some(Part::Power),
            Part::ClockSamples => Some(Part::Clock),
            _ => None,
        };
        if let Some(sampled) = sampled {
            return self.0.contains(&sampled) && !xml;
        }
        // People see these only if they ask for them.
        let long = matches!(part, Part::SupportedClocks | Part::TargetTemperature);
        let on_demand = long && !xml;
        if self.0.is_empty() {
            !on_demand
        } else {
            self.0.contains(&part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_chosen_by_name() {
        let some = Sections::parse("memory,ECC").expect("known");
        assert!(some.shows(Part::Memory, false) && some.shows(Part::Ecc, true));
        assert!(!some.shows(Part::Power, true) && !some.shows(Part::None, false));
        let whole = Sections::default();
        assert!(whole.shows(Part::None, false) && whole.shows(Part::SupportedClocks, true));
        assert!(!whole.shows(Part::SupportedClocks, false));
        let power = Sections::parse("power").expect("known");
        assert!(power.shows(Part::PowerSamples, false) && !power.shows(Part::ClockSamples, false));
        assert!(!whole.shows(Part::PowerSamples, false));
    }
}
