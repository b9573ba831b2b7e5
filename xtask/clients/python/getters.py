"""Calls every getter nvidia-ml-py has, with every sensible argument, and judges the codes that come back.

A parameter's name says what it takes. A getter with a parameter nobody knows fails the run: a new release of the
binding must be looked at before it is pinned.
"""

import ctypes
import inspect
import itertools

import pynvml as nv

READS = ("Get", "Query", "IsMig", "OnSame", "Validate")
# Helpers of the binding itself, and a call that mends state instead of reading it.
NOT_CALLS = {"nvmlGetFunctionPointer", "nvmlGetErrorString"}
# Codes no getter of a working node may answer: the library forgot its init, lacks the function, or broke down.
NEVER = {nv.NVML_ERROR_UNINITIALIZED, nv.NVML_ERROR_FUNCTION_NOT_FOUND, nv.NVML_ERROR_LIBRARY_NOT_FOUND,
         nv.NVML_ERROR_DRIVER_NOT_LOADED, nv.NVML_ERROR_UNKNOWN}
CODES = {value for name, value in vars(nv).items() if name.startswith("NVML_ERROR_")}

GPU_PROFILES, COMPUTE_PROFILES, LINKS, FANS = 18, 9, 18, 2
CLOCKS, SENSORS = range(4), range(4)


def versioned(word=0, size=1 << 16):
    """A zeroed struct of any kind, its version word set."""
    buffer = ctypes.create_string_buffer(size)
    ctypes.memmove(buffer, ctypes.byref(ctypes.c_uint32(word)), 4)
    return buffer


def struct(*names):
    """The same for version words of the binding, by name."""
    return lambda _: [versioned(getattr(nv, name)) for name in names] + [versioned()]


def wild(kind):
    """A handle that never was."""
    return ctypes.cast(ctypes.c_void_p(0x6D697261), kind)


class Device:
    """A device and what its getters need."""

    def __init__(self, handle, others, sample, events):
        self.handle = handle
        self.others = others
        self.sample = sample
        self.events = events
        self.uuid = nv.nvmlDeviceGetUUID(handle)
        self.gpu_instances, self.compute_instances = instances(handle)

    def pids(self):
        return [process.pid for process in processes(self.handle)] + [1, 0]


def processes(handle):
    try:
        return nv.nvmlDeviceGetComputeRunningProcesses(handle)
    except nv.NVMLError:
        return []


def listed(call, owner, profile_id, kind, room):
    found, count = (kind * room)(), ctypes.c_uint(room)
    try:
        call(owner, profile_id, found, ctypes.byref(count))
    except nv.NVMLError:
        return []
    return [found[i] for i in range(count.value)]


def instances(handle):
    """Handles of the GPU and compute instances of a GPU, and a wild one of each."""
    gpu, compute = [], []
    for profile in range(GPU_PROFILES):
        try:
            info = nv.nvmlDeviceGetGpuInstanceProfileInfo(handle, profile)
        except nv.NVMLError:
            continue
        gpu += listed(nv.nvmlDeviceGetGpuInstances, handle, info.id, nv.c_nvmlGpuInstance_t, 8)
    for instance in gpu:
        for profile in range(COMPUTE_PROFILES):
            try:
                info = nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, profile, 0)
            except nv.NVMLError:
                continue
            compute += listed(nv.nvmlGpuInstanceGetComputeInstances, instance, info.id, nv.c_nvmlComputeInstance_t, 8)
    return gpu + [wild(nv.c_nvmlGpuInstance_t)], compute + [wild(nv.c_nvmlComputeInstance_t)]


def pci_info(handle):
    """The struct itself; the binding hands out a copy of its fields."""
    info = nv.nvmlPciInfo_t()
    nv._nvmlGetFunctionPointer("nvmlDeviceGetPciInfo_v3")(handle, ctypes.byref(info))
    return info


def just(*values):
    return lambda _: list(values)


def same_device(device):
    return [device.handle]


def other_devices(device):
    return device.others


# What a parameter takes, by its name; `function.parameter` where the name means several things.
TAKES = {
    "handle": same_device, "device": same_device, "device1": same_device, "handle1": same_device,
    "device2": other_devices, "handle2": other_devices, "migDevice": same_device,
    "gpuInstance": lambda d: d.gpu_instances, "computeInstance": lambda d: d.compute_instances,
    "unit": just(wild(nv.c_nvmlUnit_t)), "vgpuInstance": just(0, 7), "vgpuTypeId": just(0, 11),
    "eventSet": lambda d: [d.events], "gpmSample": lambda d: [d.sample],
    "index": just(0, 1, 6, 1 << 20), "gpuInstanceId": just(0, 1, 7, 99), "computeInstanceId": just(0, 1, 99),
    "uuid": lambda d: [d.uuid, "GPU-00000000-0000-0000-0000-000000000000"],
    "nvmlDeviceGetHandleByUUIDV.uuid": lambda d: [d.uuid.encode()],
    "nvmlDeviceGetHandleByUUIDV.type": just(nv.NVML_UUID_TYPE_ASCII),
    "serial": just("0", "1060399343134"), "pciBusId": just("00000000:07:00.0", "0000:07:00.0", "nonsense"),
    "type": just(*CLOCKS), "clockType": just(*CLOCKS), "id": just(0, 1, 2, 3), "pstate": just(0, 2, 8, 15, 32),
    "apiType": just(0, 1), "pid": lambda d: d.pids(), "scope": just(0, 1), "cpuSetSize": just(1, 16),
    "nodeSetSize": just(1, 4), "errorType": just(0, 1), "counterType": just(0, 1), "locationType": just(*range(9)),
    "encoderQueryType": just(0, 1), "fan": just(*range(FANS)), "infoRomObject": just(*range(4)),
    "fieldIds": lambda _: [[i] for i in range(1, 304)] + [list(range(1, 304)), [(60, 1), (91, 0)]],
    "profileId": just(*range(0, 48)), "profile": just(*range(GPU_PROFILES)), "engProfile": just(0, 1),
    "link": just(*range(LINKS), 36), "capability": just(*range(7)), "counter": just(0, 1, 2),
    "nvmlDeviceGetNvLinkErrorCounter.counter": just(*range(5)), "p2pIndex": just(*range(6)),
    "sourceFilter": just(0, 1), "mode": just(0, 1, 2), "sampling_type": just(*range(9)), "timeStamp": just(0),
    "memoryClockMHz": just(1215, 877, 405, 1), "sensor": just(*SENSORS), "threshold": just(*range(9)),
    "sensorindex": just(0, 15), "level": just(0, 10, 20, 30, 40, 50), "perfPolicyType": just(*range(12)),
    "cpuNumber": just(0, 1), "pciInfo": lambda d: [pci_info(d.handle)],
    "c_nonce": just(bytes(32)),
    "nvmlDeviceGetRunningProcessDetailList.version": just(nv.nvmlProcessDetailList_v1),
    "placementsRef": lambda _: [ctypes.byref((nv.c_nvmlGpuInstancePlacement_t * 64)())],
    "gpuInstancesRef": lambda _: [(nv.c_nvmlGpuInstance_t * 64)()],
    "computeInstancesRef": lambda _: [(nv.c_nvmlComputeInstance_t * 64)()],
    "countRef": lambda _: [ctypes.byref(ctypes.c_uint(64))],
    # Structs: the version the binding knows, and none.
    "c_info": struct("nvmlPciInfoExt_v1"), "gpuFabricInfo": struct("nvmlGpuFabricInfo_v2", "nvmlGpuFabricInfo_v3"),
    "status": struct("nvmlEccSramErrorStatus_v1"), "caps": struct("nvmlDeviceCapabilities_v1"),
    "platformInfo": struct("nvmlPlatformInfo_v1", "nvmlPlatformInfo_v2"),
    "info": struct("nvmlClockOffset_v1", "nvmlNvLinkInfo_v1", "nvmlNvLinkInfo_v2"),
    "getBwMode": struct("nvmlNvlinkGetBwMode_v1"), "supportedBwModes": struct("nvmlNvlinkSupportedBwModes_v1"),
    "currentProfiles": struct("nvmlWorkloadPowerProfileCurrentProfiles_v1"),
    "profilesInfo": struct("nvmlWorkloadPowerProfileProfilesInfo_v1"),
    "counts": struct("nvmlEccSramUniqueUncorrectedErrorCounts_v1"), "samples": struct("nvmlPerfMetricsSamples_v1"),
    "settings": struct("nvmlSystemConfComputeSettings_v1"), "c_vgpus": struct("nvmlVgpuTypeIdInfo_v1"),
    "c_vgpu_instance_info": struct("nvmlActiveVgpuInstanceInfo_v1"),
    "c_vgpu_sched_log_info": struct("nvmlVgpuSchedulerLogInfo_v1"),
    "c_vgpu_sched_state_info": struct("nvmlVgpuSchedulerStateInfo_v1"),
    "c_vgpu_placements": lambda _: [nv.c_nvmlVgpuCreatablePlacementInfo_v1_t()],
    "c_vgpu_sched_log_info_v2": struct(), "c_vgpu_sched_state_info_v2": struct(), "params": struct(),
    "limits": struct(), "cper": struct(), "vgpuMetadata": struct(), "pgpuMetadata": struct(),
    "metricsGet": lambda _: [nv.c_nvmlGpmMetricsGet_t()],
}


def all_getters():
    for name, function in sorted(vars(nv).items()):
        if name.startswith("nvml") and inspect.isfunction(function) and any(word in name for word in READS):
            if name not in NOT_CALLS:
                yield name, function


def arguments(name, function, device):
    """Every combination of what its parameters take; what has a default keeps it."""
    choices = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty:
            continue
        takes = TAKES.get(f"{name}.{parameter.name}") or TAKES.get(parameter.name)
        if takes is None:
            raise KeyError(f"{name}: nobody knows what its parameter {parameter.name} takes; teach getters.py")
        choices.append(takes(device))
    return itertools.product(*choices)


def walk(device, checks):
    """Calls everything once per combination; returns how many calls were answered with a value."""
    called = answered = 0
    for name, function in all_getters():
        for combination in arguments(name, function, device):
            called += 1
            try:
                function(*combination)
                answered += 1
            except nv.NVMLError as error:
                legal = error.value in CODES and error.value not in NEVER
                checks.holds("a legal code", legal, f"of {name}: {error.value} {error}")
            except Exception as error:  # pylint: disable=broad-except
                checks.holds("the binding's own code", False, f"of {name}: {type(error).__name__}: {error}")
    return called, answered
