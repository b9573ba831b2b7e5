//! A running fleet: its plan, and the MIG devices it has by now, which may be others.

use std::fmt;
use std::sync::Arc;

use crate::plan::{DeviceRef, Plan};

/// The MIG devices there are now.
pub trait MigDevices: fmt::Debug {
    /// How many a GPU has; they are counted from 0.
    fn count(&self, node: u32, gpu: u32) -> u32;
    /// The one with this id, whatever the case of its letters.
    fn find(&self, id: &str) -> Option<DeviceRef>;
}

/// What selectors are looked up in while a fleet runs. From a plan alone, MIG devices
/// nobody knows of are taken on trust.
#[derive(Debug, Clone, Copy)]
pub struct Running<'p> {
    pub(crate) plan: &'p Plan,
    pub(super) mig: Option<&'p dyn MigDevices>,
}

impl<'p> Running<'p> {
    /// A fleet whose MIG devices are known.
    pub fn new(plan: &'p Plan, mig: &'p dyn MigDevices) -> Self {
        let mig = Some(mig);
        Self { plan, mig }
    }
}

impl<'p> From<&'p Plan> for Running<'p> {
    fn from(plan: &'p Plan) -> Self {
        Self { plan, mig: None }
    }
}

impl<'p> From<&'p Arc<Plan>> for Running<'p> {
    fn from(plan: &'p Arc<Plan>) -> Self {
        Self::from(&**plan)
    }
}
