//! Jobs of a batch scheduler: a directory whose files are named after GPUs (`0`, or `0.7` for a MIG instance)
//! and hold a job on each line.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use mirage_metrics::Jobs;

/// Most files looked at.
const MOST_FILES: usize = 4096;
/// Most bytes read of a file.
const MOST_BYTES: u64 = 64 << 10;
/// Most jobs of a GPU.
const MOST_JOBS: usize = 256;
/// Most bytes of a job's name.
const MOST_NAME: usize = 256;

/// Reads a directory; files under other names are passed over.
pub(super) fn read(directory: &Path) -> Result<Vec<Jobs>, String> {
    let trouble =
        |what: &Path, error: std::io::Error| format!("reading {}: {error}", what.display());
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).map_err(|error| trouble(directory, error))?;
    for entry in entries.take(MOST_FILES) {
        let path = entry.map_err(|error| trouble(directory, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((gpu, gi)) = name.and_then(place) else {
            continue;
        };
        let names = match lines(&path) {
            Ok(names) => names,
            // A job that has just ended takes its file with it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(trouble(&path, error)),
        };
        if !names.is_empty() {
            found.push(Jobs { gpu, gi, names });
        }
    }
    found.sort_by_key(|jobs| (jobs.gpu, jobs.gi));
    Ok(found)
}

/// What a file's name means.
fn place(name: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    match name.split_once('.') {
        Some((gpu, gi)) => Some((number(gpu)?, Some(number(gi)?))),
        None => Some((number(name)?, None)),
    }
}

/// The jobs of a file, each once. A second series of the same name would break the page.
fn lines(path: &Path) -> std::io::Result<Vec<String>> {
    let file = OpenOptions::new()
        .read(true)
        // A pipe must not keep us waiting for its writer.
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut jobs: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        let known = jobs.iter().any(|job| job == line);
        if !line.is_empty() && line.len() <= MOST_NAME && !known && jobs.len() < MOST_JOBS {
            jobs.push(line.to_owned());
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn jobs(gpu: u32, gi: Option<u32>, names: &[&str]) -> Jobs {
        Jobs {
            gpu,
            gi,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn files_are_named_after_gpus_and_hold_a_job_on_each_line() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("1", "4711\n4712\n\n4711\n");
        write("0.7", "mig-job");
        write("10", "");
        write("readme", "no job");
        write("1x", "no job");
        write("-1", "no job");
        fs::create_dir(dir.path().join("3")).unwrap();
        assert_eq!(
            read(dir.path()).unwrap(),
            [
                jobs(0, Some(7), &["mig-job"]),
                jobs(1, None, &["4711", "4712"])
            ]
        );
        let error = read(&dir.path().join("nowhere")).unwrap_err();
        assert!(error.starts_with("reading "), "{error}");
    }

    #[test]
    fn there_is_an_end_to_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let many: String = (0..100_000).map(|n| format!("job-{n}\n")).collect();
        fs::write(dir.path().join("0"), many).unwrap();
        fs::write(dir.path().join("1"), "x".repeat(1 << 20)).unwrap();
        let found = read(dir.path()).unwrap();
        assert_eq!((found.len(), found[0].names.len()), (1, MOST_JOBS));
    }
}
