//! How large a config may be. Every refusal names the limit it met.

/// Longest id of a device: what the published state can hold.
pub const MAX_ID: usize = 47;
/// Longest serial number: what the published state can hold.
pub const MAX_SERIAL: usize = 15;
/// Most GPUs on one node.
pub const MAX_GPUS_PER_NODE: usize = 128;
/// Most nodes in a fleet.
pub const MAX_NODES: usize = 100_000;
/// Most GPUs in a fleet.
pub const MAX_GPUS: usize = 1_000_000;
/// Most workloads in a config.
pub const MAX_WORKLOADS: usize = 100_000;
/// Most faults in a config.
pub const MAX_FAULTS: usize = 100_000;
/// Most steps in one activity.
pub const MAX_STEPS: usize = 10_000;
/// Most runs of an activity that ends.
pub const MAX_REPEAT: u64 = 1_000_000_000;
/// Most devices that all workloads and faults name together.
pub const MAX_DEVICE_USES: usize = 4_000_000;
