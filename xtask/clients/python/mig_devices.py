"""MIG devices made by `mirage ctl` as nvidia-ml-py enumerates them, against the API; and every getter over them."""

import pynvml as nv

import getters
from truth import Checks, Truth


def main():
    truth, checks = Truth(), Checks("MIG devices")
    nv.nvmlInit()
    handles = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]
    sample, events = nv.nvmlGpmSampleAlloc(), nv.nvmlEventSetCreate()
    seen = 0
    for index, (handle, gpu) in enumerate(zip(handles, truth.gpus)):
        wanted = {device["uuid"]: device for device in gpu.get("mig_devices", []) if "compute_instance" in device}
        found = {}
        for slot in range(nv.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                device = nv.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
            except nv.NVMLError as error:
                empty = (nv.NVML_ERROR_NOT_FOUND, nv.NVML_ERROR_NOT_SUPPORTED)
                checks.holds("an empty slot", error.value in empty, f"{slot} of GPU {index}: {error}")
                continue
            found[nv.nvmlDeviceGetUUID(device)] = device
        checks.same("uuids", sorted(found), sorted(wanted), f"of GPU {index}")
        for uuid in found.keys() & wanted.keys():
            device, said = found[uuid], wanted[uuid]
            memory = nv.nvmlDeviceGetMemoryInfo(device)
            seen += 1
            rows = [
                ("is a MIG device", nv.nvmlDeviceIsMigDeviceHandle(device).value, 1),
                ("GPU instance", nv.nvmlDeviceGetGpuInstanceId(device), said["gpu_instance"]),
                ("compute instance", nv.nvmlDeviceGetComputeInstanceId(device), said["compute_instance"]),
                ("memory", (memory.total, memory.used), (said["memory_total_bytes"], said["memory_used_bytes"])),
                ("name", nv.nvmlDeviceGetName(device), f"{gpu['name']} MIG {said['profile']}"),
                ("by uuid", nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByUUID(uuid)), uuid),
                ("parent", nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)), index),
            ]
            for what, value, right in rows:
                checks.same(what, value, right, f"of {uuid}")
            getters.walk(getters.Device(device, handles, sample, events), checks)
        if wanted:
            getters.walk(getters.Device(handle, handles, sample, events), checks)
    checks.holds("there are MIG devices", seen > 0)
    truth.refresh_is_same_tick(checks)
    checks.end(at_least=8)


main()
