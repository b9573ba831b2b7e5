//! A product name of any tool as a board of the catalogue, or the nearest there is.

use std::sync::Arc;

use super::Reading;
use crate::board::Board;
use crate::catalogue;
use crate::quantity::clip;
use crate::yaml::{Problem, Span};

/// fake-gpu-operator's profile names.
const PROFILES: &[(&str, &str)] = &[
    ("a100", "a100-sxm4-40gb"),
    ("h100", "h100-sxm5-80gb"),
    ("b200", "b200-sxm6-180gb"),
    ("gb200", "gb200"),
    ("gb300", "gb300"),
    ("l40s", "l40s"),
    ("t4", "t4"),
];

impl Reading<'_> {
    /// The board of a product (the default model when none is named) with this memory.
    pub(super) fn product(
        &mut self,
        product: Option<(&str, Span)>,
        memory_mib: Option<u64>,
        at: Span,
    ) -> Option<Arc<Board>> {
        let memory = memory_mib.map(|mib| mib << 20);
        let Some((name, span)) = product else {
            let model = self.defaults.model.as_str();
            return self.boards.find(model, memory, at, &mut self.problems);
        };
        let profile = PROFILES.iter().find(|(known, _)| *known == name);
        let known = profile.map_or(name, |(_, key)| key);
        if catalogue::find(known).is_some() {
            return self.boards.find(known, memory, span, &mut self.problems);
        }
        let near = nearest(name, memory_mib)?;
        let message = format!("`{}` is not in the catalogue", clip(name));
        let help = format!("simulated as `{}` under this name", near.key);
        self.warnings.push(Problem::new(span, message).help(help));
        let mut board = Board::clone(&self.boards.resize(&near, memory));
        // Names go to NVML buffers and label values; keep what both can carry.
        let safe: String = name
            .chars()
            .filter(|letter| letter.is_ascii_graphic())
            .take(63)
            .collect();
        board.name.clone_from(&safe);
        board.product = safe;
        Some(Arc::new(board))
    }
}

/// The board closest in memory; by name where no memory is given.
fn nearest(name: &str, memory_mib: Option<u64>) -> Option<Arc<Board>> {
    let Some(mib) = memory_mib else {
        let near = catalogue::nearest(name).and_then(catalogue::board);
        return near.or_else(|| catalogue::board("a100-sxm4-40gb"));
    };
    let boards = catalogue::keys().filter_map(catalogue::board);
    boards.min_by_key(|board| board.memory_total_mib.abs_diff(mib))
}
