//! Sockets that a process left behind: one that nobody listens at may be taken away, and nothing else.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Takes away a socket that nobody listens at; fine if there is none. What is no socket, or somebody's, stays, with an error.
pub(super) fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::other("the path is taken by what is no socket"));
        }
        Ok(_) => {}
        Err(_) => return Ok(()),
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::other("another process serves it")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        // Who cannot be asked may be there.
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_a_socket_that_nobody_listens_at_goes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        clear(&path).expect("nothing there");
        let listener = UnixListener::bind(&path).expect("a socket");
        clear(&path).expect_err("somebody listens");
        assert!(path.exists());
        drop(listener);
        clear(&path).expect("nobody listens");
        assert!(!path.exists());
        fs::write(&path, "mine").expect("a file");
        clear(&path).expect_err("no socket");
        assert!(path.exists());
    }
}
