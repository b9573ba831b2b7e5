"""nvidia-ml-py: every getter over every device, and what they answer against what mirage says."""

import pynvml as nv

import getters
from truth import Checks, Truth, catalogue

REASONS = {"idle": 0x1, "application-clocks": 0x2, "power-cap": 0x4, "hw-slowdown": 0x8, "sync-boost": 0x10,
           "sw-thermal": 0x20, "hw-thermal": 0x40, "power-brake": 0x80, "display": 0x100}
NOTHING = "not supported"


def ask(function, *arguments):
    """What a getter answers; a board that cannot tell says so."""
    try:
        return function(*arguments)
    except nv.NVMLError_NotSupported:
        return NOTHING


def of(value, *names):
    """Fields of a struct, or the refusal."""
    return value if value == NOTHING else tuple(getattr(value, name) for name in names)


def identity(checks, handle, index, gpu, board):
    """What a board is."""
    pci = nv.nvmlDeviceGetPciInfo(handle)
    domain, bus, device = gpu["pci_bus_id"].split(".")[0].split(":")
    major, minor = (int(part) for part in board["identity.compute-capability"].split("."))
    by_uuid = nv.nvmlDeviceGetHandleByUUID(gpu["uuid"])
    by_bus = nv.nvmlDeviceGetHandleByPciBusId(gpu["pci_bus_id"])
    rows = [
        ("index", nv.nvmlDeviceGetIndex(handle), index),
        ("uuid", nv.nvmlDeviceGetUUID(handle), gpu["uuid"]),
        ("handle by uuid", nv.nvmlDeviceGetIndex(by_uuid), index),
        ("handle by bus id", nv.nvmlDeviceGetIndex(by_bus), index),
        ("name", nv.nvmlDeviceGetName(handle), gpu["name"]),
        ("serial", ask(nv.nvmlDeviceGetSerial, handle), gpu["serial"]),
        ("bus id", pci.busId, gpu["pci_bus_id"]),
        ("short bus id", pci.busIdLegacy, gpu["pci_bus_id"][4:]),
        ("bus numbers", (pci.domain, pci.bus, pci.device), tuple(int(part, 16) for part in (domain, bus, device))),
        ("pci id", pci.pciDeviceId, int(board["identity.pci-device-id"], 16)),
        ("pci subsystem", pci.pciSubSystemId, int(board["identity.pci-subsystem-id"], 16)),
        ("minor", nv.nvmlDeviceGetMinorNumber(handle), gpu["minor"]),
        ("brand", nv.nvmlDeviceGetBrand(handle), int(board["identity.brand-code"])),
        ("architecture", nv.nvmlDeviceGetArchitecture(handle), int(board["identity.architecture-code"])),
        ("compute capability", tuple(nv.nvmlDeviceGetCudaComputeCapability(handle)), (major, minor)),
        ("vbios", nv.nvmlDeviceGetVbiosVersion(handle), board["identity.vbios"]),
        ("board part", ask(nv.nvmlDeviceGetBoardPartNumber, handle), board["identity.board-part-number"]),
        ("inforom image", ask(nv.nvmlDeviceGetInforomImageVersion, handle), board["identity.inforom-image"]),
        ("inforom oem", ask(nv.nvmlDeviceGetInforomVersion, handle, 0), board["identity.inforom-oem"]),
        ("inforom ecc", ask(nv.nvmlDeviceGetInforomVersion, handle, 1), board["identity.inforom-ecc"]),
        ("cores", nv.nvmlDeviceGetNumGpuCores(handle), int(board["compute.core-count"])),
        ("fans", ask(nv.nvmlDeviceGetNumFans, handle), int(board["compute.fans"]) or NOTHING),
        ("memory bus", nv.nvmlDeviceGetMemoryBusWidth(handle), int(board["memory.bus-bits"])),
        ("pcie generation, at most", nv.nvmlDeviceGetMaxPcieLinkGeneration(handle), int(board["links.pcie-gen-max"])),
        ("pcie width, at most", nv.nvmlDeviceGetMaxPcieLinkWidth(handle), int(board["links.pcie-width-max"])),
        ("same board as itself", nv.nvmlDeviceOnSameBoard(handle, handle), 1),
        ("is no MIG device", nv.nvmlDeviceIsMigDeviceHandle(handle).value, 0),
    ]
    for what, found, wanted in rows:
        checks.same(what, NOTHING if wanted == "absent" and found == NOTHING else found,
                    NOTHING if wanted == "absent" else wanted, f"of GPU {index}")


def moving(checks, handle, index, gpu, metric):
    """What a board is doing."""
    util = ask(nv.nvmlDeviceGetUtilizationRates, handle)
    memory = nv.nvmlDeviceGetMemoryInfo(handle)
    newer = nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2)
    total, reserved, used = (gpu[f"memory_{part}_bytes"] for part in ("total", "reserved", "used"))
    free = total - reserved - used
    watts = gpu.get("power_average_w", gpu["power_w"])
    reasons = sum(REASONS[name] for name in gpu.get("throttle_reasons", []))
    flags = gpu.get("flags", [])
    processes = ask(nv.nvmlDeviceGetComputeRunningProcesses, handle)
    listed = sorted((process["pid"], process["memory_bytes"]) for process in gpu.get("processes", []))
    busy = (gpu["utilization_percent"], gpu["memory_utilization_percent"]) if "utilization_percent" in gpu else NOTHING
    energy = gpu.get("energy_j")
    rows = [
        ("utilisation", of(util, "gpu", "memory"), busy),
        ("memory", (memory.total, memory.free, memory.used), (total, free, reserved + used)),
        ("memory v2", (newer.total, newer.reserved, newer.free, newer.used), (total, reserved, free, used)),
        ("temperature", nv.nvmlDeviceGetTemperature(handle, 0), gpu["temperature_c"]),
        ("temperature v", nv.nvmlDeviceGetTemperatureV(handle, 0), gpu["temperature_c"]),
        ("memory temperature", field(handle, 82), gpu.get("memory_temperature_c", NOTHING)),
        ("power", nv.nvmlDeviceGetPowerUsage(handle), round(watts * 1000)),
        ("enforced limit", nv.nvmlDeviceGetEnforcedPowerLimit(handle), round(gpu["power_limit_w"] * 1000)),
        ("energy", ask(nv.nvmlDeviceGetTotalEnergyConsumption, handle),
         NOTHING if energy is None else round(energy * 1000)),
        ("sm clock", nv.nvmlDeviceGetClockInfo(handle, 1), gpu["sm_clock_mhz"]),
        ("graphics clock", nv.nvmlDeviceGetClockInfo(handle, 0), gpu["sm_clock_mhz"]),
        ("memory clock", nv.nvmlDeviceGetClockInfo(handle, 2), gpu["memory_clock_mhz"]),
        ("current clock", nv.nvmlDeviceGetClock(handle, 1, 0), gpu["sm_clock_mhz"]),
        ("performance state", nv.nvmlDeviceGetPerformanceState(handle), gpu["performance_state"]),
        ("power state", nv.nvmlDeviceGetPowerState(handle), gpu["performance_state"]),
        ("reasons", nv.nvmlDeviceGetCurrentClocksEventReasons(handle), reasons),
        ("reasons, old name", nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle), reasons),
        ("persistence", nv.nvmlDeviceGetPersistenceMode(handle), int("persistence" in flags)),
        ("accounting", ask(nv.nvmlDeviceGetAccountingMode, handle), int("accounting" in flags)),
        ("processes", sorted((p.pid, p.usedGpuMemory) for p in processes), listed),
        ("fan", ask(nv.nvmlDeviceGetFanSpeed, handle), gpu.get("fan_percent", NOTHING)),
        ("power now", field(handle, 186), round(gpu["power_w"] * 1000)),
    ]
    if metric("DCGM_FI_DEV_ECC_CURRENT") is not None:
        rows.append(("ecc", tuple(nv.nvmlDeviceGetEccMode(handle)), (int("ecc" in flags), int("ecc-pending" in flags))))
    if metric("DCGM_FI_DEV_MIG_MODE") is not None:
        mig = ask(nv.nvmlDeviceGetMigMode, handle)
        if mig != NOTHING:
            rows.append(("mig", tuple(mig), (int("mig" in flags), int("mig" in flags or "mig-pending" in flags))))
    for what, found, wanted in rows:
        checks.same(what, found, wanted, f"of GPU {index}")


def field(handle, number):
    """A field value, whatever its type."""
    value = nv.nvmlDeviceGetFieldValues(handle, [number])[0]
    if value.nvmlReturn != nv.NVML_SUCCESS:
        return NOTHING
    kinds = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    return getattr(value.value, kinds[value.valueType])


def page(handle):
    """Getters and the exporter's series that says the same, with the factor between their units."""
    ecc = nv.nvmlDeviceGetTotalEccErrors
    counter = nv.nvmlDeviceGetMemoryErrorCounter
    violation = lambda policy: lambda h: nv.nvmlDeviceGetViolationStatus(h, policy).violationTime
    rows = lambda at: lambda h: nv.nvmlDeviceGetRemappedRows(h)[at]
    banks = lambda name: lambda h: getattr(nv.nvmlDeviceGetRowRemapperHistogram(h), name)
    limits = lambda at: lambda h: nv.nvmlDeviceGetPowerManagementLimitConstraints(h)[at]
    threshold = lambda which: lambda h: nv.nvmlDeviceGetTemperatureThreshold(h, which)
    table = [
        ("DEV_COMPUTE_MODE", nv.nvmlDeviceGetComputeMode, 1),
        ("DEV_VIDEO_CLOCK", lambda h: nv.nvmlDeviceGetClockInfo(h, 3), 1),
        ("DEV_APP_SM_CLOCK", lambda h: nv.nvmlDeviceGetApplicationsClock(h, 1), 1),
        ("DEV_APP_MEM_CLOCK", lambda h: nv.nvmlDeviceGetApplicationsClock(h, 2), 1),
        ("DEV_MAX_SM_CLOCK", lambda h: nv.nvmlDeviceGetMaxClockInfo(h, 1), 1),
        ("DEV_MAX_MEM_CLOCK", lambda h: nv.nvmlDeviceGetMaxClockInfo(h, 2), 1),
        ("DEV_MAX_VIDEO_CLOCK", lambda h: nv.nvmlDeviceGetMaxClockInfo(h, 3), 1),
        ("DEV_SHUTDOWN_TEMP", threshold(0), 1),
        ("DEV_SLOWDOWN_TEMP", threshold(1), 1),
        ("DEV_MEM_MAX_OP_TEMP", threshold(2), 1),
        ("DEV_GPU_MAX_OP_TEMP", threshold(3), 1),
        ("DEV_POWER_MGMT_LIMIT", nv.nvmlDeviceGetPowerManagementLimit, 1000),
        ("DEV_POWER_MGMT_LIMIT_MIN", limits(0), 1000),
        ("DEV_POWER_MGMT_LIMIT_MAX", limits(1), 1000),
        ("DEV_POWER_MGMT_LIMIT_DEF", nv.nvmlDeviceGetPowerManagementDefaultLimit, 1000),
        ("DEV_PCIE_TX_THROUGHPUT", lambda h: nv.nvmlDeviceGetPcieThroughput(h, 0), 1),
        ("DEV_PCIE_RX_THROUGHPUT", lambda h: nv.nvmlDeviceGetPcieThroughput(h, 1), 1),
        ("DEV_PCIE_REPLAY_COUNTER", nv.nvmlDeviceGetPcieReplayCounter, 1),
        ("DEV_PCIE_LINK_GEN", nv.nvmlDeviceGetCurrPcieLinkGeneration, 1),
        ("DEV_PCIE_LINK_WIDTH", nv.nvmlDeviceGetCurrPcieLinkWidth, 1),
        ("DEV_ENC_UTIL", lambda h: nv.nvmlDeviceGetEncoderUtilization(h)[0], 1),
        ("DEV_DEC_UTIL", lambda h: nv.nvmlDeviceGetDecoderUtilization(h)[0], 1),
        ("PROF_NVJPG0_ACTIVE", lambda h: nv.nvmlDeviceGetJpgUtilization(h)[0], 100),
        ("PROF_NVOFA0_ACTIVE", lambda h: nv.nvmlDeviceGetOfaUtilization(h)[0], 100),
        ("DEV_POWER_VIOLATION", violation(0), 1),
        ("DEV_THERMAL_VIOLATION", violation(1), 1),
        ("DEV_SYNC_BOOST_VIOLATION", violation(2), 1),
        ("DEV_BOARD_LIMIT_VIOLATION", violation(3), 1),
        ("DEV_LOW_UTIL_VIOLATION", violation(4), 1),
        ("DEV_RELIABILITY_VIOLATION", violation(5), 1),
        ("DEV_TOTAL_APP_CLOCKS_VIOLATION", violation(10), 1),
        ("DEV_TOTAL_BASE_CLOCKS_VIOLATION", violation(11), 1),
        ("DEV_ECC_SBE_VOL_TOTAL", lambda h: ecc(h, 0, 0), 1),
        ("DEV_ECC_DBE_VOL_TOTAL", lambda h: ecc(h, 1, 0), 1),
        ("DEV_ECC_SBE_AGG_TOTAL", lambda h: ecc(h, 0, 1), 1),
        ("DEV_ECC_DBE_AGG_TOTAL", lambda h: ecc(h, 1, 1), 1),
        ("DEV_ECC_SBE_VOL_DEV", lambda h: counter(h, 0, 0, 2), 1),
        ("DEV_ECC_DBE_AGG_DEV", lambda h: counter(h, 1, 1, 2), 1),
        ("DEV_ECC_DBE_VOL_SRM", lambda h: counter(h, 1, 0, 7), 1),
        ("DEV_CORRECTABLE_REMAPPED_ROWS", rows(0), 1),
        ("DEV_UNCORRECTABLE_REMAPPED_ROWS", rows(1), 1),
        ("DEV_ROW_REMAP_PENDING", rows(2), 1),
        ("DEV_ROW_REMAP_FAILURE", rows(3), 1),
        ("DEV_BANKS_REMAP_ROWS_AVAIL_MAX", banks("max"), 1),
        ("DEV_BANKS_REMAP_ROWS_AVAIL_NONE", banks("none"), 1),
    ]
    return [(f"DCGM_FI_{name}", call, factor) for name, call, factor in table]


def node(checks, truth):
    """What belongs to no board."""
    cuda = [int(part) for part in truth.cuda.split(".")]
    checks.same("driver", nv.nvmlSystemGetDriverVersion(), truth.driver)
    checks.same("cuda", nv.nvmlSystemGetCudaDriverVersion_v2(), cuda[0] * 1000 + cuda[1] * 10)
    checks.holds("nvml version", nv.nvmlSystemGetNVMLVersion().endswith(truth.driver))
    checks.same("count", nv.nvmlDeviceGetCount(), len(truth.gpus))
    checks.same("units", nv.nvmlUnitGetCount(), 0)
    for gpu in truth.gpus:
        for process in gpu.get("processes", []):
            checks.same("process name", nv.nvmlSystemGetProcessName(process["pid"]), process["name"])


def main():
    truth = Truth()
    checks = Checks("nvidia-ml-py")
    nv.nvmlInit()
    node(checks, truth)
    handles = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]
    sample, events = nv.nvmlGpmSampleAlloc(), nv.nvmlEventSetCreate()
    called = answered = 0
    for index, (handle, gpu) in enumerate(zip(handles, truth.gpus)):
        identity(checks, handle, index, gpu, catalogue(gpu["model"]))
        moving(checks, handle, index, gpu, lambda name, index=index: truth.metric(name, index))
        for name, call, factor in page(handle):
            wanted = truth.metric(name, index)
            if wanted is not None:
                checks.near(name, ask(call, handle), wanted * factor, 1e-6 * abs(wanted * factor), f"of GPU {index}")
        more, told = getters.walk(getters.Device(handle, handles, sample, events), checks)
        called, answered = called + more, answered + told
    truth.refresh_is_same_tick(checks)
    nv.nvmlEventSetFree(events)
    nv.nvmlGpmSampleFree(sample)
    nv.nvmlShutdown()
    print(f"nvidia-ml-py: {called} calls of {sum(1 for _ in getters.all_getters())} getters, {answered} answered")
    checks.end(at_least=60 if handles else 5)


main()
