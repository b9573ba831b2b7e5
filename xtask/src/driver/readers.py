"""Programs that read what nvidia-smi prints: GPUtil, xmltodict, and the way in which nvidia_gpu_exporter finds and asks for its fields.
What they read is compared with what NVML says; the node is at rest, so both say the same."""

import csv
import io
import re
import subprocess

import GPUtil
import pynvml as n
import xmltodict


def smi(*words):
    return subprocess.run(["nvidia-smi", *words], check=True, capture_output=True, text=True).stdout


def same(what, read, true):
    if read != true:
        raise SystemExit(f"{what}: read {read!r}, NVML says {true!r}")


MIB = 1 << 20
n.nvmlInit()
driver = n.nvmlSystemGetDriverVersion()
handles = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]

# GPUtil runs one query and takes its lines apart.
gpus = GPUtil.getGPUs()
same("GPUtil: GPUs", len(gpus), len(handles))
for index, (gpu, handle) in enumerate(zip(gpus, handles)):
    memory = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    where = f"GPUtil: GPU {index}"
    same(f"{where} id", gpu.id, index)
    same(f"{where} uuid", gpu.uuid, n.nvmlDeviceGetUUID(handle))
    same(f"{where} name", gpu.name, n.nvmlDeviceGetName(handle))
    same(f"{where} serial", gpu.serial, n.nvmlDeviceGetSerial(handle))
    same(f"{where} driver", gpu.driver, driver)
    same(f"{where} memoryTotal", gpu.memoryTotal, float(memory.total // MIB))
    same(f"{where} memoryUsed", gpu.memoryUsed, float(memory.used // MIB))
    same(f"{where} memoryFree", gpu.memoryFree, float(memory.free // MIB))
    same(f"{where} temperature", gpu.temperature, float(n.nvmlDeviceGetTemperature(handle, 0)))
    same(f"{where} load", gpu.load * 100, float(n.nvmlDeviceGetUtilizationRates(handle).gpu))

# Scripts turn the XML report into a dictionary.
log = xmltodict.parse(smi("-q", "-x"))["nvidia_smi_log"]
same("xmltodict: driver_version", log["driver_version"], driver)
same("xmltodict: attached_gpus", int(log["attached_gpus"]), len(handles))
for index, (gpu, handle) in enumerate(zip(log["gpu"], handles)):
    where = f"xmltodict: GPU {index}"
    memory = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    pci = n.nvmlDeviceGetPciInfo(handle)
    limit = n.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
    clock = n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)
    same(f"{where} id", gpu["@id"], pci.busId)
    same(f"{where} uuid", gpu["uuid"], n.nvmlDeviceGetUUID(handle))
    same(f"{where} name", gpu["product_name"], n.nvmlDeviceGetName(handle))
    same(f"{where} minor", int(gpu["minor_number"]), n.nvmlDeviceGetMinorNumber(handle))
    same(f"{where} memory", gpu["fb_memory_usage"]["total"], f"{memory.total // MIB} MiB")
    same(f"{where} used", gpu["fb_memory_usage"]["used"], f"{memory.used // MIB} MiB")
    same(f"{where} heat", gpu["temperature"]["gpu_temp"], f"{n.nvmlDeviceGetTemperature(handle, 0)} C")
    same(f"{where} limit", gpu["gpu_power_readings"]["current_power_limit"], f"{limit:.2f} W")
    same(f"{where} clock", gpu["clocks"]["sm_clock"], f"{clock} MHz")
    same(f"{where} busy", gpu["utilization"]["gpu_util"], f"{n.nvmlDeviceGetUtilizationRates(handle).gpu} %")
    same(f"{where} MIG", gpu["mig_mode"]["current_mig"], "Disabled")

# nvidia_gpu_exporter finds names in quotes after an empty line, asks for all of them at once, and takes units out of headings.
fields = re.findall(r'(?m)\n\s*\n^"([^"]+)"', smi("--help-query-gpu"))
UNITS = {
    "fan.speed": "%",
    "memory.total": "MiB",
    "memory.used": "MiB",
    "memory.free": "MiB",
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "power.draw": "W",
    "power.limit": "W",
    "enforced.power.limit": "W",
    "power.default_limit": "W",
    "power.min_limit": "W",
    "power.max_limit": "W",
    "clocks.current.graphics": "MHz",
    "clocks.current.sm": "MHz",
    "clocks.current.memory": "MHz",
    "clocks.current.video": "MHz",
    "clocks.applications.graphics": "MHz",
    "clocks.applications.memory": "MHz",
    "clocks.default_applications.graphics": "MHz",
    "clocks.default_applications.memory": "MHz",
    "clocks.max.graphics": "MHz",
    "clocks.max.sm": "MHz",
    "clocks.max.memory": "MHz",
}
PLAIN = """timestamp driver_version count name serial uuid pci.bus_id pci.domain pci.bus pci.device pci.device_id
    pci.sub_device_id pcie.link.gen.current pcie.link.gen.max pcie.link.width.current pcie.link.width.max index display_mode
    display_active persistence_mode accounting.mode accounting.buffer_size driver_model.current driver_model.pending vbios_version
    inforom.img inforom.oem inforom.ecc inforom.pwr gom.current gom.pending pstate compute_mode compute_cap
    encoder.stats.sessionCount encoder.stats.averageFps encoder.stats.averageLatency ecc.mode.current ecc.mode.pending
    retired_pages.single_bit_ecc.count retired_pages.double_bit.count retired_pages.pending temperature.gpu temperature.memory
    power.management mig.mode.current mig.mode.pending""".split()
PLACES = "device_memory dram register_file l1_cache l2_cache texture_memory cbu sram total".split()
for kind in ("corrected", "uncorrected"):
    for life in ("volatile", "aggregate"):
        PLAIN += [f"ecc.errors.{kind}.{life}.{place}" for place in PLACES]
missing = [name for name in [*UNITS, *PLAIN] if name not in fields]
same("nvidia_gpu_exporter: fields not listed", missing, [])
rows = list(csv.reader(io.StringIO(smi("--query-gpu=" + ",".join(fields), "--format=csv")), skipinitialspace=True))
same("nvidia_gpu_exporter: lines", len(rows), 1 + len(handles))
same("nvidia_gpu_exporter: columns", {len(row) for row in rows}, {len(fields)})
for name, heading in zip(fields, rows[0]):
    bare, unit = re.fullmatch(r"(\S+)(?: \[(\S+)\])?", heading).groups()
    same(f"nvidia_gpu_exporter: heading of {name}", bare, name)
    if name in UNITS or name in PLAIN:
        same(f"nvidia_gpu_exporter: unit of {name}", unit, UNITS.get(name))
for row, handle in zip(rows[1:], handles):
    cells = dict(zip(fields, row))
    # It drops the unit and reads a number.
    number = lambda name: float(cells[name].split(" ")[0])
    memory = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    where = f"nvidia_gpu_exporter: {cells['index']}"
    same(f"{where} uuid", cells["uuid"], n.nvmlDeviceGetUUID(handle))
    same(f"{where} power.draw", number("power.draw"), float(f"{n.nvmlDeviceGetPowerUsage(handle) / 1000:.2f}"))
    same(f"{where} memory.used", number("memory.used"), float(memory.used // MIB))
    same(f"{where} temperature.gpu", number("temperature.gpu"), float(n.nvmlDeviceGetTemperature(handle, 0)))
    same(f"{where} pstate", cells["pstate"], f"P{n.nvmlDeviceGetPerformanceState(handle)}")
# Older names it may have been told to ask for.
old = "clocks_throttle_reasons.active,clocks.sm,clocks.mem,clocks.gr,gpu_name,gpu_uuid"
same("old names", len(smi(f"--query-gpu={old}", "--format=csv,noheader").splitlines()), len(handles))
print(f"{len(handles)} GPUs, {len(fields)} fields")
