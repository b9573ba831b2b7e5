//! MIG geometry: which GPU and compute instances a board can be cut into, and where.
//!
//! The tables are data (they come from the catalogue); [`placement`] decides where an
//! instance goes, and [`name`] how profiles are called.

pub mod name;
pub mod placement;
#[cfg(test)]
mod tests;

pub use placement::Placed;

/// All MIG tables of a board.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    /// Most instances at once.
    pub max_instances: u32,
    /// Memory slices placements count in (8; 4 on A30).
    pub memory_slices: u32,
    /// GPU-instance profiles.
    pub profiles: Vec<GpuProfile>,
}

/// One GPU-instance profile.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GpuProfile {
    /// `1g.5gb`, `1g.5gb+me`, ...
    pub name: String,
    /// `NVML_GPU_INSTANCE_PROFILE_*` index.
    pub index: u32,
    /// The id `nvidia-smi mig -lgip` prints.
    pub id: u32,
    pub slices: u32,
    pub memory_mib: u64,
    pub sm_count: u32,
    pub copy_engines: u32,
    pub decoders: u32,
    pub encoders: u32,
    pub jpeg_engines: u32,
    pub ofa_engines: u32,
    pub p2p: bool,
    pub max_instances: u32,
    /// Memory slices where it may begin.
    pub placement_starts: Vec<u32>,
    /// Memory slices it covers.
    pub placement_size: u32,
    /// Compute-instance profiles inside it.
    pub compute: Vec<ComputeProfile>,
}

/// One compute-instance profile of a GPU-instance profile.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ComputeProfile {
    /// `1g.5gb`, or `1c.2g.10gb` where it does not fill its GPU instance.
    pub name: String,
    /// `NVML_COMPUTE_INSTANCE_PROFILE_*` index.
    pub index: u32,
    pub id: u32,
    pub slices: u32,
    pub sm_count: u32,
    pub max_instances: u32,
    pub placement_starts: Vec<u32>,
    pub placement_size: u32,
    pub shared_copy_engines: u32,
    pub shared_decoders: u32,
    pub shared_encoders: u32,
    pub shared_jpeg_engines: u32,
    pub shared_ofa_engines: u32,
    /// It fills its GPU instance.
    pub whole: bool,
}
