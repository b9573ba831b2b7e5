//! S-class units: a product of another age. There are none, so no handle is one.

use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::handle::Handle;
use crate::session::Session;

/// `nvmlUnitGetCount`.
pub fn unit_count(_: &Session, out: Out<u32>) -> Answer {
    out.set(0);
    Ok(())
}

/// `nvmlUnitGetHandleByIndex`: every index is past the end.
pub fn unit_handle_by_index(_: &Session, _: u32, _: Out<Handle>) -> Answer {
    Err(Fault::InvalidArgument)
}

/// A unit handle, of which none is valid.
pub fn unit(_: Handle) -> Answer {
    Err(Fault::InvalidArgument)
}
