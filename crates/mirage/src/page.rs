//! The start page of `mirage up`: where to look, and what to try next.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mirage_model::board::Vendor;
use mirage_model::plan::Plan;

/// What the start page tells.
#[derive(Debug)]
pub struct Page<'a> {
    /// The fleet.
    pub plan: &'a Plan,
    /// Where HTTP is served.
    pub address: SocketAddr,
    /// The state directory.
    pub state: &'a Path,
    /// Whether `mirage ctl` looks there by itself.
    pub ctl_finds: bool,
    /// Whether NVML clients do.
    pub nvml_finds: bool,
    /// The state file's directory of the first node, if nodes have files.
    pub node_state: Option<PathBuf>,
    /// The directory for `LD_LIBRARY_PATH`, if there is a library.
    pub library: Option<PathBuf>,
}

impl Page<'_> {
    /// The page's text.
    pub fn text(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut page);
        page
    }

    fn write(&self, page: &mut String) -> std::fmt::Result {
        let base = base(self.address);
        if self.plan.nodes.is_empty() {
            writeln!(page, "mirage: no nodes yet")?;
        } else {
            writeln!(page, "mirage: {}", summary(self.plan))?;
        }
        writeln!(page)?;
        writeln!(page, "  metrics    {base}/metrics")?;
        if let [_, second, ..] = self.plan.nodes.as_slice() {
            let name = &second.name;
            writeln!(page, "  one node   {base}/nodes/{name}/metrics")?;
        }
        writeln!(page, "  API        {base}/api/v1/gpus")?;
        writeln!(page, "  discovery  {base}/sd")?;
        writeln!(page, "  state      {}", self.state.display())?;
        writeln!(page)?;
        let mut gpus = self.plan.nodes.iter().flat_map(|node| &node.gpus);
        if gpus.any(|gpu| gpu.board.vendor == Vendor::Nvidia) {
            self.write_nvml(page)?;
        }
        let node = self.plan.nodes.first();
        let gpu = node.and_then(|node| {
            let index = node.gpus.len().min(4).checked_sub(1)?;
            Some((node, index, node.gpus.get(index)?))
        });
        if let Some((node, index, gpu)) = gpu {
            let device = match self.plan.nodes.len() {
                1 => index.to_string(),
                _ => format!("{}/{index}", node.name),
            };
            let fault = match gpu.board.vendor {
                Vendor::Nvidia => "xid=79",
                // Others report no Xids.
                _ => "lost",
            };
            let option = if self.ctl_finds {
                String::new()
            } else {
                format!(" --state-dir {}", quoted(self.state))
            };
            writeln!(page, "Break one, and heal it:")?;
            writeln!(
                page,
                "  mirage ctl{option} fault inject {fault} --device {device}"
            )?;
            writeln!(page, "  mirage ctl{option} fault heal --device {device}")?;
        }
        Ok(())
    }

    fn write_nvml(&self, page: &mut String) -> std::fmt::Result {
        let Some(node_state) = &self.node_state else {
            return writeln!(
                page,
                "NVML clients need state files; a fleet this large writes them only with \
                 --state-files.\n"
            );
        };
        match &self.library {
            Some(library) => {
                writeln!(page, "NVML clients:")?;
                if !self.nvml_finds {
                    writeln!(page, "  export MIRAGE_STATE={}", quoted(node_state))?;
                }
                writeln!(page, "  export LD_LIBRARY_PATH={}", quoted(library))?;
            }
            None => {
                writeln!(page, "NVML clients need the library; build it with")?;
                writeln!(page, "  cargo build -p mirage-nvml --profile nvml")?;
            }
        }
        writeln!(page)
    }
}

/// `1 node, 8 × NVIDIA A100-SXM4-40GB`.
pub fn summary(plan: &Plan) -> String {
    let nodes = plan.nodes.len();
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for gpu in plan.nodes.iter().flat_map(|node| &node.gpus) {
        match counts.iter_mut().find(|(name, _)| *name == gpu.board.name) {
            Some((_, count)) => *count += 1,
            None => counts.push((&gpu.board.name, 1)),
        }
    }
    let gpus: Vec<_> = counts
        .iter()
        .map(|(name, count)| format!("{count} × {name}"))
        .collect();
    let place = match plan.nodes.as_slice() {
        [node] => format!("node {}", node.name),
        _ => format!("{nodes} nodes"),
    };
    if gpus.is_empty() {
        return format!("{place}, no GPUs");
    }
    format!("{place}, {}", gpus.join(", "))
}

/// The address as a URL a browser on this machine can open.
pub fn base(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("http://localhost:{}", address.port())
    } else {
        format!("http://{address}")
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@".contains(&byte);
    if text.bytes().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_links_that_open() {
        let link = |text: &str| base(text.parse().unwrap());
        assert_eq!(link("0.0.0.0:9400"), "http://localhost:9400");
        assert_eq!(link("[::]:9400"), "http://localhost:9400");
        assert_eq!(link("127.0.0.1:80"), "http://127.0.0.1:80");
    }

    #[test]
    fn paths_survive_the_shell() {
        assert_eq!(quoted(Path::new("/run/mirage")), "/run/mirage");
        assert_eq!(quoted(Path::new("/a b")), "'/a b'");
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
