"""Workload power profiles: asked for by this process, arbitrated by the engine, seen by another process, felt by the GPU."""

import ctypes
import json
import os
import subprocess
import sys

import pynvml as nv

from truth import LIMIT_S, Checks, Truth, catalogue

MAX_P, MAX_Q, HPC = 1 << nv.NVML_POWER_PROFILE_MAX_P, 1 << nv.NVML_POWER_PROFILE_MAX_Q, 1 << nv.NVML_POWER_PROFILE_HPC
GPU = 0
LOOK = """
import ctypes, json, pynvml as nv
nv.nvmlInit()
now = nv.c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t()
nv.nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(nv.nvmlDeviceGetHandleByIndex({gpu}), ctypes.byref(now))
print(json.dumps([now.requestedProfilesMask.mask[0], now.enforcedProfilesMask.mask[0]]))
"""


def elsewhere():
    """What another process sees requested and enforced."""
    done = subprocess.run([sys.executable, "-c", LOOK.format(gpu=GPU)], capture_output=True, text=True,
                          timeout=LIMIT_S, check=True)
    return json.loads(done.stdout)


def update(handle, operation, mask):
    asked = nv.c_nvmlWorkloadPowerProfileUpdateProfiles_v1_t()
    asked.operation = operation
    asked.updateProfilesMask.mask[0] = mask
    nv.nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(handle, ctypes.byref(asked))


def clock_after_a_while(handle):
    """The SM clock when the engine has had time to act."""
    subprocess.run([os.environ["MIRAGE_BIN"], "ctl", "--state-dir", os.environ["MIRAGE_STATE_DIR"], "step", "5s"],
                   check=True, capture_output=True, timeout=LIMIT_S)
    return nv.nvmlDeviceGetClockInfo(handle, nv.NVML_CLOCK_SM)


def main():
    truth, checks = Truth(), Checks("workload power profiles")
    nv.nvmlInit()
    handle = nv.nvmlDeviceGetHandleByIndex(GPU)
    info = nv.c_nvmlWorkloadPowerProfileProfilesInfo_v1_t()
    nv.nvmlDeviceWorkloadPowerProfileGetProfilesInfo(handle, ctypes.byref(info))
    offered = info.perfProfilesMask.mask[0]
    names = catalogue(truth.gpus[GPU]["model"])["power.workload-profiles"].split()
    checks.same("profiles offered", offered.bit_count(), len(names))
    checks.same("a profile's number", info.perfProfile[1].profileId, 1)
    checks.same("conflicts", info.perfProfile[0].conflictingmask.mask[0] & MAX_Q, MAX_Q)
    top = nv.nvmlDeviceGetMaxClockInfo(handle, nv.NVML_CLOCK_SM)

    update(handle, nv.NVML_POWER_PROFILE_OPERATION_SET, MAX_Q | HPC)
    checks.same("profiles asked for", elsewhere(), [MAX_Q | HPC, MAX_Q | HPC])
    checks.holds("a lower clock", clock_after_a_while(handle) <= top * 85 // 100)
    update(handle, nv.NVML_POWER_PROFILE_OPERATION_SET, MAX_P)
    checks.same("profiles in conflict", elsewhere(), [MAX_P | MAX_Q | HPC, MAX_P | HPC])
    update(handle, nv.NVML_POWER_PROFILE_OPERATION_CLEAR, MAX_P | HPC)
    checks.same("profiles left", elsewhere(), [MAX_Q, MAX_Q])
    try:
        update(handle, nv.NVML_POWER_PROFILE_OPERATION_SET, ~offered & 0xFFFFFFFF)
        checks.holds("profiles that are not offered are refused", False)
    except nv.NVMLError as error:
        checks.same("profiles that are not offered", error.value, nv.NVML_ERROR_INVALID_ARGUMENT)
    update(handle, nv.NVML_POWER_PROFILE_OPERATION_SET_AND_OVERWRITE, 0)
    checks.same("no profiles", elsewhere(), [0, 0])
    checks.holds("a higher clock", clock_after_a_while(handle) > top * 85 // 100)
    nv.nvmlShutdown()
    checks.end(at_least=8)


main()
