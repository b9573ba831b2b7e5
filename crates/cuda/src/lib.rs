//! `libcuda.so.1`: the CUDA driver as far as it can be had without hardware. It counts and describes devices from the
//! same state as NVML; whatever would run something answers `CUDA_ERROR_NOT_SUPPORTED`.
//!
//! `symbols.csv` lists every function of the public headers: the name, the name a program asks `cuGetProcAddress` for, the
//! CUDA version it came with, and whether it is answered here. The library is a guest in other people's processes: no
//! threads, no signal handlers, no output.

mod attribute;
pub mod code;
mod device;
mod entry;
mod exports;
mod guard;
mod order;
mod session;

pub use exports::*;
