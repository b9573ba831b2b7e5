//! The node that every library carries for machines without a state file: 8 × A100-SXM4-40GB, idle.

use crate::{Fault, Reader};

/// Written by the publisher that writes all nodes; a test of the binary keeps it in step.
static BUILT_IN: &[u8] = include_bytes!("../data/default.state");

/// Reads the built-in node.
pub fn built_in() -> Result<Reader, Fault> {
    Reader::from_static(BUILT_IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Freshness, layout::text};

    #[test]
    fn it_is_eight_idle_gpus() {
        let node = built_in().unwrap();
        assert_eq!(node.gpus(), 8);
        assert_eq!(text(&node.board(7).unwrap().name), "NVIDIA A100-SXM4-40GB");
        assert_eq!(node.freshness(1), Freshness::Static);
    }
}
