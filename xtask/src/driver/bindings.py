"""Counts devices with NVIDIA's own Python bindings of the CUDA driver; one line per device, as the C program prints them."""

from cuda.bindings import driver as cu


def call(name, *args):
    code, *values = getattr(cu, name)(*args)
    if code != cu.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"{name} answers {code!r}")
    return values[0] if len(values) == 1 else values


call("cuInit", 0)
for number in range(call("cuDeviceGetCount")):
    device = call("cuDeviceGet", number)
    name = call("cuDeviceGetName", 96, device).split(b"\0")[0].decode()
    digits = bytes(call("cuDeviceGetUuid", device).bytes).hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    bus = call("cuDeviceGetPCIBusId", 16, device).split(b"\0")[0].decode()
    memory = call("cuDeviceTotalMem", device)
    print("|".join(map(str, (number, name, "GPU-" + "-".join(parts), bus, memory))))

# What would need hardware is there, and says that it is not supported.
code, _ = cu.cuMemAlloc(1)
assert code == cu.CUresult.CUDA_ERROR_NOT_SUPPORTED, code
