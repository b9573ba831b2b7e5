//! What is remembered: samples, accounted processes, retired pages; and the states of a machine at rest.

use super::lists::grow;
use super::{Device, Nvml, Result, check};
use crate::abi::{AccountingStats, ConfidentialCaps, ConfidentialState, Sample};
use crate::exports;

impl Device {
    /// Samples of a reading, by NVML's number of it, oldest first: microseconds and values.
    pub fn samples(self, kind: u32) -> Result<Vec<Sample>> {
        let mut value_kind = 0;
        grow(|count, to| {
            exports::nvmlDeviceGetSamples(self.0, kind, 0, &raw mut value_kind, count, to)
        })
    }

    /// Processes that accounting remembers, running ones too, with their numbers.
    pub fn accounted(self) -> Result<Vec<(u32, AccountingStats)>> {
        let pids = grow(|count, to| exports::nvmlDeviceGetAccountingPids(self.0, count, to))?;
        let mut found = Vec::with_capacity(pids.len());
        for pid in pids {
            let mut stats = AccountingStats::default();
            // One that is gone by now is no longer there to tell of.
            if exports::nvmlDeviceGetAccountingStats(self.0, pid, &raw mut stats) == 0 {
                found.push((pid, stats));
            }
        }
        Ok(found)
    }

    /// Addresses of pages retired for single-bit errors (0) or for a double-bit error (1).
    pub fn retired_pages(self, cause: u32) -> Result<Vec<u64>> {
        grow(|count, to| exports::nvmlDeviceGetRetiredPages(self.0, cause, count, to))
    }

    /// Whether no new work reaches the GPU.
    pub fn draining(self) -> Result<bool> {
        let (mut place, mut state) = (self.pci()?, 0);
        check(exports::nvmlDeviceQueryDrainState(
            &raw mut place,
            &raw mut state,
        ))?;
        Ok(state != 0)
    }

    /// Keeps new work away from the GPU, or no longer.
    pub fn drain(self, on: bool) -> Result<()> {
        let mut place = self.pci()?;
        check(exports::nvmlDeviceModifyDrainState(
            &raw mut place,
            on.into(),
        ))
    }
}

impl Nvml {
    /// What processor and GPUs could do for confidential computing.
    pub fn confidential_caps(&self) -> Result<ConfidentialCaps> {
        let mut caps = ConfidentialCaps::default();
        check(exports::nvmlSystemGetConfComputeCapabilities(&raw mut caps))?;
        Ok(caps)
    }

    /// Whether confidential computing is on.
    pub fn confidential_state(&self) -> Result<ConfidentialState> {
        let mut state = ConfidentialState::default();
        check(exports::nvmlSystemGetConfComputeState(&raw mut state))?;
        Ok(state)
    }

    /// Whether the GPUs accept work under confidential computing.
    pub fn confidential_ready(&self) -> Result<bool> {
        let mut ready = 0;
        check(exports::nvmlSystemGetConfComputeGpusReadyState(
            &raw mut ready,
        ))?;
        Ok(ready != 0)
    }
}
