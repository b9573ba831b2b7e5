//! A line per GPU and sample.

use std::io::Write;

use anyhow::Result;
use mirage_state::layout::{text, valid};

use super::Offline;

const COLUMNS: &str = "time_s,node,gpu,uuid,model,utilization_percent,memory_utilization_percent,\
    memory_used_mib,temperature_c,memory_temperature_c,power_w,power_limit_w,energy_j,\
    sm_clock_mhz,memory_clock_mhz,performance_state,throttle_reasons,xid,flags";

pub(super) fn header(out: &mut impl Write) -> Result<()> {
    writeln!(out, "{COLUMNS}")?;
    Ok(())
}

/// What a board cannot tell is empty. Numbers are made from integers, so they look the same
/// everywhere.
pub(super) fn sample(offline: &Offline, out: &mut impl Write) -> Result<()> {
    for image in &offline.nodes {
        let node = image.node();
        let time = thousandths(node.facts.sim_ms);
        for (index, (card, live)) in node.cards.iter().zip(node.lives).enumerate() {
            let has = |bit| live.valid & bit != 0;
            let when = |is: bool, value: String| if is { value } else { String::new() };
            let model = node.board(card).map_or("", |board| text(&board.key));
            writeln!(
                out,
                "{time},{},{index},{},{model},{},{},{},{},{},{},{},{},{},{},{},{:#x},{},{:#x}",
                node.name,
                text(&card.uuid),
                when(has(valid::UTILIZATION), live.gpu_percent.to_string()),
                when(has(valid::UTILIZATION), live.memory_percent.to_string()),
                live.memory_used >> 20,
                live.temperature_c,
                when(
                    has(valid::MEMORY_TEMPERATURE),
                    live.memory_temperature_c.to_string()
                ),
                thousandths(live.power_mw.into()),
                thousandths(live.enforced_limit_mw.into()),
                when(has(valid::ENERGY), thousandths(live.energy_mj)),
                live.sm_mhz,
                live.mem_mhz,
                live.pstate,
                live.reasons,
                when(has(valid::XID), live.xid.to_string()),
                live.flags,
            )?;
        }
    }
    Ok(())
}

/// A count of thousandths as a decimal number.
pub(super) fn thousandths(count: u64) -> String {
    format!("{}.{:03}", count / 1000, count % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_as_many_values_as_columns() {
        assert_eq!(thousandths(61_005), "61.005");
        assert_eq!(COLUMNS.split(',').count(), 19);
        assert!(!COLUMNS.contains(' '));
    }
}
