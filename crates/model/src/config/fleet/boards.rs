//! Boards and drivers by name, each made once and shared.

use std::collections::HashMap;
use std::sync::Arc;

use crate::board::Board;
use crate::catalogue;
use crate::plan::Driver;
use crate::quantity::clip;
use crate::yaml::{Problem, Span};

/// Boards and drivers met so far.
#[derive(Default)]
pub(in crate::config) struct Boards {
    boards: HashMap<(String, Option<u64>), Arc<Board>>,
    drivers: HashMap<(String, (u32, u32)), Arc<Driver>>,
}

impl Boards {
    /// The model called `name`, with this memory (in bytes) instead of its own.
    pub(in crate::config) fn find(
        &mut self,
        name: &str,
        memory: Option<u64>,
        at: Span,
        problems: &mut Vec<Problem>,
    ) -> Option<Arc<Board>> {
        if let Some(board) = self.boards.get(&(name.to_string(), memory)) {
            return Some(board.clone());
        }
        let Some(board) = catalogue::find(name) else {
            let problem = Problem::new(at, format!("unknown model `{}`", clip(name)));
            problems.push(match catalogue::nearest(name) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("`mirage models` lists those there are"),
            });
            return None;
        };
        let board = self.resize(&board, memory);
        self.boards
            .insert((name.to_string(), memory), board.clone());
        Some(board)
    }

    /// The same board with this memory (in bytes), where one is given.
    pub(in crate::config) fn resize(
        &mut self,
        board: &Arc<Board>,
        memory: Option<u64>,
    ) -> Arc<Board> {
        let Some(mib) = memory.map(|bytes| bytes >> 20) else {
            return board.clone();
        };
        if mib == board.memory_total_mib {
            return board.clone();
        }
        let key = (format!("{} resized", board.key), memory);
        let make = || Arc::new(board.with_memory_mib(mib));
        self.boards.entry(key).or_insert_with(make).clone()
    }

    /// The driver of a node with this board, unless versions are given.
    pub(in crate::config) fn driver(
        &mut self,
        board: &Board,
        version: Option<&str>,
        cuda: Option<&str>,
    ) -> Arc<Driver> {
        let version = version.unwrap_or(&board.driver_version).to_string();
        let cuda = cuda_version(cuda.unwrap_or(&board.cuda_version));
        self.drivers
            .entry((version.clone(), cuda))
            .or_insert_with(|| Arc::new(Driver { version, cuda }))
            .clone()
    }
}

/// `12.4` as its two numbers.
fn cuda_version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
