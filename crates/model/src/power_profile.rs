//! Workload power profiles: pre-tuned compromises between speed and power that Blackwell boards offer and people ask
//! for by name. The table is `data/power-profiles.csv`; which of them a board has is a figure of its model.

use std::sync::LazyLock;

static TEXT: &str = include_str!("../data/power-profiles.csv");
static TABLE: LazyLock<Vec<PowerProfile>> =
    LazyLock::new(|| TEXT.lines().filter_map(row).collect());

/// One profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerProfile {
    /// NVML's number, below 32.
    pub id: u32,
    /// `llm-inference`.
    pub name: &'static str,
    /// Of two that conflict the lower one wins.
    pub priority: u8,
    /// A bit per profile it cannot go with.
    pub conflicts: u32,
    /// Share of the highest SM clock it leaves.
    pub sm_percent: u32,
}

/// All there are.
pub fn all() -> &'static [PowerProfile] {
    &TABLE
}

/// The profile of a name.
pub fn by_name(name: &str) -> Option<&'static PowerProfile> {
    TABLE.iter().find(|profile| profile.name == name)
}

/// Those of `offered` that are in force when `requested` (a bit each) are asked for: the lower priority first, whatever does not
/// conflict with what is in force already.
pub fn enforced(offered: &[&PowerProfile], requested: u32) -> u32 {
    let mut asked: Vec<_> = offered
        .iter()
        .filter(|p| requested >> p.id & 1 != 0)
        .collect();
    asked.sort_by_key(|profile| (profile.priority, profile.id));
    asked.iter().fold(0, |in_force, profile| {
        if in_force & profile.conflicts == 0 {
            in_force | 1 << profile.id
        } else {
            in_force
        }
    })
}

/// A row of the table; `None` for comments and the heading.
fn row(line: &'static str) -> Option<PowerProfile> {
    let cells: Vec<&'static str> = line.split(',').collect();
    let [id, name, priority, conflicts, sm_percent] = cells[..] else {
        return None;
    };
    let bit = |id: &str| 1_u32.checked_shl(id.parse().ok()?);
    let mut conflicts = conflicts.split_whitespace().map(bit);
    Some(PowerProfile {
        id: id.parse().ok().filter(|&id| id < 32)?,
        name,
        priority: priority.parse().ok()?,
        conflicts: conflicts.try_fold(0, |all, bit| Some(all | bit?))?,
        sm_percent: sm_percent.parse().ok().filter(|p| (1..=100).contains(p))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(names: &[&str]) -> u32 {
        names.iter().fold(0, |all, name| {
            all | 1 << by_name(name).expect("a profile").id
        })
    }

    #[test]
    fn every_row_is_read_and_conflicts_are_mutual() {
        let rows = TEXT
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(all().len(), rows.count());
        for profile in all() {
            for other in all() {
                let (there, back) = (
                    profile.conflicts >> other.id & 1,
                    other.conflicts >> profile.id & 1,
                );
                assert_eq!(there, back, "{} and {}", profile.name, other.name);
            }
        }
    }

    #[test]
    fn of_two_that_conflict_the_lower_priority_value_is_in_force() {
        let offered: Vec<_> = all().iter().collect();
        let of = |names: &[&str]| enforced(&offered, bits(names));
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&["max-q"]), bits(&["max-q"]));
        assert_eq!(of(&["balanced", "max-p"]), bits(&["max-p"]));
        assert_eq!(of(&["balanced", "hpc"]), bits(&["balanced", "hpc"]));
        assert_eq!(enforced(&[], u32::MAX), 0, "a board without profiles");
    }
}
