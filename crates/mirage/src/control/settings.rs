//! Settings as people write them: `power-limit 250W`, `clocks 210-1410`, `fan auto`.

use mirage_model::power_profile;
use mirage_sim::{Change, EccScope, Setting};

use super::Problem;
use super::request::shorten;

/// The settings there are, each with an example of its value.
pub(super) const SETTINGS: &[(&str, &str)] = &[
    ("power-limit", "250W, 250000mW or default"),
    ("clocks", "210-1410 (MHz), 1410 or default"),
    ("memory-clocks", "405-1215 (MHz), 1215 or default"),
    ("application-clocks", "1215,1410 (memory, SM) or default"),
    ("fan", "60% or auto; 1:60% for the second fan"),
    ("persistence", "on or off"),
    ("cooling", "1 is sound, 2 twice the thermal resistance"),
    ("ecc", "on or off, after the next reset"),
    ("ecc-clear", "volatile or aggregate"),
    ("compute-mode", "default, prohibited or exclusive-process"),
    ("accounting", "on, off or clear"),
    (
        "workload-profiles",
        "max-q, several as in max-q,hpc, or none",
    ),
    ("auto-boost", "on or off (Kepler)"),
];

/// The setting a name and a value mean.
pub(super) fn setting(name: &str, value: &str) -> Result<Setting, Problem> {
    let value = value.trim();
    let read = match name {
        "power-limit" => power(value).map(Setting::PowerLimit),
        "clocks" => range(value).map(Setting::LockedClocks),
        "memory-clocks" => range(value).map(Setting::LockedMemoryClocks),
        "application-clocks" => pair(value).map(Setting::ApplicationClocks),
        "fan" => fan(value),
        "persistence" => switch(value).map(Setting::Persistence),
        "cooling" => value
            .parse()
            .ok()
            .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
            .map(Setting::Cooling),
        "ecc" => switch(value).map(Setting::EccMode),
        "ecc-clear" => match value {
            "volatile" => Some(Setting::EccClear(EccScope::Volatile)),
            "aggregate" => Some(Setting::EccClear(EccScope::Aggregate)),
            _ => None,
        },
        "compute-mode" => match value {
            "default" => Some(Setting::ComputeMode(0)),
            "prohibited" => Some(Setting::ComputeMode(2)),
            "exclusive-process" => Some(Setting::ComputeMode(3)),
            _ => None,
        },
        "accounting" => match value {
            "clear" => Some(Setting::AccountingClear),
            _ => switch(value).map(Setting::Accounting),
        },
        "workload-profiles" => {
            profiles(value).map(|mask| Setting::WorkloadProfiles(Change::Replace, mask))
        }
        "auto-boost" => switch(value).map(Setting::AutoBoost),
        _ => {
            let names: Vec<_> = SETTINGS.iter().map(|(name, _)| *name).collect();
            return Err(Problem::invalid(format!(
                "unknown setting `{}`; there are: {}",
                shorten(name),
                names.join(", ")
            )));
        }
    };
    read.ok_or_else(|| {
        let example = SETTINGS.iter().find(|(known, _)| *known == name);
        let example = example.map_or("", |(_, example)| example);
        Problem::invalid(format!(
            "{name}: `{}` is no value for it; write {example}",
            shorten(value)
        ))
    })
}

/// Workload power profiles by name, as a bit each.
fn profiles(value: &str) -> Option<u32> {
    if value == "none" {
        return Some(0);
    }
    let mut names = value.split(',').map(str::trim);
    names.try_fold(0, |all, name| {
        Some(all | 1 << power_profile::by_name(name)?.id)
    })
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Milliwatts, or the default.
fn power(value: &str) -> Option<Option<u32>> {
    if value == "default" {
        return Some(None);
    }
    let (number, scale) = match value.strip_suffix("mW") {
        Some(number) => (number, 1.0),
        None => (value.strip_suffix('W').unwrap_or(value), 1e3),
    };
    let milliwatts = number.trim().parse::<f64>().ok()? * scale;
    let fits = (0.0..=f64::from(u32::MAX)).contains(&milliwatts);
    fits.then(|| Some(milliwatts.round() as u32))
}

/// A range of MHz, or the default.
fn range(value: &str) -> Option<Option<(u32, u32)>> {
    if value == "default" {
        return Some(None);
    }
    let value = value.strip_suffix("MHz").unwrap_or(value);
    let (low, high) = value.split_once('-').unwrap_or((value, value));
    Some(Some((low.trim().parse().ok()?, high.trim().parse().ok()?)))
}

/// Memory and SM clock, or the defaults.
fn pair(value: &str) -> Option<Option<(u32, u32)>> {
    if value == "default" {
        return Some(None);
    }
    let (memory, sm) = value.split_once(',')?;
    Some(Some((memory.trim().parse().ok()?, sm.trim().parse().ok()?)))
}

fn fan(value: &str) -> Option<Setting> {
    let (fan, value) = match value.split_once(':') {
        Some((fan, value)) => (fan.trim().parse().ok()?, value.trim()),
        None => (0, value),
    };
    if value == "auto" {
        return Some(Setting::FanDefault { fan });
    }
    let percent = value.strip_suffix('%').unwrap_or(value).trim();
    let percent = percent.parse().ok()?;
    Some(Setting::FanSpeed { fan, percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_written() {
        let ok = |name, value| setting(name, value).unwrap();
        assert_eq!(
            ok("power-limit", "250W"),
            Setting::PowerLimit(Some(250_000))
        );
        assert_eq!(
            ok("power-limit", "250000mW"),
            Setting::PowerLimit(Some(250_000))
        );
        assert_eq!(
            ok("power-limit", "300.5"),
            Setting::PowerLimit(Some(300_500))
        );
        assert_eq!(ok("power-limit", "default"), Setting::PowerLimit(None));
        assert_eq!(
            ok("clocks", "210-1410"),
            Setting::LockedClocks(Some((210, 1410)))
        );
        assert_eq!(
            ok("clocks", "900MHz"),
            Setting::LockedClocks(Some((900, 900)))
        );
        assert_eq!(
            ok("application-clocks", "1215,1410"),
            Setting::ApplicationClocks(Some((1215, 1410)))
        );
        assert_eq!(
            ok("fan", "60%"),
            Setting::FanSpeed {
                fan: 0,
                percent: 60
            }
        );
        assert_eq!(ok("fan", "1:auto"), Setting::FanDefault { fan: 1 });
        assert_eq!(ok("cooling", "2.5"), Setting::Cooling(2.5));
        assert_eq!(ok("accounting", "clear"), Setting::AccountingClear);
        let profiles = |mask| Setting::WorkloadProfiles(Change::Replace, mask);
        assert_eq!(ok("workload-profiles", "max-q, hpc"), profiles(0x2002));
        assert_eq!(ok("workload-profiles", "none"), profiles(0));
        assert_eq!(ok("auto-boost", "off"), Setting::AutoBoost(false));
    }

    #[test]
    fn hostile_values_are_refused_with_an_example() {
        for (name, _) in SETTINGS {
            for value in [
                "",
                "NaN",
                "-1",
                "1e300",
                "inf",
                "99999999999999999999",
                "x:y",
            ] {
                if let Ok(Setting::FanSpeed { .. }) = setting(name, value) {
                    panic!("{name} {value}");
                }
                if let Err(problem) = setting(name, value) {
                    assert!(problem.message.contains("; write "), "{}", problem.message);
                }
            }
        }
        let problem = setting("colour", "red").unwrap_err();
        assert!(problem.message.contains("there are: power-limit"));
    }
}
