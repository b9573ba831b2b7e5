"""What nvidia-ml-py sees: one JSON list of GPUs, each with its MIG devices."""

import json

import pynvml as n

n.nvmlInit()
gpus = []
for index in range(n.nvmlDeviceGetCount()):
    gpu = n.nvmlDeviceGetHandleByIndex(index)
    parts = []
    try:
        room = n.nvmlDeviceGetMaxMigDeviceCount(gpu)
    except n.NVMLError_NotSupported:
        room = 0
    for slot in range(room):
        try:
            part = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
        except n.NVMLError_NotFound:
            continue
        parts.append(n.nvmlDeviceGetUUID(part))
    gpus.append(
        {
            "uuid": n.nvmlDeviceGetUUID(gpu),
            "name": n.nvmlDeviceGetName(gpu),
            "minor": n.nvmlDeviceGetMinorNumber(gpu),
            "memory": n.nvmlDeviceGetMemoryInfo(gpu).total,
            "mig": parts,
        }
    )
print(json.dumps(gpus))
