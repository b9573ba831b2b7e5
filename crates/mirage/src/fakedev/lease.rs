//! The socket's file: private to its owner, put in place in one step, and taken away again.

use std::fs;
use std::io::{Error as IoError, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use super::Error;

/// A socket that is listened on; its file goes when this does.
#[derive(Debug)]
pub(super) struct Lease {
    path: PathBuf,
    /// What tells the file from one that another server put there since.
    inode: (u64, u64),
}

impl Lease {
    /// Where the socket is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Listens on a socket, in place of whatever socket was left there before.
pub(super) fn listen(path: &Path) -> Result<(UnixListener, Lease), Error> {
    let (listener, lease) = listen_blocking(path)?;
    let listener = UnixListener::from_std(listener).map_err(|error| told(path, error))?;
    Ok((listener, lease))
}

/// The same where no runtime runs yet.
pub(super) fn listen_blocking(path: &Path) -> Result<(StdListener, Lease), Error> {
    bind(path).map_err(|error| told(path, error))
}

fn told(path: &Path, source: IoError) -> Error {
    Error::System {
        attempt: "listening on",
        place: path.display().to_string(),
        source,
    }
}

fn bind(path: &Path) -> Result<(StdListener, Lease), IoError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(IoError::new(
                ErrorKind::AlreadyExists,
                "there is a file that is no socket; name another path or remove it",
            ));
        }
        _ => {}
    }
    // Bound under another name, so that nobody can connect before it is private.
    let hidden = path.with_file_name(format!(".fd{}", std::process::id()));
    // Left by a process of the same number, if at all.
    let _ = fs::remove_file(&hidden);
    let listener = StdListener::bind(&hidden)?;
    listener.set_nonblocking(true)?;
    let placed = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&hidden, path))
        .and_then(|()| fs::symlink_metadata(path));
    match placed {
        Ok(found) => Ok((
            listener,
            Lease {
                path: path.to_owned(),
                inode: (found.dev(), found.ino()),
            },
        )),
        Err(error) => {
            let _ = fs::remove_file(&hidden);
            Err(error)
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.inode);
        if ours {
            // Gone is gone, whoever removed it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_file_is_private_and_goes_with_its_lease() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (_listener, lease) = listen(&path).unwrap();
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(lease);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_successor_s_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (_first, old) = listen(&path).unwrap();
        let (_second, _new) = listen(&path).unwrap();
        drop(old);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").unwrap();
        assert!(listen(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
