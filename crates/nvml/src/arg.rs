//! What C passes, checked and given a type: a required pointer, a text buffer, a list, a versioned
//! struct, a limited number. Everything past this module works with the right-hand side only.

use std::ffi::{CStr, c_char};

use crate::code::{Answer, Fault};

/// A required pointer to one value (or to the first of several).
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

/// Refuses NULL.
pub fn out<T>(pointer: *mut T) -> Result<Out<T>, Fault> {
    if pointer.is_null() {
        return Err(Fault::InvalidArgument);
    }
    Ok(Out(pointer))
}

impl<T: Copy> Out<T> {
    /// Writes the value.
    pub fn set(self, value: T) {
        // SAFETY: not NULL (checked in `out`); that it points to a writable T is the C caller's
        // promise. Alignment is not relied on.
        unsafe { self.0.write_unaligned(value) }
    }

    /// Reads the value.
    pub fn get(self) -> T {
        // SAFETY: as in `set`, readable by the same promise.
        unsafe { self.0.read_unaligned() }
    }

    /// The `at`-th value behind the pointer.
    pub fn nth(self, at: usize) -> Out<T> {
        Out(self.0.wrapping_add(at))
    }

    /// The same place seen as another type.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The value `bytes` further on, as a field of the struct behind the pointer.
    pub fn field<U>(self, bytes: usize) -> Out<U> {
        Out(self.0.cast::<u8>().wrapping_add(bytes).cast())
    }

    /// The address, to be compared or kept, not followed.
    pub fn address(self) -> *mut T {
        self.0
    }
}

/// A struct that begins with a version word.
pub trait Versioned: Copy {
    /// `version << 24 | size`.
    const WORD: u32;
}

/// Refuses a struct whose version word is not the one of `T`, before anything else in it is touched.
pub fn versioned<T: Versioned>(pointer: *mut T) -> Result<Out<T>, Fault> {
    let place = out(pointer)?;
    word(place.cast(), T::WORD)?;
    Ok(place)
}

/// Refuses a version word other than `wanted`.
pub fn word(place: Out<u32>, wanted: u32) -> Answer {
    if place.get() == wanted {
        Ok(())
    } else {
        Err(Fault::VersionMismatch)
    }
}

/// Refuses a struct (known only by its version word) of another version.
pub fn version(pointer: *mut u32, wanted: u32) -> Answer {
    word(out(pointer)?, wanted)
}

/// Refuses a number outside an enumeration of `count` values.
pub fn limit(value: u32, count: u32) -> Result<u32, Fault> {
    if value < count {
        Ok(value)
    } else {
        Err(Fault::InvalidArgument)
    }
}

/// A text buffer of the caller.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    start: Out<u8>,
    room: usize,
}

impl Text {
    /// Refuses NULL.
    pub fn new(start: *mut c_char, room: u32) -> Result<Text, Fault> {
        Ok(Text {
            start: out(start.cast())?,
            room: room as usize,
        })
    }

    /// Bytes the caller has.
    pub fn room(self) -> usize {
        self.room
    }

    /// Writes the pieces one after another and a NUL; too short a buffer is left untouched.
    pub fn write(self, pieces: &[&str]) -> Answer {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len + 1 > self.room {
            return Err(Fault::InsufficientSize);
        }
        let mut at = self.start;
        for piece in pieces {
            // SAFETY: the caller promises `room` bytes, and all pieces and the NUL fit in them; a Rust string
            // cannot overlap a buffer the caller lends for writing.
            unsafe { at.0.copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
            at = at.nth(piece.len());
        }
        at.set(0);
        Ok(())
    }

    /// Writes as much as fits and a NUL, as the few calls do that cut.
    pub fn write_cut(self, text: &str) -> Answer {
        let Some(last) = self.room.checked_sub(1) else {
            return Err(Fault::InvalidArgument);
        };
        let mut end = text.len().min(last);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.write(&[&text[..end]])
    }
}

/// Text put together in place, as reading allocates nothing; what does not fit is cut.
pub struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    /// Writes what `format_args!` holds.
    pub fn of(text: std::fmt::Arguments) -> Line<N> {
        let mut line = Line::new();
        // Writing to a Line cannot fail.
        let _ = std::fmt::Write::write_fmt(&mut line, text);
        line
    }

    /// Nothing yet.
    pub fn new() -> Line<N> {
        Line {
            bytes: [0; N],
            len: 0,
        }
    }

    /// What was written.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl<const N: usize> Default for Line<N> {
    fn default() -> Line<N> {
        Line::new()
    }
}

impl<const N: usize> std::fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let mut end = text.len().min(N - self.len);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes[self.len..self.len + end].copy_from_slice(&text.as_bytes()[..end]);
        self.len += end;
        Ok(())
    }
}

/// Text the caller passes in; at most 256 bytes are looked at.
pub fn text_in<'a>(pointer: *const c_char) -> Result<&'a str, Fault> {
    const LONGEST: usize = 256;
    let start = out(pointer.cast_mut())?;
    // SAFETY: a NUL-terminated string is the C caller's promise; strnlen stops at the NUL.
    let len = unsafe { libc::strnlen(start.address(), LONGEST) };
    if len == LONGEST {
        return Err(Fault::InvalidArgument);
    }
    // SAFETY: a NUL stands at `len`, as just found.
    let text = unsafe { CStr::from_ptr(start.address()) };
    text.to_str().map_err(|_| Fault::InvalidArgument)
}

/// A list of the caller: how much room there is, and where (NULL when only the size is asked for).
#[derive(Debug, Clone, Copy)]
pub struct List<T> {
    count: Out<u32>,
    start: *mut T,
    written: usize,
}

impl<T: Copy> List<T> {
    /// Takes the caller's count and buffer; refuses room that is nowhere.
    pub fn new(count: Out<u32>, start: *mut T) -> Result<List<T>, Fault> {
        if start.is_null() && count.get() != 0 {
            return Err(Fault::InvalidArgument);
        }
        Ok(List {
            count,
            start,
            written: 0,
        })
    }

    /// As `new`, for the calls where a NULL buffer asks for the size whatever the count says.
    pub fn sizing(count: Out<u32>, start: *mut T) -> List<T> {
        List {
            count,
            start,
            written: 0,
        }
    }

    /// Counts an entry and writes it while there is room.
    pub fn push(&mut self, entry: T) {
        if !self.start.is_null() && self.written < self.count.get() as usize {
            Out(self.start).nth(self.written).set(entry);
        }
        self.written += 1;
    }

    /// Answers: the number of entries, or 7 with the number needed.
    pub fn finish(self) -> Answer {
        let room = if self.start.is_null() {
            0
        } else {
            self.count.get() as usize
        };
        self.count.set(self.written as u32);
        if self.written > room {
            return Err(Fault::InsufficientSize);
        }
        Ok(())
    }
}

/// Refuses every vGPU instance: 0 is none, and no other is active on bare metal.
pub fn vgpu(instance: u32) -> Answer {
    Err(if instance == 0 {
        Fault::InvalidArgument
    } else {
        Fault::NotFound
    })
}

/// Refuses every vGPU type: bare metal has none.
pub fn vgpu_type(_: u32) -> Answer {
    Err(Fault::InvalidArgument)
}
