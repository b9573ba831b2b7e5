//! The controller at scale: a real etcd and API server, 1,000 nodes, 5,000 pods. See [`crate::e2e`] for how they are run.

use anyhow::Result;

use super::Figures;
use crate::e2e;
use crate::shell::{self, cargo, target};

/// Measures with a released mirage, or the one at `MIRAGE_PROGRAM`.
pub(super) fn measure(figures: &mut Figures) -> Result<()> {
    let mirage = match std::env::var_os("MIRAGE_PROGRAM") {
        Some(program) => program.into(),
        None => {
            shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
            target().join("release/mirage")
        }
    };
    super::read(&e2e::measure(mirage)?, figures)
}
