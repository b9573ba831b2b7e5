//! What a container of this node gets so that it sees exactly its GPUs: one answer for the device plugin and the runtime hook.

use std::path::{Path, PathBuf};

pub(super) use crate::driver::edits::{DeviceNode, Edits, MOUNT_OPTIONS, Mount, NODE_MODE, Places};

use super::Node;

impl Node {
    /// Where the things lie that containers get: in a driver root if one is installed, else beside this program. `None`
    /// when there is no library at all.
    pub(super) fn places(&self, root: Option<&Path>) -> Option<Places> {
        let state = self.inside.state_dir.join(&self.name);
        let host = Path::new("/");
        match root {
            Some(root) => {
                let dev = root.join("dev");
                let real = is_node(&dev.join("nvidiactl")).then_some(dev);
                Some(Places::of_root(root, real.as_deref(), &state, host))
            }
            None => {
                let library: PathBuf = self.inside.library.clone()?;
                Some(Places::of_library(&library, &state, host))
            }
        }
    }
}

/// Whether a path is a character device: a driver root that could make none has plain files instead.
pub(super) fn is_node(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}
