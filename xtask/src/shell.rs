//! Running other programs: from the repository's root, with the command in every error.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
        .to_path_buf()
}

/// The cargo that runs us, or the one on the path.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Runs a command to its end; its output is ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("starting {shown}"))?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        bail!("{shown} ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of {shown}"))
}

/// A command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Makes sure that programs are there, installing the distribution's package if need be.
pub(crate) fn ensure(programs: &[&str], package: &str) -> Result<()> {
    let there = || {
        programs.iter().all(|program| {
            let mut command = Command::new(program);
            let quiet = command.arg("--version").stdin(Stdio::null());
            quiet
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok()
        })
    };
    if there() {
        return Ok(());
    }
    let install = format!("apt-get install -y --no-install-recommends {package}");
    eprintln!("xtask: {install}");
    let installed = Command::new("sh")
        .args(["-c", &format!("apt-get update && {install}")])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    if !installed.is_ok_and(|status| status.success()) || !there() {
        bail!("{} needed; run `{install}` as root", programs.join(" and "));
    }
    Ok(())
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> Result<String> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting sha256sum")?;
    let mut stdin = child.stdin.take().context("its input")?;
    stdin.write_all(bytes).context("writing to sha256sum")?;
    drop(stdin);
    let output = child.wait_with_output().context("reading from sha256sum")?;
    ensure!(
        output.status.success(),
        "sha256sum ended with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout).context("what sha256sum says")?;
    let digest = text.split_whitespace().next();
    Ok(digest.context("sha256sum says nothing")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha256() {
        let digest = sha256(b"abc").expect("sha256sum");
        assert!(digest.starts_with("ba7816bf8f01cfea"), "{digest}");
    }
}
