//! Operational events, NVML's newest form: registered by UUID, with the Xid as the context of an event.

use mirage_state::layout::{event_kinds, text};

use super::{register, set};
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::handle::Handle;
use crate::session::Session;

/// The only context an event has here: its Xid.
const LEGACY_XID: u32 = 1;

/// `nvmlEventSetRegisterGpuOperationalEvents_v1`: one GPU by UUID, or all with an empty one.
pub fn register_operational(s: &Session, handle: Handle, config: Out<[u8; 104]>) -> Answer {
    let set = set(handle)?;
    let config = config.get();
    let uuid = text(&config[..96]);
    let kinds = event_kinds::XID | event_kinds::UNAVAILABLE | event_kinds::RECOVERY;
    let mut found = false;
    for &gpu in s.visible() {
        let gpu = s.at(gpu as usize);
        if uuid.is_empty() || text(&gpu.card().uuid).eq_ignore_ascii_case(uuid) {
            register(set, &gpu, kinds)?;
            found = true;
        }
    }
    if found { Ok(()) } else { Err(Fault::NotFound) }
}

/// The Xid of the set's last event, as its only context.
fn context(handle: Handle, index: u32) -> Result<u32, Fault> {
    match set(handle)?.xid.load(std::sync::atomic::Ordering::SeqCst) {
        0 => Err(Fault::NoData),
        _ if index != 0 => Err(Fault::InvalidArgument),
        xid => Ok(xid as u32),
    }
}

/// `nvmlEventSetGetContextCount_v1`.
pub fn context_count(_: &Session, handle: Handle, out: Out<u32>) -> Answer {
    set(handle)?;
    out.set(context(handle, 0).is_ok().into());
    Ok(())
}

/// `nvmlEventSetGetContextInfo_v1`: index in; kind, source, size, format out.
pub fn context_info(_: &Session, handle: Handle, out: Out<[u32; 5]>) -> Answer {
    let [index, ..] = out.get();
    context(handle, index)?;
    out.set([index, LEGACY_XID, LEGACY_XID, size_of::<u32>() as u32, 1]);
    Ok(())
}

/// `nvmlEventSetGetContextData_v1`: a pointer, an index and its room.
pub fn context_data(_: &Session, handle: Handle, out: Out<u8>) -> Answer {
    let xid = context(handle, out.field::<u32>(8).get())?;
    let room = out.field::<u32>(12);
    let enough = room.get() as usize >= size_of::<u32>();
    room.set(size_of::<u32>() as u32);
    if !enough {
        return Err(Fault::InsufficientSize);
    }
    crate::arg::out(out.field::<*mut u32>(0).get())?.set(xid);
    Ok(())
}

/// `nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1`.
pub fn context_xid(_: &Session, handle: Handle, out: Out<[u32; 2]>) -> Answer {
    let [index, _] = out.get();
    out.set([index, context(handle, index)?]);
    Ok(())
}
