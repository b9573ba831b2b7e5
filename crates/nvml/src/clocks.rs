//! Clocks, performance states, and why a clock is not higher.

use std::fmt::Write;

use mirage_state::layout::{Board, Live, board_flags, flags};

use crate::abi::{ClkMonStatus, LongText};
use crate::arg::{Line, List, Out};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};

const SM: u32 = 1;
const MEMORY: u32 = 2;
const VIDEO: u32 = 3;

/// `nvmlDeviceGetClockInfo`.
pub fn clock_info(gpu: Gpu, kind: u32, out: Out<u32>) -> Answer {
    out.set(match kind {
        0 | SM => live!(gpu, sm_mhz),
        MEMORY => live!(gpu, mem_mhz),
        _ => live!(gpu, video_mhz),
    });
    Ok(())
}

/// `nvmlDeviceGetMaxClockInfo`.
pub fn max_clock_info(gpu: Gpu, kind: u32, out: Out<u32>) -> Answer {
    let board = gpu.board();
    let clock = match kind {
        0 | SM => board.sm_max_mhz,
        MEMORY => board.mem_max_mhz,
        _ => board.video_max_mhz,
    };
    some(clock, out)
}

/// A clock a board may lack.
fn some(clock: u32, out: Out<u32>) -> Answer {
    if clock == 0 {
        return Err(Fault::NotSupported);
    }
    out.set(clock);
    Ok(())
}

/// `nvmlDeviceGetApplicationsClock`.
pub fn applications_clock(gpu: Gpu, kind: u32, out: Out<u32>) -> Answer {
    match kind {
        0 | SM => some(live!(gpu, app_sm_mhz), out),
        MEMORY => some(live!(gpu, app_mem_mhz), out),
        _ => Err(Fault::NotSupported),
    }
}

/// `nvmlDeviceGetDefaultApplicationsClock`.
pub fn default_applications_clock(gpu: Gpu, kind: u32, out: Out<u32>) -> Answer {
    match kind {
        0 | SM => some(gpu.board().sm_default_mhz, out),
        MEMORY => some(gpu.board().mem_max_mhz, out),
        _ => Err(Fault::NotSupported),
    }
}

/// `nvmlDeviceGetMaxCustomerBoostClock`.
pub fn max_customer_boost_clock(gpu: Gpu, kind: u32, out: Out<u32>) -> Answer {
    max_clock_info(gpu, kind, out)
}

/// `nvmlDeviceGetClock`: any of the above by number.
pub fn clock(gpu: Gpu, kind: u32, which: u32, out: Out<u32>) -> Answer {
    match which {
        0 => clock_info(gpu, kind, out),
        1 => applications_clock(gpu, kind, out),
        2 => default_applications_clock(gpu, kind, out),
        _ => max_customer_boost_clock(gpu, kind, out),
    }
}

/// Memory clocks a board can be set to, highest first.
pub fn memory_clocks(board: &Board) -> impl Iterator<Item = u32> + use<> {
    let low = (board.flags & board_flags::HBM == 0 && board.mem_idle_mhz < board.mem_max_mhz)
        .then_some(board.mem_idle_mhz);
    [board.mem_max_mhz]
        .into_iter()
        .chain(low)
        .filter(|&clock| clock != 0)
}

/// SM clocks that go with a memory clock, highest first.
pub fn sm_clocks(board: &Board, memory_mhz: u32) -> impl Iterator<Item = u32> + use<> {
    let idle = memory_mhz != board.mem_max_mhz;
    let (low, high) = if idle {
        (board.sm_idle_mhz, board.sm_idle_mhz)
    } else {
        (board.sm_min_mhz.max(1), board.sm_max_mhz)
    };
    let step = board.sm_step_mhz.max(1);
    (0..).map_while(move |at| {
        high.checked_sub(step.checked_mul(at)?)
            .filter(|&clock| clock >= low)
    })
}

/// `nvmlDeviceGetSupportedMemoryClocks`.
pub fn supported_memory_clocks(gpu: Gpu, count: Out<u32>, entries: *mut u32) -> Answer {
    let mut list = List::new(count, entries)?;
    memory_clocks(gpu.board()).for_each(|clock| list.push(clock));
    list.finish()
}

/// `nvmlDeviceGetSupportedGraphicsClocks`: those that go with one of the memory clocks.
pub fn supported_graphics_clocks(
    gpu: Gpu,
    memory: u32,
    count: Out<u32>,
    entries: *mut u32,
) -> Answer {
    let mut list = List::new(count, entries)?;
    let board = gpu.board();
    if !memory_clocks(board).any(|clock| clock == memory) {
        return Err(Fault::NotFound);
    }
    sm_clocks(board, memory).for_each(|clock| list.push(clock));
    list.finish()
}

/// `nvmlDeviceGetCurrentClocksEventReasons` and its older name.
pub fn current_clocks_event_reasons(gpu: Gpu, out: Out<u64>) -> Answer {
    out.set(live!(gpu, reasons));
    Ok(())
}

/// `nvmlDeviceGetSupportedClocksEventReasons` and its older name: all but display clocks, as boards without a display say.
pub fn supported_clocks_event_reasons(_: Gpu, out: Out<u64>) -> Answer {
    out.set(0xFF);
    Ok(())
}

/// Refuses boards where auto boost is no setting: it was one until Maxwell.
pub fn auto_boost(gpu: &Gpu) -> Answer {
    const MAXWELL: u32 = 3;
    if gpu.board().architecture > MAXWELL {
        return Err(Fault::NotSupported);
    }
    Ok(())
}

/// `nvmlDeviceGetAutoBoostedClocksEnabled`.
pub fn auto_boosted_clocks_enabled(gpu: Gpu, now: Out<u32>, default: Out<u32>) -> Answer {
    auto_boost(&gpu)?;
    let flags = live!(gpu, flags);
    now.set((flags & flags::AUTO_BOOST != 0).into());
    default.set((flags & flags::AUTO_BOOST_DEFAULT != 0).into());
    Ok(())
}

/// `nvmlDeviceGetAdaptiveClockInfoStatus`.
pub fn adaptive_clock_info_status(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set((gpu.board().architecture >= 6).into());
    Ok(())
}

/// `nvmlDeviceGetClkMonStatus`: the monitors see no fault.
pub fn clk_mon_status(gpu: Gpu, out: Out<ClkMonStatus>) -> Answer {
    if gpu.board().architecture < 7 {
        return Err(Fault::NotSupported);
    }
    out.field::<u32>(0).set(0);
    out.field::<u32>(4).set(0);
    Ok(())
}

/// Performance states of a board: HBM boards have one.
fn states(board: &Board) -> &'static [u32] {
    if board.flags & board_flags::HBM != 0 {
        &[0]
    } else {
        &[0, 8]
    }
}

/// `nvmlDeviceGetSupportedPerformanceStates`: `size` is in bytes; unused places say "unknown".
pub fn supported_performance_states(gpu: Gpu, out: Out<u32>, size: u32) -> Answer {
    let states = states(gpu.board());
    let room = size as usize / size_of::<u32>();
    if room < states.len() {
        return Err(Fault::InsufficientSize);
    }
    for at in 0..room.min(16) {
        out.nth(at).set(states.get(at).copied().unwrap_or(32));
    }
    Ok(())
}

/// `nvmlDeviceGetPerformanceState`, `nvmlDeviceGetPowerState`.
pub fn performance_state(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(live!(gpu, pstate));
    Ok(())
}

/// `nvmlDeviceGetMinMaxClockOfPState`.
pub fn min_max_clock_of_pstate(
    gpu: Gpu,
    kind: u32,
    state: u32,
    min: Out<u32>,
    max: Out<u32>,
) -> Answer {
    let board = gpu.board();
    if !states(board).contains(&state) {
        return Err(Fault::NotSupported);
    }
    let (low, high) = match (kind, state) {
        (0 | SM, 0) => (board.sm_min_mhz, board.sm_max_mhz),
        (0 | SM, _) => (board.sm_min_mhz.min(board.sm_idle_mhz), board.sm_idle_mhz),
        (MEMORY, 0) => (board.mem_max_mhz, board.mem_max_mhz),
        (MEMORY, _) => (board.mem_idle_mhz, board.mem_idle_mhz),
        (VIDEO, 0) if board.video_max_mhz > 0 => (board.sm_min_mhz, board.video_max_mhz),
        _ => return Err(Fault::NotSupported),
    };
    min.set(low);
    max.set(high);
    Ok(())
}

/// As long as the buffer it goes to.
type Modes = Line<2048>;

/// Puts text into a versioned buffer of 2048 bytes.
fn long_text(out: Out<LongText>, text: &str) -> Answer {
    let mut info = out.get();
    info.text = crate::abi::fixed(text);
    out.set(info);
    Ok(())
}

/// One performance level as tokens.
fn level(text: &mut Modes, perf: u32, sm: (u32, u32, u32), memory: (u32, u32, u32)) {
    let domains = [
        ("nvclock", sm, 1),
        ("memclock", memory, 1),
        ("memtransferrate", memory, 2),
    ];
    // Writing to a Line cannot fail.
    let _ = write!(text, "perf={perf}");
    for (name, (now, min, max), times) in domains {
        let (now, min, max) = (now * times, min * times, max * times);
        let _ = write!(
            text,
            ", {name}={now}, {name}min={min}, {name}max={max}, {name}editable=0"
        );
    }
}

/// `nvmlDeviceGetPerformanceModes`.
pub fn performance_modes(gpu: Gpu, out: Out<LongText>) -> Answer {
    let board = gpu.board();
    let mut text = Line::new();
    for (perf, state) in states(board).iter().rev().enumerate() {
        if perf > 0 {
            let _ = text.write_str(" ; ");
        }
        let (sm, memory) = if *state == 0 {
            (board.sm_max_mhz, board.mem_max_mhz)
        } else {
            (board.sm_idle_mhz, board.mem_idle_mhz)
        };
        let low = board.sm_min_mhz.min(sm);
        level(
            &mut text,
            perf as u32,
            (sm, low, sm),
            (memory, memory, memory),
        );
    }
    long_text(out, text.as_str())
}

/// `nvmlDeviceGetCurrentClockFreqs`.
pub fn current_clock_freqs(gpu: Gpu, out: Out<LongText>) -> Answer {
    let board = gpu.board();
    let Live {
        sm_mhz,
        mem_mhz,
        pstate,
        ..
    } = gpu.live();
    let mut text = Line::new();
    let sm = (sm_mhz, board.sm_min_mhz, board.sm_max_mhz);
    let perf = states(board)
        .iter()
        .rev()
        .position(|&state| state == pstate);
    let memory = (mem_mhz, board.mem_idle_mhz, board.mem_max_mhz);
    level(&mut text, perf.unwrap_or_default() as u32, sm, memory);
    long_text(out, text.as_str())
}
