//! Another container runtime: the next generation of containerd, which comes with NRI and CDI on, and calls plugins by other names.

use anyhow::Result;

use super::{Stage, hook, share};
use crate::e2e::node::Runtime;

/// The hook, and devices by CDI, are the same there; tidying up goes back to the usual one.
pub(super) fn containerd_2(stage: &mut Stage) -> Result<()> {
    stage.node.use_runtime(Runtime::Second, &stage.cluster)?;
    hook::koordinator(stage)?;
    stage.cluster.no_gpus()?;
    share::cdi(stage)
}
