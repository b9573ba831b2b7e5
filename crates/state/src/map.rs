//! A file in memory, shared with every other process that maps it.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    ptr::{self, NonNull},
    slice,
    sync::atomic::AtomicU64,
};

use crate::words::WORD;

/// A shared mapping of a whole number of words. The file is at least that long when it is mapped and
/// its writers never shrink it, so no access can raise SIGBUS.
pub(crate) struct Map {
    at: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and all access goes through atomics.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `words` words for reading; stores through it are a bug and would fault.
    pub(crate) fn readable(file: &File, words: usize) -> io::Result<Map> {
        Map::new(file, words, libc::PROT_READ)
    }

    /// Maps the first `words` words for reading and writing.
    pub(crate) fn writable(file: &File, words: usize) -> io::Result<Map> {
        Map::new(file, words, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn new(file: &File, words: usize, protection: libc::c_int) -> io::Result<Map> {
        let bytes = words * WORD;
        if words == 0 || file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a fresh mapping at an address the kernel chooses aliases nothing of ours; the
        // descriptor is open and the length is not zero.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Map { at, words })
    }

    /// The words of the file.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `words` long and lives as long as `self`; others only
        // change it through memory that is atomic here. A read-only mapping is only ever loaded from,
        // relaxed, which works on read-only pages.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.words) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this is the mapping `new` made, unmapped once; no borrow outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.words * WORD) };
    }
}
