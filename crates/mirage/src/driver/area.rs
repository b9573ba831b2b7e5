//! A directory things are made in. Every path below it is walked name by name without following symbolic links, so nothing can
//! lead out of it; what is made appears whole, by a rename out of a staging directory beside it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, linkat, major, makedev, minor, mkdirat,
    mknodat, openat, readlinkat, renameat, statat, symlinkat, unlinkat,
};

use super::item::{Mark, Place, What};

/// Where things wait until all are ready. Only the holder of the lock touches it.
pub(super) const STAGE: &str = ".mirage.new";

/// A directory, and where it stands.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) place: Place,
    pub(super) base: PathBuf,
    directory: Option<OwnedFd>,
    /// The last directory walked to: neighbours come one after the other.
    walked: Option<(PathBuf, OwnedFd)>,
    /// The staging directory, once there is one.
    stage: Option<OwnedFd>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Thing(Mark),
    /// A socket, a pipe, a disk.
    Other,
}

const FOLLOW_NOTHING: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Area {
    pub(super) fn new(place: Place, base: PathBuf) -> Area {
        Area {
            place,
            base,
            directory: None,
            walked: None,
            stage: None,
        }
    }

    /// The path as people know it.
    pub(super) fn shown(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    /// Opens the directory; false if there is none.
    pub(super) fn open(&mut self) -> Result<bool> {
        if self.directory.is_some() {
            return Ok(true);
        }
        let shown = self.base.display();
        // The operator names the directory; only the root must not be somebody's link elsewhere.
        if self.place == Place::Root && self.base.is_symlink() {
            bail!("{shown} is a symbolic link; name the directory it points to");
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, &self.base, flags, Mode::empty()) {
            Ok(directory) => self.directory = Some(directory),
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(rustix::io::Errno::NOTDIR) => bail!("{shown} is not a directory"),
            Err(error) => {
                return Err(io::Error::from(error)).with_context(|| format!("opening {shown}"));
            }
        }
        Ok(true)
    }

    /// The directory and its parents as far as they are not there, outermost first.
    pub(super) fn missing(&self) -> Vec<PathBuf> {
        let missing = self.base.ancestors().take_while(|dir| !dir.exists());
        let mut missing: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
        missing.reverse();
        missing
    }

    /// Opens the directory, making it and its parents if need be; says which were made, outermost first.
    pub(super) fn make(&mut self) -> Result<Vec<PathBuf>> {
        if self.open()? {
            return Ok(Vec::new());
        }
        let mut made = Vec::new();
        for dir in self.missing() {
            let done = fs::DirBuilder::new()
                .mode(0o755)
                .create(&dir)
                .and_then(|()| fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)));
            if let Err(error) = done {
                unmake(&made);
                let way_out = match error.kind() {
                    ErrorKind::PermissionDenied => {
                        "; run as root, or choose places of your own (--root)"
                    }
                    _ => "",
                };
                return Err(error)
                    .with_context(|| format!("making the directory {}{way_out}", dir.display()));
            }
            made.push(dir);
        }
        self.open()?;
        Ok(made)
    }

    fn directory(&self) -> io::Result<BorrowedFd<'_>> {
        let directory = self.directory.as_ref().ok_or(ErrorKind::NotFound)?;
        Ok(directory.as_fd())
    }

    /// The directory a path lies in, and its name there.
    fn parent<'a>(&mut self, path: &'a Path) -> io::Result<(BorrowedFd<'_>, &'a Path)> {
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        if parent.as_os_str().is_empty() {
            return Ok((self.directory()?, Path::new(name)));
        }
        if self
            .walked
            .as_ref()
            .is_none_or(|(walked, _)| walked != parent)
        {
            let mut at: Option<OwnedFd> = None;
            for part in parent.components() {
                let from = match &at {
                    Some(at) => at.as_fd(),
                    None => self.directory()?,
                };
                at = Some(openat(
                    from,
                    part.as_os_str(),
                    FOLLOW_NOTHING,
                    Mode::empty(),
                )?);
            }
            let at = at.ok_or(ErrorKind::InvalidInput)?;
            self.walked = Some((parent.to_path_buf(), at));
        }
        let (_, walked) = self.walked.as_ref().ok_or(ErrorKind::NotFound)?;
        Ok((walked.as_fd(), Path::new(name)))
    }

    /// What stands at a path.
    pub(super) fn look(&mut self, path: &Path) -> Result<Found> {
        let shown = self.shown(path);
        if self.directory.is_none() {
            return Ok(Found::Nothing);
        }
        match self.find(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) if is_in_the_way(&error) => {
                bail!(
                    "{}: something on the way is a symbolic link or a file, and nothing is followed out of {}; move it away",
                    shown.display(),
                    self.base.display()
                )
            }
            found => found.with_context(|| format!("looking at {}", shown.display())),
        }
    }

    fn find(&mut self, path: &Path) -> io::Result<Found> {
        let (parent, name) = self.parent(path)?;
        let there = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Found::Thing(match FileType::from_raw_mode(there.st_mode) {
            FileType::Directory => Mark::Directory,
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = openat(parent, name, flags, Mode::empty())?;
                Mark::File(digest(File::from(file))?)
            }
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new())?;
                Mark::Link(PathBuf::from(std::ffi::OsString::from(
                    target.to_string_lossy().into_owned(),
                )))
            }
            FileType::CharacterDevice => Mark::Node(major(there.st_rdev), minor(there.st_rdev)),
            _ => return Ok(Found::Other),
        }))
    }

    /// Makes a directory everybody may enter.
    pub(super) fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
        let made = openat(parent, name, FOLLOW_NOTHING, Mode::empty())?;
        // Whatever the umask: containers of other users read this.
        fchmod(made, Mode::from_raw_mode(0o755))?;
        Ok(())
    }

    /// Removes a directory if it is empty; false if it is not.
    pub(super) fn remove_directory(&mut self, path: &Path) -> io::Result<bool> {
        self.walked = None;
        let (parent, name) = self.parent(path)?;
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes anything but a directory.
    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(unlinkat(parent, name, AtFlags::empty())?)
    }

    /// The staging directory, made if need be.
    fn stage(&mut self) -> io::Result<()> {
        if self.stage.is_some() {
            return Ok(());
        }
        let base = self.directory()?;
        match mkdirat(base, STAGE, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.stage = Some(openat(base, STAGE, FOLLOW_NOTHING, Mode::empty())?);
        Ok(())
    }

    /// [`Area::parent`] beside the staging directory.
    fn both<'a>(
        &mut self,
        path: &'a Path,
    ) -> io::Result<(BorrowedFd<'_>, BorrowedFd<'_>, &'a Path)> {
        self.stage()?;
        // The walk is remembered, so that both can be borrowed.
        self.parent(path)?;
        let stage = self.stage.as_ref().ok_or(ErrorKind::NotFound)?.as_fd();
        let name = Path::new(path.file_name().ok_or(ErrorKind::InvalidInput)?);
        let is_top = path.parent().is_none_or(|p| p.as_os_str().is_empty());
        let parent = match &self.walked {
            Some((_, walked)) if !is_top => walked.as_fd(),
            _ => self.directory()?,
        };
        Ok((stage, parent, name))
    }

    /// Makes a thing in the staging directory, under a number.
    pub(super) fn prepare(&mut self, number: usize, what: &What) -> io::Result<()> {
        self.stage()?;
        let stage = self.stage.as_ref().ok_or(ErrorKind::NotFound)?;
        let name = number.to_string();
        match what {
            What::Directory => Ok(()),
            What::File { bytes, mode } => write(stage, &name, *mode, |file| file.write_all(bytes)),
            What::Copy { from, mode } => write(stage, &name, *mode, |file| {
                // The kernel copies, and shares blocks where it can.
                io::copy(&mut File::open(from)?, file).map(|_| ())
            }),
            What::Link { target } => Ok(symlinkat(target, stage, &name)?),
            What::Node { major, minor } => {
                let device = makedev(*major, *minor);
                let mode = Mode::from_raw_mode(0o666);
                mknodat(stage, &name, FileType::CharacterDevice, mode, device)?;
                Ok(rustix::fs::chmodat(stage, &name, mode, AtFlags::empty())?)
            }
        }
    }

    /// Another name, under a number, for a thing that was prepared under another number.
    pub(super) fn prepare_same(&mut self, number: usize, same: usize) -> io::Result<()> {
        let stage = self.stage.as_ref().ok_or(ErrorKind::NotFound)?;
        let (from, to) = (same.to_string(), number.to_string());
        Ok(linkat(stage, from, stage, to, AtFlags::empty())?)
    }

    /// Whether this process may make device nodes here.
    pub(super) fn can_make_nodes(&mut self) -> bool {
        let (major, minor) = (super::host::NVIDIA, 255);
        let made = self.prepare(usize::MAX, &What::Node { major, minor });
        if let Some(stage) = &self.stage {
            // There only if it could be made.
            let _ = unlinkat(stage, usize::MAX.to_string(), AtFlags::empty());
        }
        made.is_ok()
    }

    /// Moves a prepared thing to its path, in one step.
    pub(super) fn put(&mut self, number: usize, path: &Path) -> io::Result<()> {
        let (stage, parent, name) = self.both(path)?;
        Ok(renameat(stage, number.to_string(), parent, name)?)
    }

    /// Moves what stands at a path to the staging directory, from where [`Area::put`] can bring it back.
    pub(super) fn take(&mut self, number: usize, path: &Path) -> io::Result<()> {
        let (stage, parent, name) = self.both(path)?;
        Ok(renameat(parent, name, stage, number.to_string())?)
    }

    /// Removes the staging directory and all that is left in it, this run's or a dead one's.
    pub(super) fn clear_stage(&mut self) -> Result<()> {
        let shown = self.shown(Path::new(STAGE));
        self.empty_stage().with_context(|| {
            format!(
                "clearing {}, where an earlier run left things; move it away",
                shown.display()
            )
        })
    }

    fn empty_stage(&mut self) -> io::Result<()> {
        self.stage = None;
        let Ok(base) = self.directory() else {
            return Ok(());
        };
        let stage = match openat(base, STAGE, FOLLOW_NOTHING, Mode::empty()) {
            Ok(stage) => stage,
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in Dir::read_from(&stage)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                unlinkat(&stage, name, AtFlags::empty())?;
            }
        }
        Ok(unlinkat(base, STAGE, AtFlags::REMOVEDIR)?)
    }
}

fn write(
    stage: &OwnedFd,
    name: &str,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(stage, name, flags, Mode::from_raw_mode(0o600))?);
    fill(&mut file)?;
    Ok(fchmod(&file, Mode::from_raw_mode(mode))?)
}

/// Whether the walk met a symbolic link, or a file where a directory should be.
fn is_in_the_way(error: &io::Error) -> bool {
    let looped = rustix::io::Errno::LOOP.raw_os_error();
    error.kind() == ErrorKind::NotADirectory || error.raw_os_error() == Some(looped)
}

/// SHA-1 of a file, in hexadecimal.
pub(super) fn digest(mut file: File) -> io::Result<String> {
    let mut sum = sha1_smol::Sha1::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum.digest().to_string()),
            len => sum.update(&buffer[..len]),
        }
    }
}

/// Removes directories, innermost first, as far as they are empty.
pub(super) fn unmake(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        // Not empty means somebody else uses it by now, and keeps it.
        let _ = fs::remove_dir(dir);
    }
}
