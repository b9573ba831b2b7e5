//! The table that `nvidia-smi` shows when nothing else is asked for: GPUs, MIG devices, processes.

mod layout;

use std::io::Write;

use nvidia_ml::client::{Device, Nvml, Result as Answer, Running};

use super::gpus::Gpu;
use super::stamp::Stamp;
use super::{Stop, query};
use layout::Layout;

const MIB: u64 = 1 << 20;
const UNCORRECTED: u32 = 1;
const VOLATILE: u32 = 0;

/// A line of `fill` with `joint` between columns.
fn rule(columns: &[usize], ends: [char; 2], fill: char, joint: char) -> String {
    let cells: Vec<String> = columns
        .iter()
        .map(|&width| fill.to_string().repeat(width))
        .collect();
    format!("{}{}{}", ends[0], cells.join(&joint.to_string()), ends[1])
}

fn edge(layout: &Layout) -> String {
    rule(&[layout.width()], ['+', '+'], '-', '-')
}

fn boxed(layout: &Layout, text: &str) -> String {
    let width = layout.width();
    format!("|{text:<width$}|")
}

pub(super) fn print(nvml: &Nvml, gpus: &[Gpu], now: Stamp, out: &mut Vec<u8>) -> Result<(), Stop> {
    let driver = nvml.driver_version()?;
    let layout = Layout::of(query::branch(&driver));
    writeln!(out, "{}       ", now.long())?;
    heading(nvml, &layout, &driver, out)?;
    for gpu in gpus {
        gpu_rows(gpu, &layout, out)?;
        writeln!(out, "{}", rule(&layout.gpu, ['+', '+'], '-', '+'))?;
    }
    if gpus.iter().any(|gpu| has_mig(gpu.device)) {
        mig_table(gpus, &layout, out)?;
    }
    processes(nvml, gpus, &layout, out)
}

/// The title, and the headings of the GPU table.
fn heading(nvml: &Nvml, layout: &Layout, driver: &str, out: &mut Vec<u8>) -> Result<(), Stop> {
    let cuda = cuda(nvml)?;
    let [first, second] = layout.versions;
    let title = format!(
        " NVIDIA-SMI {driver:<first$}Driver Version: {driver:<second$}CUDA Version: {cuda:<9}"
    );
    writeln!(out, "{}", edge(layout))?;
    writeln!(out, "{}", boxed(layout, &title))?;
    writeln!(out, "{}", rule(&layout.gpu, [layout.end, '+'], '-', '+'))?;
    let left = match layout.is_short() {
        true => [
            " GPU  Name        Persistence-M",
            " Fan  Temp  Perf  Pwr:Usage/Cap",
            "",
        ],
        false => [
            " GPU  Name                 Persistence-M ",
            " Fan  Temp   Perf          Pwr:Usage/Cap ",
            "",
        ],
    };
    let [place, rest] = [layout.gpu[1] - 8, layout.gpu[1] - 1];
    let middle = [
        format!(" Bus-Id{:>place$} ", "Disp.A"),
        format!("{:>rest$} ", "Memory-Usage"),
        String::new(),
    ];
    let right = [
        " Volatile Uncorr. ECC ",
        " GPU-Util  Compute M. ",
        "               MIG M. ",
    ];
    let [one, two, _] = layout.gpu;
    for ((left, middle), right) in left.iter().zip(middle).zip(right) {
        writeln!(out, "|{left:one$}|{middle:two$}|{right}|")?;
    }
    writeln!(out, "{}", rule(&layout.gpu, ['|', '|'], '=', '+'))?;
    Ok(())
}

/// `12.4`.
pub(super) fn cuda(nvml: &Nvml) -> Answer<String> {
    let version = nvml.cuda_version()?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

fn has_mig(device: Device) -> bool {
    matches!(device.mig_mode(), Ok((1, _)))
}

/// A value or `N/A`, which any refusal reads as.
fn or_na<T>(answer: Answer<T>, show: impl FnOnce(T) -> String) -> String {
    answer.map_or_else(|_| "N/A".into(), show)
}

fn on_off(answer: Answer<u32>) -> String {
    or_na(answer, |on| if on == 0 { "Off" } else { "On" }.into())
}

fn gpu_rows(gpu: &Gpu, layout: &Layout, out: &mut Vec<u8>) -> Result<(), Stop> {
    let device = gpu.device;
    let [room, longest] = layout.name;
    let name = short(&device.name()?, longest);
    let persistence = on_off(device.persistence_mode());
    let (index, bus_id) = (gpu.index, &gpu.label.bus_id);
    let display = on_off(device.display_active());
    let ecc = match device.ecc_mode() {
        Err(_) => "N/A".into(),
        Ok((0, _)) => "Off".into(),
        // Errors belong to the instances then.
        Ok(_) if has_mig(device) => "On".into(),
        Ok(_) => or_na(device.total_ecc_errors(UNCORRECTED, VOLATILE), |count| {
            count.to_string()
        }),
    };
    let [first, second, _] = layout.gpu;
    let (rest, place) = (first - 6 - room, second - 5);
    writeln!(
        out,
        "|{index:>4}  {name:<room$}{persistence:<rest$}|{bus_id:>place$} {display:<3} |{ecc:>21} |"
    )?;
    let fan = or_na(device.fan_speed(), |percent| format!("{percent}%"));
    let temperature = or_na(device.temperature(0), |degrees| format!("{degrees}C"));
    let state = or_na(device.performance_state(), |state| format!("P{state}"));
    let watts = |milliwatts: u32| format!("{}W", milliwatts / 1000);
    let draw = or_na(device.power_usage(), watts);
    let limit = or_na(device.enforced_power_limit(), watts);
    let memory = or_na(device.memory(), |memory| {
        usage(memory.used, memory.total, layout.memory)
    });
    let busy = or_na(device.utilization(), |busy| format!("{}%", busy.gpu));
    let mode = or_na(device.compute_mode(), |mode| {
        let names = ["Default", "E. Thread", "Prohibited", "E. Process"];
        names[mode as usize % 4].into()
    });
    let [wide, narrow] = layout.power;
    let rest = second - 1;
    writeln!(
        out,
        "|{fan:>4}{temperature:>6}{state:>6}{draw:>wide$} / {limit:>narrow$} |{memory:>rest$} |{busy:>8}{mode:>13} |"
    )?;
    let mig = or_na(device.mig_mode(), |(now, then)| {
        let name = |on| if on == 0 { "Disabled" } else { "Enabled" };
        let star = if now == then { "" } else { "*" };
        format!("{}{star}", name(now))
    });
    writeln!(out, "|{:first$}|{:second$}|{mig:>21} |", "", "")?;
    Ok(())
}

/// `1MiB /  40960MiB`.
fn usage(used: u64, total: u64, [left, right]: [usize; 2]) -> String {
    let mib = |bytes: u64| format!("{}MiB", bytes / MIB);
    format!("{:>left$} / {:>right$}", mib(used), mib(total))
}

/// A product name that fits; of a longer one the beginning.
fn short(name: &str, longest: usize) -> String {
    if name.chars().count() <= longest {
        return name.into();
    }
    let start: String = name.chars().take(longest - 3).collect();
    format!("{start}...")
}

fn mig_table(gpus: &[Gpu], layout: &Layout, out: &mut Vec<u8>) -> Result<(), Stop> {
    writeln!(out, "\n{}", edge(layout))?;
    writeln!(out, "{}", boxed(layout, " MIG devices:"))?;
    let line = rule(&layout.mig, ['+', '+'], '-', '+');
    writeln!(out, "{line}")?;
    let [left, middle, ..] = layout.mig;
    let rest = middle - 1;
    let right = match layout.is_short() {
        true => ["         Shared        ", " CE  ENC  DEC  OFA  JPG", ""],
        false => ["      Shared           ", " CE ENC DEC OFA JPG    ", ""],
    };
    for ((one, two), (three, four)) in [
        (" GPU  GI  CI  MIG ", "Memory-Usage"),
        ("      ID  ID  Dev ", "BAR1-Usage"),
        ("", ""),
    ]
    .into_iter()
    .zip(
        ["        Vol", " SM     Unc", "        ECC"]
            .into_iter()
            .zip(right),
    ) {
        writeln!(out, "|{one:left$}|{two:>rest$} |{three}|{four:23}|")?;
    }
    writeln!(out, "{}", rule(&layout.mig, ['|', '|'], '=', '+'))?;
    let mut any = false;
    for gpu in gpus {
        for device in gpu.device.mig_devices() {
            any = true;
            mig_rows(gpu, device, layout, out)?;
            writeln!(out, "{line}")?;
        }
    }
    if !any {
        writeln!(out, "{}", boxed(layout, "  No MIG devices found"))?;
        writeln!(out, "{}", edge(layout))?;
    }
    Ok(())
}

fn mig_rows(gpu: &Gpu, device: Device, layout: &Layout, out: &mut Vec<u8>) -> Result<(), Stop> {
    let (gi, ci) = (device.gpu_instance_id()?, device.compute_instance_id()?);
    let number = device.index()?;
    let [first, second, third, fourth] = layout.mig;
    let [above, below] = layout.part;
    let memory = or_na(device.memory(), |memory| {
        usage(memory.used, memory.total, [above, 8])
    });
    let errors = or_na(device.total_ecc_errors(UNCORRECTED, VOLATILE), |count| {
        count.to_string()
    });
    let errors = if errors == "N/A" {
        mig_errors(gpu)
    } else {
        errors
    };
    let has = device.attributes()?;
    writeln!(
        out,
        "|{:>3}{gi:>5}{ci:>4}{number:>4}  |{memory:<second$}|{:>3}{errors:>7} |{:>3}{:>4}{:>5}{:>5}{:>5} |",
        gpu.index, has.sm_count, has.copy_engines, has.encoders, has.decoders, has.ofas, has.jpegs
    )?;
    let bar1 = or_na(device.bar1(), |bar1| {
        usage(bar1.used, bar1.total, [below, 8])
    });
    writeln!(
        out,
        "|{:first$}|{bar1:<second$}|{:third$}|{:fourth$}|",
        "", "", ""
    )?;
    Ok(())
}

/// SRAM errors are counted for the whole GPU.
fn mig_errors(gpu: &Gpu) -> String {
    const SRAM: u32 = 7;
    let count = gpu.device.ecc_errors_at(UNCORRECTED, VOLATILE, SRAM);
    or_na(count, |count| count.to_string())
}

fn processes(nvml: &Nvml, gpus: &[Gpu], layout: &Layout, out: &mut Vec<u8>) -> Result<(), Stop> {
    let [number, room] = layout.process;
    let blank = layout.blank;
    writeln!(out, "{:blank$}", "")?;
    writeln!(out, "{}", edge(layout))?;
    // Headings stand one column before what is under them.
    let wide = number + 1;
    for line in [
        " Processes:".to_owned(),
        format!(
            "  GPU   GI   CI{:>wide$}   Type   {:<room$} GPU Memory ",
            "PID", "Process name"
        ),
        format!(
            "        ID   ID{:<width$}Usage      ",
            "",
            width = wide + room + 11
        ),
    ] {
        writeln!(out, "{}", boxed(layout, &line))?;
    }
    writeln!(out, "{}", rule(&[layout.width()], ['|', '|'], '=', '='))?;
    let mut any = false;
    for gpu in gpus {
        for process in gpu.device.processes().unwrap_or_default() {
            any = true;
            let name = tail(&process_name(nvml, process.pid), room);
            let instance = |id: Option<u32>| id.map_or_else(|| "N/A".into(), |id| id.to_string());
            let memory = format!("{}MiB", process.memory / MIB);
            writeln!(
                out,
                "|{:>5}{:>6}{:>5}{:>number$}{:>7}   {name:<room$}{memory:>11} |",
                gpu.index,
                instance(process.gi),
                instance(process.ci),
                process.pid,
                kind(&process)
            )?;
        }
    }
    if !any {
        writeln!(out, "{}", boxed(layout, "  No running processes found"))?;
    }
    writeln!(out, "{}", edge(layout))?;
    Ok(())
}

/// The name of a process that may have ended meanwhile.
pub(super) fn process_name(nvml: &Nvml, pid: u32) -> String {
    let name = nvml.process_name(pid);
    name.unwrap_or_else(|_| "[Not Found]".into())
}

/// `C`, `G`, `C+G`, `M+C`: by the lists a process is on.
pub(super) fn kind(process: &Running) -> &'static str {
    match (process.mps, process.compute, process.graphics) {
        (true, _, false) => "M+C",
        (true, _, true) => "M+C+G",
        (false, true, true) => "C+G",
        (false, false, true) => "G",
        (false, _, false) => "C",
    }
}

/// A process name that fits, with three columns to spare; of a longer one the end.
fn tail(name: &str, room: usize) -> String {
    let (count, room) = (name.chars().count(), room - 3);
    if count <= room {
        return name.into();
    }
    let end: String = name.chars().skip(count - (room - 3)).collect();
    format!("...{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_at_the_right_end() {
        assert_eq!(short("NVIDIA A100-SXM4-40GB", 27), "NVIDIA A100-SXM4-40GB");
        let long = "NVIDIA RTX 6000 Ada Generation Extended";
        assert_eq!(short(long, 27), "NVIDIA RTX 6000 Ada Gene...");
        assert_eq!(
            short("NVIDIA GeForce RTX 3090 Ti", 27),
            "NVIDIA GeForce RTX 3090 Ti"
        );
        assert_eq!(
            short("NVIDIA RTX 6000 Ada Generation", 27),
            "NVIDIA RTX 6000 Ada Gene..."
        );
        assert_eq!(short("NVIDIA A100-SXM4-40GB", 18), "NVIDIA A100-SXM...");
        assert_eq!(tail("python", 35), "python");
        let path = format!("/opt/{}/bin/python", "x".repeat(60));
        let shown = tail(&path, 35);
        assert!(
            shown.starts_with("...x") && shown.ends_with("/bin/python"),
            "{shown}"
        );
        assert_eq!(shown.len(), 32);
        assert_eq!(tail(&"ü".repeat(60), 41).chars().count(), 38);
    }
}
