//! Calling any function of the list with words: the library as an object, and arguments as right as can be.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::{CString, c_void};

use nvidia_ml::abi::*;
use nvidia_ml::arg::Versioned;

use crate::list::Symbol;
use crate::object;

/// Integers and pointers all travel the same way, so every function can be called with words.
pub(crate) type Function =
    extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> u32;

/// One C argument, with a value that is as right as can be.
#[derive(Debug, Clone)]
pub(crate) struct Arg {
    pub(crate) word: String,
    pub(crate) value: usize,
    /// The buffer it points to.
    pub(crate) buffer: Option<usize>,
}

pub(crate) struct Library {
    pub(crate) handle: *mut c_void,
}

impl Library {
    pub(crate) fn open() -> Library {
        let path = CString::new(object::path().into_os_string().into_encoded_bytes());
        let path = path.expect("no NUL in a path");
        // SAFETY: a NUL-terminated path; loading our own object runs no constructors of ours.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "the object loads");
        Library { handle }
    }

    pub(crate) fn function(&self, name: &str) -> Function {
        let name = CString::new(name).expect("no NUL in a name");
        // SAFETY: the handle is open and the name NUL-terminated.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} is exported");
        // SAFETY: an exported C function of at most eight integer or pointer arguments.
        unsafe { std::mem::transmute::<*mut c_void, Function>(found) }
    }

    pub(crate) fn call(&self, name: &str, args: &[usize]) -> u32 {
        let at = |index: usize| args.get(index).copied().unwrap_or(0);
        self.function(name)(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7))
    }
}

/// Version words of structs by the name they have in the list.
pub(crate) fn version_word(name: &str) -> u32 {
    macro_rules! words {
        ($($kind:ident),*) => { match name {
            $(stringify!($kind) => $kind::WORD,)*
            other => panic!("{other} has no version word here"),
        } };
    }
    words!(
        PciInfoExt,
        MemoryV2,
        ProcessDetailList,
        CoolerInfo,
        Uuid,
        Pdi,
        MarginTemperature,
        Temperature,
        FanSpeedInfo,
        LongText,
        ProcessesUtilization,
        EccSramStatus,
        EccSramUnique,
        PowerValue,
        SystemSetRequest,
        SystemRegisterRequest,
        ConfidentialSettings,
        DriverBranch,
        NvlinkBwModes,
        NvlinkBwMode,
        DeviceCapabilities,
        AddressingMode,
        RepairStatus,
        ProfilesInfo,
        CurrentProfiles,
        RequestedProfiles,
        SmoothingProfile,
        SmoothingState
    )
}

/// Structs of several versions, which check the word themselves; and plain version numbers.
pub(crate) fn own_version(symbol: &str) -> Option<u32> {
    Some(match symbol {
        "nvmlDeviceGetPlatformInfo" => PlatformInfo::WORD,
        "nvmlDeviceGetGpuFabricInfoV" => FabricInfoV2::WORD,
        "nvmlDeviceGetNvLinkInfo" => NvlinkInfo::WORD,
        "nvmlDeviceGetGpuInstanceProfileInfoV" | "nvmlDeviceGetGpuInstanceProfileInfoByIdV" => {
            GpuProfileInfoV2::WORD
        }
        "nvmlGpuInstanceGetComputeInstanceProfileInfoV" => ComputeProfileInfoV2::WORD,
        "nvmlGpmMetricsGet" | "nvmlGpmQueryDeviceSupport" => 1,
        "nvmlSystemEventSetWait" => SystemWaitRequest::WORD,
        _ => return None,
    })
}

/// Buffers of the caller, larger than any struct.
pub(crate) struct Buffers(Vec<Vec<u64>>);

pub(crate) const BUFFER: usize = 64 << 10;

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers((0..8).map(|_| vec![0; BUFFER / 8]).collect())
    }

    pub(crate) fn address(&mut self, index: usize) -> usize {
        self.0[index].as_mut_ptr() as usize
    }

    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        self.0[index]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    pub(crate) fn fill(&mut self, index: usize, byte: u8) {
        self.0[index].fill(u64::from_le_bytes([byte; 8]));
    }

    pub(crate) fn set_word(&mut self, index: usize, word: u32) {
        let first = &mut self.0[index][0];
        *first = *first >> 32 << 32 | u64::from(word);
    }
}

/// Handles of every kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handles {
    pub(crate) gpu: usize,
    /// A GPU in MIG mode.
    pub(crate) cut: usize,
    pub(crate) mig: usize,
    pub(crate) gi: usize,
    pub(crate) ci: usize,
    pub(crate) set: usize,
    pub(crate) sample: usize,
}

impl Handles {
    /// Of a node whose second GPU has two MIG devices, the latter in GPU instance 2.
    pub(crate) fn get(library: &Library) -> Handles {
        let cut = one(library, "nvmlDeviceGetHandleByIndex_v2", &[1]);
        let gi = one(library, "nvmlDeviceGetGpuInstanceById", &[cut, 2]);
        Handles {
            cut,
            mig: one(library, "nvmlDeviceGetMigDeviceHandleByIndex", &[cut, 1]),
            gi,
            ci: one(library, "nvmlGpuInstanceGetComputeInstanceById", &[gi, 0]),
            ..Handles::whole(library)
        }
    }

    /// Of a node where nothing is cut.
    pub(crate) fn whole(library: &Library) -> Handles {
        Handles {
            gpu: one(library, "nvmlDeviceGetHandleByIndex_v2", &[0]),
            cut: 0,
            mig: 0,
            gi: 0,
            ci: 0,
            set: one(library, "nvmlEventSetCreate", &[]),
            sample: one(library, "nvmlGpmSampleAlloc", &[]),
        }
    }
}

/// The handle a function writes into its last argument.
fn one(library: &Library, name: &str, args: &[usize]) -> usize {
    let mut handle = 0_usize;
    let mut all = args.to_vec();
    all.push(&raw mut handle as usize);
    assert_eq!(library.call(name, &all), 0, "{name}");
    handle
}

/// Good arguments for a function.
pub(crate) fn good(symbol: &Symbol, handles: &Handles, buffers: &mut Buffers) -> Vec<Arg> {
    let mut args = Vec::new();
    for word in &symbol.shape {
        let index = args.len();
        let mut push = |value: usize, buffer: Option<usize>| {
            args.push(Arg {
                word: word.clone(),
                value,
                buffer,
            });
        };
        match word.as_str() {
            "dev" | "card" | "any" | "anycard" => push(handles.gpu, None),
            "gi" => push(handles.gi, None),
            "ci" => push(handles.ci, None),
            "set" if symbol.name.starts_with("nvmlGpm") => push(handles.sample, None),
            "set" => push(handles.set, None),
            "unit" | "vgpu" | "vtype" => push(1, None),
            "text" => {
                let address = buffers.address(index);
                push(address, Some(index));
                push(BUFFER, None);
            }
            word if word == "str"
                || word.starts_with(['*', '?'])
                || word.starts_with("v:")
                || word.starts_with("v=") =>
            {
                buffers.fill(index, 0);
                let version = match word {
                    word if word.starts_with("v:") => version_word(&word[2..]),
                    word if word.starts_with("v=") => {
                        u32::from_str_radix(&word[4..], 16).expect("a word in hexadecimal")
                    }
                    _ => own_version(&symbol.name)
                        .filter(|_| !word.contains("Handle"))
                        .unwrap_or(0),
                };
                buffers.set_word(index, version);
                let address = buffers.address(index);
                push(address, Some(index));
            }
            _ => push(0, None),
        }
    }
    args
}

pub(crate) fn values(args: &[Arg]) -> Vec<usize> {
    args.iter().map(|arg| arg.value).collect()
}

/// Functions that end the session, or change it for good: called by themselves.
pub(crate) fn walks(symbol: &Symbol) -> bool {
    ![
        "nvmlInit",
        "nvmlInit_v2",
        "nvmlInitWithFlags",
        "nvmlShutdown",
        "nvmlErrorString",
        "nvmlEventSetFree",
        "nvmlGpmSampleFree",
    ]
    .contains(&symbol.name.as_str())
}
