"""Counts devices with CUDA through ctypes, and looks at what every other function says."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        raise SystemExit(f"{name} answers {code} ({text.value})")


call("cuInit", 0)
count = ctypes.c_int()
call("cuDeviceGetCount", ctypes.byref(count))
for number in range(count.value):
    device = ctypes.c_int()
    call("cuDeviceGet", ctypes.byref(device), number)
    name = ctypes.create_string_buffer(96)
    call("cuDeviceGetName", name, 96, device)
    uuid = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", uuid, device)
    digits = bytes(uuid).hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    bus = ctypes.create_string_buffer(16)
    call("cuDeviceGetPCIBusId", bus, 16, device)
    memory = ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    row = (number, name.value.decode(), "GPU-" + "-".join(parts), bus.value.decode(), memory.value)
    print("|".join(map(str, row)))

# What would need hardware is there, and says that it is not supported.
pointer = ctypes.c_void_p()
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1)) == 801
assert cuda.cuCtxCreate_v2(ctypes.byref(pointer), 0, 0) == 801
