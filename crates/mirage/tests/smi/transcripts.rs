//! What is printed for the built-in node, to the byte. `MIRAGE_BLESS=1 cargo test -p mirage --test smi` writes the
//! transcripts anew.

use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::{run, support};

/// The node that the library carries.
fn built_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../state/data/default.state")
}

/// What differs from run to run, or from machine to machine.
fn steady(text: &str) -> String {
    let replacements = [
        (
            r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}",
            "<time>",
        ),
        (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}", "<time>"),
        (r", \d{16}, ", ", <us>, "),
        // Date and time columns of dmon.
        (r" \d{8}    \d\d:\d\d:\d\d  ", " <date>      <time>    "),
        // Processors near a GPU are those of this machine.
        (
            r"\t(?:[-,0-9]+|N/A)\t(\d)\t\tN/A\n",
            "\t<cpus>\t$1\t\tN/A\n",
        ),
    ];
    replacements
        .iter()
        .fold(text.to_owned(), |text, (pattern, with)| {
            let pattern = Regex::new(pattern).expect("a pattern");
            pattern.replace_all(&text, *with).into_owned()
        })
}

/// Runs commands and compares them with their transcript.
fn compare(name: &str, commands: &[&str]) {
    let mut transcript = String::new();
    for arguments in commands {
        let output = run(&built_in(), arguments);
        let code = output.status.code().expect("an exit code");
        let text = steady(&support::stdout(&output));
        assert_eq!(support::stderr(&output), "", "{arguments}");
        transcript += &format!("$ nvidia-smi {arguments}\n{text}[exit {code}]\n");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/smi/golden");
    let path = path.join(format!("{name}.txt"));
    if std::env::var_os("MIRAGE_BLESS").is_some() {
        std::fs::write(&path, &transcript).expect("the transcript is written");
    }
    let wanted = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; bless it first", path.display()));
    let different = transcript
        .lines()
        .zip(wanted.lines())
        .find(|(is, was)| is != was);
    assert!(
        transcript == wanted,
        "{name} differs from its transcript, first in {different:?}"
    );
}

#[test]
fn the_table() {
    compare("table", &["", "-i 0,7", "-L"]);
}

#[test]
fn the_report() {
    compare(
        "report",
        &[
            "-q -i 0",
            "-q -d MEMORY,ecc -i 1",
            "-q -d POWER,UTILIZATION,CLOCK -i 2",
        ],
    );
}

#[test]
fn the_report_as_xml() {
    compare("xml", &["-q -x -i 0"]);
}

#[test]
fn queries() {
    compare(
        "query",
        &[
            "--query-gpu=index,name,uuid,memory.total,memory.used,power.draw,temperature.gpu --format=csv",
            "--query-gpu=gpu_name,clocks.sm,fan.speed,utilization.gpu --format=csv,nounits -i 0",
            "--query-gpu=timestamp,pci.bus_id,pstate,mig.mode.current --format=csv,noheader,nounits -i 0",
            "--query-gpu name --format csv,noheader -i 00000000:0F:00.0",
            "--query-compute-apps=pid,name,used_memory --format=csv",
            "--query-remapped-rows=gpu_uuid,remapped_rows.pending --format=csv -i 0",
            "--query-accounted-apps=gpu_uuid,pid,gpu_util,mem_util,max_memory,time --format=csv",
            "--query-retired-pages=gpu_uuid,retired_pages.address,retired_pages.cause --format=csv",
            "--query-gpu=name,nonsense --format=csv",
            "--query-gpu=name",
        ],
    );
}

/// All fields there are, in one query: names from `--help-query-gpu`, which comes from the same list.
#[test]
fn all_fields() {
    let help = crate::shown(&built_in(), "--help-query-gpu");
    let names = help.lines().filter_map(|line| line.strip_prefix('"'));
    let names: Vec<&str> = names
        .filter_map(|line| line.split('"').next())
        .filter(|name| *name != "timestamp")
        .collect();
    assert!(names.len() > 150, "{} fields", names.len());
    let all = names.join(",");
    let arguments = format!("--query-gpu={all} --format=csv -i 0");
    let text = crate::shown(&built_in(), &arguments);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split(", ").collect())
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!((lines[0].len(), lines[1].len()), (names.len(), names.len()));
    for ((name, head), value) in names.iter().zip(&lines[0]).zip(&lines[1]) {
        assert_eq!(head.split(" [").next(), Some(*name));
        assert!(
            !value.is_empty() && !value.contains("Unknown"),
            "{name}: {value}"
        );
    }
    compare("fields", &[&arguments]);
}

#[test]
fn monitors() {
    compare(
        "monitor",
        &[
            "dmon -c 1",
            "dmon -c 1 -s pucvmet -o DT -i 0",
            "dmon -c 1 -s m --format csv,nounit -i 0,1",
            "pmon -c 1",
            "pmon -c 1 -s um --format csv -i 2",
            "stats -c 1 -i 0,1",
            "stats -c 1 -i 7 -d pwrDraw,temp",
        ],
    );
}

#[test]
fn connections() {
    compare(
        "connections",
        &["topo -m", "topo -p2p r", "nvlink -s -i 0", "nvlink -e -i 7"],
    );
}

/// Nobody is there to change a recorded node, and MIG is off on it.
#[test]
fn refusals() {
    compare(
        "refusals",
        &[
            "-i 99",
            "-pl 300",
            "-pl 3000 -i 0",
            "-mig 1 -i 0",
            "-r -i 0",
            "-pm 1 -i 0",
            "compute-policy --set-timeslice 1 -i 0",
            "compute-policy --set-timeslice 9",
            "mig -lgip",
            "mig -cgi 19",
            "-q -d NONSENSE",
            "--frobnicate",
            "-L -q",
        ],
    );
}

#[test]
fn what_a_plain_machine_has_none_of() {
    compare(
        "absent",
        &[
            "drain -p 00000000:0F:00.0 -q",
            "drain -p 0 -m 1",
            "conf-compute -f",
            "conf-compute -e",
            "conf-compute -d",
            "conf-compute -gc",
            "conf-compute -gg",
            "conf-compute -grs",
            "vgpu",
            "vgpu -q -i 99",
        ],
    );
}

#[test]
fn about_the_program() {
    compare("about", &["-h", "--version", "--help-query-compute-apps"]);
}

#[test]
fn no_driver_is_nine() {
    let output = run(Path::new("/nowhere/at/all"), "");
    assert_eq!(output.status.code(), Some(9));
    assert!(support::stdout(&output).contains("couldn't communicate with the NVIDIA driver"));
}

#[test]
fn started_as_nvidia_smi_it_is_nvidia_smi() {
    let room = tempfile::tempdir().expect("a temporary directory");
    let program = room.path().join("nvidia-smi");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mirage"), &program).expect("a link");
    let output = std::process::Command::new(&program)
        .env_clear()
        .env("MIRAGE_STATE", built_in())
        .env("MIRAGE_VISIBLE_DEVICES", "0")
        .arg("-L")
        .output()
        .expect("it starts");
    assert_eq!(support::stdout(&output).lines().count(), 1);
    assert!(support::stdout(&output).starts_with("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-"));
}

#[test]
fn results_may_go_to_a_file() {
    let room = tempfile::tempdir().expect("a temporary directory");
    let file = room.path().join("list");
    let arguments = format!("-L -f {}", file.display());
    assert_eq!(crate::shown(&built_in(), &arguments), "");
    let written = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(written, crate::shown(&built_in(), "-L"));
    let nowhere = run(&built_in(), "-L -f /nowhere/at/all");
    assert_eq!(nowhere.status.code(), Some(2));
}

/// A loop goes on until nobody reads any more.
#[test]
fn a_loop_repeats_its_rows_and_not_its_header() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let arguments = "--query-gpu=index --format=csv -i 3 -lms 1";
    let mut child = crate::smi(&built_in(), arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let reader = BufReader::new(child.stdout.take().expect("piped"));
    let lines: Vec<String> = reader.lines().take(4).map_while(Result::ok).collect();
    // The reader is gone now, and the next row ends the program.
    let status = child.wait().expect("it ends");
    assert_eq!(lines, ["index", "3", "3", "3"]);
    assert_eq!(status.code(), Some(0));
}
