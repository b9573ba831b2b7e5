//! What the active faults of a device add up to: lost, hung, hot, slow to answer.

use std::time::Duration;

use mirage_model::plan::{DeviceRef, Fault};
use mirage_model::xid::{Effect, Recovery};

use super::{ANNOUNCEMENT, row};
use crate::event::EventKind;
use crate::gpu::Ailments;
use crate::world::World;

/// NVML calls on a device whose firmware does not answer.
const SLOW_API: Duration = Duration::from_secs(5);

impl World {
    /// Derives from the active faults what ails the device, and reports a changed recovery action.
    /// `announce`: a changed action is an Xid of its own, on drivers that know it.
    pub(super) fn refresh(&mut self, device: DeviceRef, now: Duration, announce: bool) {
        let device = DeviceRef {
            instance: None,
            ..device
        };
        let Some(gpu) = self.gpu(device) else { return };
        let board = gpu.board.clone();
        let old_action = gpu.readings.recovery_action;
        let mut sum = Sum::default();
        for fault in self.faults.of(device) {
            sum.add(&fault.fault);
            if let Some(row) = row(&fault.fault, &board) {
                sum.action = sum.action.max(row.recovery as u8);
                row.effects
                    .iter()
                    .for_each(|effect| sum.add_effect(*effect));
            }
        }
        let Some(gpu) = self.gpu_mut(device) else {
            return;
        };
        let was_hung = gpu.readings.hung;
        let r = &mut gpu.readings;
        r.lost = sum.lost;
        r.hung = sum.hung && !sum.lost;
        r.api_delay_ms = u32::try_from(sum.delay.as_millis()).unwrap_or(u32::MAX);
        r.api_code = sum.code;
        r.recovery_action = sum.action;
        r.reset_required = sum.action == Recovery::GpuReset as u8 || sum.ailments.refuses;
        gpu.ailments = sum.ailments;
        let is_hung = gpu.readings.hung;
        self.hung = self.hung + usize::from(is_hung) - usize::from(was_hung);
        let Some(node) = self.nodes.get(device.node as usize) else {
            return;
        };
        if old_action != sum.action && node.reports_recovery {
            let data = u64::from(sum.action);
            self.log_event(device, EventKind::Recovery, data, now, String::new());
            if announce {
                let what = format!(
                    "GPU recovery action changed from {} to {}",
                    action_name(old_action),
                    action_name(sum.action)
                );
                self.report_xid(device, ANNOUNCEMENT, now, Some(&what));
            }
        }
    }
}

/// A recovery action as the driver logs it.
fn action_name(action: u8) -> &'static str {
    match action {
        0 => "0x0 (None)",
        1 => "0x1 (GPU Reset Required)",
        _ => "0x2 (Node Reboot Required)",
    }
}

/// What the active faults of one device add up to.
#[derive(Default)]
struct Sum {
    ailments: Ailments,
    lost: bool,
    hung: bool,
    delay: Duration,
    code: u32,
    action: u8,
}

impl Sum {
    fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::Lost => self.lost = true,
            Fault::Hang => self.hung = true,
            Fault::LinkDown(mask) => self.ailments.links_down |= mask,
            Fault::Cooling(factor) => self.ailments.cooling *= *factor as f32,
            Fault::PowerBrake => self.ailments.brake = true,
            Fault::SlowApi(delay) => self.delay = self.delay.max(*delay),
            Fault::FailApi(code) => self.code = *code,
            Fault::Xid(_) | Fault::Ecc { .. } | Fault::RowRemap { .. } => {}
            Fault::DevicePlugin(_) => {}
        }
    }

    fn add_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Lost | Effect::Missing => self.lost = true,
            Effect::Hang => self.hung = true,
            Effect::LinkDown if self.ailments.links_down == 0 => self.ailments.links_down = 1,
            Effect::PowerBrake => self.ailments.brake = true,
            Effect::ClocksStuck => self.ailments.clocks_stuck = true,
            Effect::SlowApi => self.delay = self.delay.max(SLOW_API),
            Effect::RefuseWork => self.ailments.refuses = true,
            _ => {}
        }
    }
}
