"""NVML's setters, called by one process and seen by another, by the API and by the exporter's page.

A GPU without load is changed and then put back. Every change is looked at by a process of its own: what one process
sets, all must see.
"""

import json
import os
import subprocess
import sys

import pynvml as nv

from truth import LIMIT_S, Checks, Truth

LOOK = """
import json, pynvml as nv
nv.nvmlInit()
h = nv.nvmlDeviceGetHandleByIndex({index})
print(json.dumps({expression}))
"""


def elsewhere(index, expression):
    """What another process sees."""
    done = subprocess.run([sys.executable, "-c", LOOK.format(index=index, expression=expression)],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"looking at {expression}: {done.stderr}")
    return json.loads(done.stdout)


class Change:
    """A GPU, and the three places a change must show."""

    def __init__(self, checks, truth, index):
        self.checks, self.truth, self.index = checks, truth, index
        self.handle = nv.nvmlDeviceGetHandleByIndex(index)

    def seen(self, what, expression, wanted, metric=None, series=None):
        """Compares what another process sees, and what the page says where it says anything."""
        self.truth.refresh()
        self.checks.same(what, elsewhere(self.index, expression), wanted, "in another process")
        if metric:
            shown = self.truth.metric(metric, self.index)
            self.checks.same(f"{what} on /metrics", shown, float(wanted if series is None else series))

    def flag(self, what, name, wanted):
        """Compares a flag of the API."""
        self.truth.refresh()
        self.checks.same(f"{what} in the API", name in self.truth.gpus[self.index].get("flags", []), wanted)

    def refused(self, what, code, call, *arguments):
        """A refusal, as NVML gives it."""
        try:
            call(*arguments)
            self.checks.same(what, 0, code)
        except nv.NVMLError as error:
            self.checks.same(what, error.value, code)


def settings(change):
    """Power, persistence, clocks, ECC, compute mode, accounting."""
    handle = change.handle
    low, high = nv.nvmlDeviceGetPowerManagementLimitConstraints(handle)
    limit = (low + high) // 2
    nv.nvmlDeviceSetPowerManagementLimit(handle, limit)
    change.seen("power limit", "nv.nvmlDeviceGetPowerManagementLimit(h)", limit,
                "DCGM_FI_DEV_POWER_MGMT_LIMIT", limit / 1000)
    change.refused("a limit out of range", nv.NVML_ERROR_INVALID_ARGUMENT,
                   nv.nvmlDeviceSetPowerManagementLimit, handle, high + 1000)
    nv.nvmlDeviceSetPowerManagementLimit(handle, nv.nvmlDeviceGetPowerManagementDefaultLimit(handle))

    for state in (0, 1):
        nv.nvmlDeviceSetPersistenceMode(handle, state)
        change.seen("persistence", "nv.nvmlDeviceGetPersistenceMode(h)", state, "DCGM_FI_DEV_PERSISTENCE_MODE")

    memory = nv.nvmlDeviceGetSupportedMemoryClocks(handle)[0]
    graphics = sorted(nv.nvmlDeviceGetSupportedGraphicsClocks(handle, memory))
    nv.nvmlDeviceSetApplicationsClocks(handle, memory, graphics[1])
    change.seen("application clock", "nv.nvmlDeviceGetApplicationsClock(h, 1)", graphics[1], "DCGM_FI_DEV_APP_SM_CLOCK")
    nv.nvmlDeviceResetApplicationsClocks(handle)
    change.seen("application clock, reset", "nv.nvmlDeviceGetApplicationsClock(h, 1)",
                nv.nvmlDeviceGetDefaultApplicationsClock(handle, 1), "DCGM_FI_DEV_APP_SM_CLOCK")
    nv.nvmlDeviceSetGpuLockedClocks(handle, graphics[2], graphics[2])
    step(change.truth)
    change.seen("locked clock", "nv.nvmlDeviceGetClockInfo(h, 1)", graphics[2], "DCGM_FI_DEV_SM_CLOCK")
    nv.nvmlDeviceResetGpuLockedClocks(handle)
    nv.nvmlDeviceSetMemoryLockedClocks(handle, memory, memory)
    nv.nvmlDeviceResetMemoryLockedClocks(handle)

    now = nv.nvmlDeviceGetCurrentEccMode(handle)
    nv.nvmlDeviceSetEccMode(handle, 1 - now)
    change.seen("pending ECC", "nv.nvmlDeviceGetEccMode(h)", [now, 1 - now])
    change.flag("pending ECC", "ecc-pending", now == 0)
    nv.nvmlDeviceSetEccMode(handle, now)
    nv.nvmlDeviceClearEccErrorCounts(handle, 0)
    change.seen("cleared ECC", "nv.nvmlDeviceGetTotalEccErrors(h, 0, 0)", 0)

    nv.nvmlDeviceSetComputeMode(handle, 3)
    change.seen("compute mode", "nv.nvmlDeviceGetComputeMode(h)", 3, "DCGM_FI_DEV_COMPUTE_MODE")
    nv.nvmlDeviceSetComputeMode(handle, 0)
    nv.nvmlDeviceSetAccountingMode(handle, 1)
    change.seen("accounting", "nv.nvmlDeviceGetAccountingMode(h)", 1)
    change.flag("accounting", "accounting", True)
    nv.nvmlDeviceClearAccountingPids(handle)
    nv.nvmlDeviceSetAccountingMode(handle, 0)


def fan(change):
    """A fan where there is one, a refusal where there is none."""
    handle = change.handle
    try:
        fans = nv.nvmlDeviceGetNumFans(handle)
    except nv.NVMLError_NotSupported:
        fans = 0
    if fans == 0:
        change.refused("a fan that is not there", nv.NVML_ERROR_NOT_SUPPORTED,
                       nv.nvmlDeviceSetFanSpeed_v2, handle, 0, 50)
        return
    nv.nvmlDeviceSetFanSpeed_v2(handle, 0, 77)
    step(change.truth)
    change.seen("fan", "nv.nvmlDeviceGetFanSpeed_v2(h, 0)", 77, "DCGM_FI_DEV_FAN_SPEED")
    nv.nvmlDeviceSetDefaultFanSpeed_v2(handle, 0)


def partition(change):
    """MIG from nothing to a device and back."""
    handle, checks, truth = change.handle, change.checks, change.truth
    nv.nvmlDeviceSetMigMode(handle, 1)
    change.seen("MIG mode", "nv.nvmlDeviceGetMigMode(h)", [1, 1])
    change.flag("MIG mode", "mig", True)
    checks.same("MIG mode on /metrics", truth.metric("DCGM_FI_DEV_MIG_MODE", change.index), 1.0)
    profile = nv.nvmlDeviceGetGpuInstanceProfileInfo(handle, 0)
    before = nv.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, profile.id)
    instance = nv.nvmlDeviceCreateGpuInstance(handle, profile.id)
    change.seen("remaining capacity", f"nv.nvmlDeviceGetGpuInstanceRemainingCapacity(h, {profile.id})", before - 1)
    inner = nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0)
    compute = nv.nvmlGpuInstanceCreateComputeInstance(instance, inner.id)
    gi = nv.nvmlGpuInstanceGetInfo(instance).id
    ci = nv.nvmlComputeInstanceGetInfo(compute).id
    truth.refresh()
    shown = [device for device in truth.gpus[change.index].get("mig_devices", []) if device["gpu_instance"] == gi]
    checks.same("MIG devices in the API", len(shown), 1)
    device = shown[0]
    mig = "nv.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)"
    change.seen("MIG uuid", f"nv.nvmlDeviceGetUUID({mig})", device["uuid"])
    change.seen("MIG name", f"nv.nvmlDeviceGetName({mig})",
                f"{truth.gpus[change.index]['name']} MIG {device['profile']}")
    change.seen("GPU instance", f"nv.nvmlDeviceGetGpuInstanceId({mig})", gi)
    change.seen("compute instance", f"nv.nvmlDeviceGetComputeInstanceId({mig})", ci)
    change.seen("MIG memory", f"nv.nvmlDeviceGetMemoryInfo({mig}).total", device["memory_total_bytes"])
    change.seen("MIG slices", f"nv.nvmlDeviceGetAttributes({mig}).gpuInstanceSliceCount", 1)
    change.seen("parent", f"nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle({mig}))", change.index)
    checks.holds("an instance on /metrics", f'GPU_I_ID="{gi}"' in truth.page(f"/nodes/{truth.node}/metrics"))
    change.refused("an instance in use", nv.NVML_ERROR_IN_USE, nv.nvmlGpuInstanceDestroy, instance)
    nv.nvmlComputeInstanceDestroy(compute)
    nv.nvmlGpuInstanceDestroy(instance)
    change.seen("remaining capacity, given back",
                f"nv.nvmlDeviceGetGpuInstanceRemainingCapacity(h, {profile.id})", before)
    change.refused("a MIG device that is gone", nv.NVML_ERROR_NOT_FOUND,
                   nv.nvmlDeviceGetMigDeviceHandleByIndex, handle, 0)
    nv.nvmlDeviceSetMigMode(handle, 0)
    change.seen("MIG mode, off", "nv.nvmlDeviceGetMigMode(h)", [0, 0])


def step(truth):
    """Lets the engine act on what was set."""
    control(truth, "step", "5s")


def control(truth, *words):
    subprocess.run([os.environ["MIRAGE_BIN"], "ctl", "--state-dir", os.environ["MIRAGE_STATE_DIR"], *words],
                   check=True, capture_output=True, timeout=LIMIT_S)
    truth.refresh()


def main():
    truth, checks = Truth(), Checks("setters")
    free = [index for index, gpu in enumerate(truth.gpus) if not gpu.get("processes")]
    if not free:
        sys.exit("setters: every GPU has a process; leave one free")
    nv.nvmlInit()
    change = Change(checks, truth, free[0])
    settings(change)
    fan(change)
    if truth.metric("DCGM_FI_DEV_MIG_MODE", free[0]) is not None and nv.nvmlDeviceGetArchitecture(change.handle) >= 7:
        try:
            nv.nvmlDeviceGetMigMode(change.handle)
        except nv.NVMLError_NotSupported:
            pass
        else:
            partition(change)
    nv.nvmlShutdown()
    checks.end(at_least=15)


main()
