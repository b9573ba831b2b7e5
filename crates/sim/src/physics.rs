//! One GPU, one short stretch of time: load → clocks → power → temperature → throttling, and the
//! counters that integrate them. First-order everywhere; stable for stretches up to a second.

use std::time::Duration;

use mirage_model::board::{Board, Governor};

use crate::chance::{Channel, Noise};
use crate::gpu::Gpu;
use crate::load::{Load, ppm, ratios};
use crate::mig::Ratios;
use crate::readings::reasons;

mod dark;
mod traffic;

/// Below this load a device counts as idle.
const IDLE_BELOW: f64 = 0.01;
/// Power intensity of a kernel that spins without progress.
const HANG_INTENSITY: f64 = 0.35;
/// Degrees under the maximum operating temperature at which throttling ends.
const RELIEF_C: f64 = 2.0;
/// MHz per second the thermal governor moves, per degree on the way down.
const GOVERNOR_MHZ: f64 = 15.0;

/// What a stretch did that the world has to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing special.
    Fine,
    /// The P-state or a clock limit changed.
    Changed {
        /// P-state differs.
        pstate: bool,
        /// A limit began or ended.
        limits: bool,
    },
    /// It got too hot and switched itself off.
    Overheated,
}

/// Lets `dt` pass on `gpu` under `load`.
pub(crate) fn run(gpu: &mut Gpu, mut load: Load, noise: &Noise, dt: Duration) -> Outcome {
    let secs = dt.as_secs_f64();
    if gpu.readings.lost {
        dark::run(gpu, secs);
        return Outcome::Fine;
    }
    if gpu.readings.hung {
        load = Load {
            busy: 1.0,
            intensity: HANG_INTENSITY,
            memory: load.memory,
            ..Load::default()
        };
    }
    let before = (gpu.readings.pstate, gpu.readings.reasons & !reasons::IDLE);
    let board = gpu.board.clone();
    let idle = settle_hold(gpu, &load, noise, secs);
    let power = Power::of(&board, &load, noise);
    let clock = clock(gpu, &board, &load, &power, idle);
    let speed = f64::from(clock) / f64::from(board.clocks.sm_max_mhz.max(1));
    // Work that is bound by the clock also asks less of memory and links when the clock is low.
    let coupling = if load.memory_bound() {
        1.0
    } else {
        speed.min(1.0)
    };
    load.band *= coupling;
    load.link *= coupling;

    let watts = power.at(speed);
    let warm = warm(gpu, &board, watts, load.band, secs);
    show(gpu, &board, &load, noise, watts, idle);
    count(gpu, &board, watts, dt);
    traffic::run(gpu, &board, &load, noise, secs);
    attribute(gpu, coupling, secs);
    if warm {
        return Outcome::Overheated;
    }
    let after = (gpu.readings.pstate, gpu.readings.reasons & !reasons::IDLE);
    if before == after {
        return Outcome::Fine;
    }
    Outcome::Changed {
        pstate: before.0 != after.0,
        limits: before.1 != after.1,
    }
}

/// Power as a function of the clock, everything else being given.
struct Power {
    idle_w: f64,
    span_w: f64,
    compute: f64,
    /// Part that follows the clock in a straight line, and part that does not follow it.
    linear: f64,
    constant: f64,
}

impl Power {
    fn of(board: &Board, load: &Load, noise: &Noise) -> Self {
        let idle_w = board.power.idle_w * (1.0 + 0.01 * noise.wave(Channel::Idle));
        let intensity = load.intensity * (1.0 + 0.02 * noise.wave(Channel::Intensity));
        let other = 0.15 * load.band + 0.05 * load.link;
        let bound = load.memory_bound();
        Self {
            idle_w,
            span_w: 1.15 * board.power.default_w - board.power.idle_w,
            compute: 0.80 * intensity * load.busy,
            linear: if bound { 0.0 } else { other },
            constant: if bound { other } else { 0.0 },
        }
    }

    fn at(&self, speed: f64) -> f64 {
        let share = self.compute * speed * speed + self.linear * speed + self.constant;
        self.idle_w + self.span_w * share
    }

    /// The speed at which power meets `limit_w`: the root of a quadratic.
    fn speed_for(&self, limit_w: f64) -> f64 {
        let rest = (limit_w - self.idle_w) / self.span_w - self.constant;
        if rest <= 0.0 {
            return 0.0;
        }
        if self.compute < 1e-9 {
            return if self.linear < 1e-9 {
                1.0
            } else {
                rest / self.linear
            };
        }
        let root = (self.linear * self.linear + 4.0 * self.compute * rest).sqrt();
        (root - self.linear) / (2.0 * self.compute)
    }
}

/// Keeps the clock up for some seconds after load; returns whether the device is at rest.
fn settle_hold(gpu: &mut Gpu, load: &Load, noise: &Noise, secs: f64) -> bool {
    // Copies keep a device awake as kernels do.
    if load.busy.max(load.band).max(load.link) >= IDLE_BELOW {
        gpu.heat.hold_s = (2.0 + 8.0 * noise.draw(Channel::Hold)) as f32;
        return false;
    }
    if gpu.board.governor == Governor::Proportional {
        return true;
    }
    let resting = gpu.heat.hold_s <= 0.0;
    gpu.heat.hold_s = (gpu.heat.hold_s - secs as f32).max(0.0);
    resting
}

/// The SM clock, and with it the reasons that hold it down.
fn clock(gpu: &mut Gpu, board: &Board, load: &Load, power: &Power, idle: bool) -> u32 {
    let (low, top) = (board.clocks.sm_idle_mhz, board.clocks.sm_max_mhz);
    let step = board.clocks.sm_step_mhz.max(1);
    let r = &mut gpu.readings;
    if gpu.ailments.clocks_stuck {
        // A clock that was off sticks where it comes up.
        r.sm_mhz = r.sm_mhz.max(crate::gpu::mhz(low));
        // What held it before holds it no longer: the clock follows nothing.
        r.reasons = if idle { reasons::IDLE } else { 0 };
        return u32::from(r.sm_mhz);
    }
    r.reasons = 0;
    let profiles = r.profiles_enforced;
    let mut allowed = top;
    if r.lock_sm_max_mhz > 0 {
        allowed = allowed.min(u32::from(r.lock_sm_max_mhz));
    }
    if gpu.app_clocks_set || (board.auto_boost() && !r.auto_boost) {
        allowed = allowed.min(u32::from(r.app_sm_mhz));
    }
    let floor = low.max(u32::from(r.lock_sm_min_mhz)).min(allowed);
    let mut clock = match (idle, board.governor) {
        (true, _) => floor,
        (false, Governor::Race) => allowed,
        (false, Governor::Proportional) => {
            let span = f64::from(top.saturating_sub(low));
            let wanted = f64::from(low) + span * load.busy.sqrt();
            (wanted as u32).clamp(floor, allowed)
        }
    };
    if idle {
        r.reasons |= reasons::IDLE;
    } else if allowed < top && clock == allowed {
        r.reasons |= reasons::APPLICATION_CLOCKS;
    }
    let mut hold_to = |limit: u32, why: u32| {
        let limit = (limit - limit % step).max(low);
        if clock > limit {
            clock = limit;
            r.reasons |= why;
        }
    };
    if gpu.heat.cap_mhz < top as f32 {
        hold_to(gpu.heat.cap_mhz as u32, reasons::SW_THERMAL);
    }
    if gpu.heat.slowed {
        hold_to(top / 2, reasons::HW_THERMAL | reasons::HW_SLOWDOWN);
    }
    // NVML has no reason to name for a profile.
    if profiles != 0 {
        let percents = board.power.workload_profiles.iter();
        let in_force = percents.filter(|profile| profiles >> profile.id & 1 != 0);
        let percent = in_force.map(|profile| profile.sm_percent).min();
        hold_to(top * percent.unwrap_or(100) / 100, 0);
    }
    if gpu.ailments.brake {
        hold_to(top / 2, reasons::POWER_BRAKE | reasons::HW_SLOWDOWN);
    }
    let limit_w = f64::from(r.enforced_limit_mw) / 1000.0;
    if !idle && power.at(f64::from(clock) / f64::from(top.max(1))) > limit_w {
        let limit = (power.speed_for(limit_w) * f64::from(top)) as u32;
        clock = clock.min((limit - limit % step).max(low));
        r.reasons |= reasons::SW_POWER_CAP;
    }
    r.sm_mhz = crate::gpu::mhz(clock);
    clock
}

/// Moves temperatures and the thermal governor; returns whether the board shut itself down.
fn warm(gpu: &mut Gpu, board: &Board, watts: f64, band: f64, secs: f64) -> bool {
    let thermal = &board.thermal;
    let heat = &mut gpu.heat;
    let resistance =
        thermal.resistance_c_per_w * f64::from(gpu.cooling) * f64::from(gpu.ailments.cooling);
    let target = thermal.inlet_c + f64::from(heat.offset_c) + resistance * watts;
    let pace = 1.0 - (-secs / thermal.tau_s.max(0.1)).exp();
    heat.die_c += pace * (target - heat.die_c);
    let memory = heat.die_c + 1.0 + 8.0 * band;
    heat.memory_c += ((secs / (secs + 10.0)) * (memory - f64::from(heat.memory_c))) as f32;
    heat.average_w += ((1.0 - (-secs).exp()) * (watts - f64::from(heat.average_w))) as f32;

    let top = f64::from(board.clocks.sm_max_mhz);
    let over = heat.die_c - thermal.max_operating_c;
    let cap = f64::from(heat.cap_mhz);
    if over > 0.0 {
        let floor = f64::from(board.clocks.sm_idle_mhz);
        heat.cap_mhz = (cap - GOVERNOR_MHZ * over * secs).max(floor) as f32;
    } else if over < -RELIEF_C {
        heat.cap_mhz = (cap + GOVERNOR_MHZ * secs).min(top) as f32;
        heat.slowed = false;
    }
    if heat.die_c >= thermal.slowdown_c {
        heat.slowed = true;
    }
    heat.die_c >= thermal.shutdown_c
}

/// Writes the momentary readings.
fn show(gpu: &mut Gpu, board: &Board, load: &Load, noise: &Noise, watts: f64, idle: bool) {
    let r = &mut gpu.readings;
    let busy = ratios(load, noise);
    r.gpu_percent = percent(load.busy);
    r.memory_percent = percent(load.band);
    r.gr_engine_ppm = busy.gr_engine_ppm;
    r.sm_active_ppm = busy.sm_active_ppm;
    r.sm_occupancy_ppm = busy.sm_occupancy_ppm;
    r.tensor_ppm = busy.tensor_ppm;
    r.dram_ppm = ppm(load.band);
    r.fp64_ppm = busy.fp64_ppm;
    r.fp32_ppm = busy.fp32_ppm;
    r.fp16_ppm = busy.fp16_ppm;
    r.int_ppm = busy.int_ppm;
    // Video engines are busy in bursts, and only while something else is going on.
    let burst = (2.0 * noise.level(Channel::Video) - 1.0).max(0.0) * load.busy;
    let engine = |count: u32, most: f64| if count > 0 { percent(burst * most) } else { 0 };
    r.decoder_percent = engine(board.decoders, 0.40);
    r.encoder_percent = engine(board.encoders, 0.30);
    r.jpeg_percent = engine(board.jpeg_engines, 0.10);
    r.ofa_percent = engine(board.ofa_engines, 0.05);

    let low = if board.hbm || !idle {
        board.clocks.mem_max_mhz
    } else {
        board.clocks.mem_idle_mhz
    };
    let mut memory_clock = low;
    if r.lock_mem_max_mhz > 0 {
        memory_clock = low.clamp(u32::from(r.lock_mem_min_mhz), u32::from(r.lock_mem_max_mhz));
    }
    r.mem_mhz = crate::gpu::mhz(memory_clock);
    let speed = f64::from(r.sm_mhz) / f64::from(board.clocks.sm_max_mhz.max(1));
    r.video_mhz = (f64::from(board.clocks.video_max_mhz) * speed) as u16;
    r.pstate = if board.hbm || !idle { 0 } else { 8 };

    r.memory_used = load.memory;
    let context = 2 << 20;
    r.bar1_used = board.bar1_mib.map_or(0, |mib| {
        (1 + gpu.tasks.len() as u64)
            .saturating_mul(context)
            .min(mib << 20)
    });

    r.power_mw = crate::gpu::milli(watts);
    r.power_average_mw = crate::gpu::milli(f64::from(gpu.heat.average_w));
    let memory_idle = 0.2 * board.power.idle_w;
    let memory_span = 0.15 * (1.15 * board.power.default_w - board.power.idle_w);
    r.memory_power_mw = crate::gpu::milli((memory_idle + memory_span * load.band).min(watts));

    r.temperature_c = gpu.heat.die_c as i16;
    r.memory_temperature_c = gpu.heat.memory_c as i16;
    // The hottest spot runs ahead of the average as power rises.
    let hotspot = 4.0 * (watts - board.power.idle_w).max(0.0) / board.power.default_w.max(1.0);
    r.margin_c = (board.thermal.max_operating_c - gpu.heat.die_c - hotspot) as i16;
    if board.fans > 0 && !r.fan_manual {
        r.fan_percent = (30.0 + 1.5 * (gpu.heat.die_c - 45.0)).clamp(30.0, 100.0) as u8;
    }
}

/// Percent of a share, rounded.
pub(crate) fn percent(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 100.0).round() as u8
}

/// Integrates energy and throttle times.
fn count(gpu: &mut Gpu, board: &Board, watts: f64, dt: Duration) {
    let ns = dt.as_nanos() as u64;
    let r = &mut gpu.readings;
    r.energy_mj += (watts * 1000.0 * dt.as_secs_f64()).round() as u64;
    let add = |counter: &mut u64, mask: u32| {
        if r.reasons & mask != 0 {
            *counter += ns;
        }
    };
    let v = &mut r.violations;
    add(&mut v.power_ns, reasons::SW_POWER_CAP);
    add(&mut v.thermal_ns, reasons::SW_THERMAL | reasons::HW_THERMAL);
    add(&mut v.sync_boost_ns, reasons::SYNC_BOOST);
    add(&mut v.board_limit_ns, reasons::POWER_BRAKE);
    add(&mut v.low_utilization_ns, reasons::IDLE);
    add(&mut r.reason_times.sw_thermal_ns, reasons::SW_THERMAL);
    add(&mut r.reason_times.hw_thermal_ns, reasons::HW_THERMAL);
    if r.reasons & !reasons::IDLE != 0 {
        if r.sm_mhz < r.app_sm_mhz {
            v.app_clocks_ns += ns;
        }
        if u32::from(r.sm_mhz) < board.clocks.sm_default_mhz {
            v.base_clocks_ns += ns;
        }
    }
}

/// What tasks got of bandwidth after coupling, and their time integrals.
fn attribute(gpu: &mut Gpu, coupling: f64, secs: f64) {
    let hung = gpu.readings.hung;
    let equal = 1.0 / gpu.tasks.len().max(1) as f32;
    for task in &mut gpu.tasks {
        if hung {
            // The spinning kernel's time is charged to those that wait behind it.
            (task.busy, task.band, task.link, task.part) = (equal, 0.0, 0.0, equal);
        } else {
            task.band *= coupling as f32;
            task.link *= coupling as f32;
        }
        task.busy_s += task.busy * secs as f32;
        task.band_s += task.band * secs as f32;
    }
    let Some(mig) = gpu.mig.as_deref_mut() else {
        return;
    };
    for ci in mig.instances.iter_mut().flat_map(|gi| &mut gi.compute) {
        if hung {
            ci.ratios = Ratios {
                gr_engine_ppm: ppm(1.0),
                sm_active_ppm: ppm(1.0),
                ..Ratios::default()
            };
        } else {
            ci.ratios.dram_ppm = (f64::from(ci.ratios.dram_ppm) * coupling).round() as u32;
        }
    }
}
