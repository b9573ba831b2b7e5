"""An nvidia-smi, mirage's or a user's own with mirage's library: nvidia_smi.py PATH.

Its usual commands end well, and what they show is what the API says. NVIDIA's binary is never fetched or bundled.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

from truth import LIMIT_S, Checks, Truth

MIB = 1 << 20


class Smi:
    """The binary, and how it ended."""

    def __init__(self, path, checks):
        self.path, self.checks = path, checks

    def __call__(self, *words):
        done = subprocess.run([self.path, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.checks.same("exit code", done.returncode, 0, f"of nvidia-smi {' '.join(words)}: {done.stdout[-300:]}")
        return done.stdout


def watts_of(gpu):
    return gpu.get("power_average_w", gpu["power_w"])


def table(smi, checks, truth):
    """The table people know."""
    shown = smi()
    checks.holds("driver in the table", truth.driver in shown)
    row = re.compile(r"\|\s*(\S+)\s+(\d+)C\s+P(\d+)\s+(\d+)W\s*/\s*(\d+)W\s*\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|\s*(\S+)")
    rows = row.findall(shown)
    checks.same("rows in the table", len(rows), len(truth.gpus))
    for index, (cells, gpu) in enumerate(zip(rows, truth.gpus)):
        _, temperature, state, power, limit, used, total, busy = cells
        where = f"of GPU {index} in the table"
        checks.same("temperature", int(temperature), gpu["temperature_c"], where)
        checks.same("state", int(state), gpu["performance_state"], where)
        checks.near("power", int(power), watts_of(gpu), 1, where)
        checks.near("limit", int(limit), gpu["power_limit_w"], 1, where)
        checks.near("used", int(used), gpu["memory_used_bytes"] / MIB, 1, where)
        checks.near("total", int(total), gpu["memory_total_bytes"] / MIB, 1, where)
        if "utilization_percent" in gpu:
            checks.same("utilisation", busy, f"{gpu['utilization_percent']}%", where)


def lists(smi, checks, truth):
    """-L, --query-gpu, --query-compute-apps."""
    shown = smi("-L")
    for index, gpu in enumerate(truth.gpus):
        checks.holds("-L", f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})" in shown, f"of GPU {index}")
        for device in gpu.get("mig_devices", []):
            checks.holds("MIG in -L", device.get("uuid", "") in shown, device.get("uuid"))
    columns = ("index,uuid,name,pci.bus_id,serial,temperature.gpu,clocks.sm,clocks.mem,memory.total,memory.used,"
               "enforced.power.limit,pstate,utilization.gpu")
    rows = smi(f"--query-gpu={columns}", "--format=csv,noheader,nounits").splitlines()
    checks.same("rows of --query-gpu", len(rows), len(truth.gpus))
    for index, (row, gpu) in enumerate(zip(rows, truth.gpus)):
        busy = str(gpu["utilization_percent"]) if "utilization_percent" in gpu else "[N/A]"
        wanted = [str(index), gpu["uuid"], gpu["name"], gpu["pci_bus_id"], gpu["serial"], str(gpu["temperature_c"]),
                  str(gpu["sm_clock_mhz"]), str(gpu["memory_clock_mhz"]), str(gpu["memory_total_bytes"] // MIB),
                  str(gpu["memory_used_bytes"] // MIB), f"{gpu['power_limit_w']:.2f}", f"P{gpu['performance_state']}",
                  busy]
        for column, cell, right in zip(columns.split(","), row.split(", "), wanted):
            checks.same(column, cell, right, f"of GPU {index}")
    shown = smi("--query-compute-apps=pid,gpu_uuid,used_memory", "--format=csv,noheader,nounits")
    found = sorted(tuple(line.split(", ")) for line in shown.splitlines() if line.strip())
    wanted = sorted((str(process["pid"]), gpu["uuid"], str(process["memory_bytes"] // MIB))
                    for gpu in truth.gpus for process in gpu.get("processes", []))
    checks.same("--query-compute-apps", found, wanted)


def everything(smi, checks, truth):
    """-q as text and as XML."""
    shown = smi("-q")
    checks.same("GPUs in -q", len(re.findall(r"^GPU [0-9A-F]{8}:", shown, re.M)), len(truth.gpus))
    try:
        tree = xml.fromstring(smi("-q", "-x"))
    except xml.ParseError as error:
        checks.holds("-q -x", False, f"as XML: {error}")
        return
    checks.same("attached GPUs in -q -x", tree.findtext("attached_gpus"), str(len(truth.gpus)))
    for index, (found, gpu) in enumerate(zip(tree.findall("gpu"), truth.gpus)):
        rows = [("uuid", gpu["uuid"]), ("product_name", gpu["name"]), ("serial", gpu["serial"]),
                ("minor_number", str(gpu["minor"])), ("temperature/gpu_temp", f"{gpu['temperature_c']} C"),
                ("clocks/sm_clock", f"{gpu['sm_clock_mhz']} MHz"), ("performance_state", f"P{gpu['performance_state']}"),
                ("fb_memory_usage/total", f"{gpu['memory_total_bytes'] // MIB} MiB"),
                ("fb_memory_usage/used", f"{gpu['memory_used_bytes'] // MIB} MiB")]
        for path, wanted in rows:
            checks.same(f"{path} in -q -x", found.findtext(path), wanted, f"of GPU {index}")


def tools(smi, checks, truth):
    """Topology, links and the monitors."""
    shown = smi("topo", "-m")
    for index in range(len(truth.gpus)):
        checks.holds("topo -m", f"GPU{index}" in shown)
    shown = smi("nvlink", "-s")
    # A GPU that is cut has no links to show.
    whole = [gpu for gpu in truth.gpus if "mig" not in gpu.get("flags", [])]
    checks.holds("nvlink -s", all(gpu["uuid"] in shown for gpu in whole), shown)
    rows = [line for line in smi("dmon", "-c", "1").splitlines() if line.strip() and not line.startswith("#")]
    checks.same("rows of dmon", len(rows), len(truth.gpus))
    for row, gpu in zip(rows, truth.gpus):
        checks.same("temperature in dmon", row.split()[2], str(gpu["temperature_c"]))
    smi("pmon", "-c", "1")


def partitions(smi, checks, truth):
    """mig -lgip, -cgi, -lgi, -dgi on a free GPU that is cut already."""
    cut = [index for index, gpu in enumerate(truth.gpus) if "mig" in gpu.get("flags", [])]
    checks.holds("a GPU in MIG mode", bool(cut))
    if not cut:
        return
    gpu = str(cut[0])
    checks.holds("mig -lgip", "MIG 1g" in smi("mig", "-i", gpu, "-lgip"))
    made = smi("mig", "-i", gpu, "-cgi", "19", "-C")
    instance = re.search(r"GPU instance ID\s+(\d+)", made)
    checks.holds("mig -cgi", instance is not None, made)
    if instance is None:
        return
    truth.refresh()
    ids = [device["gpu_instance"] for device in truth.gpus[cut[0]].get("mig_devices", [])]
    checks.holds("the new instance in the API", int(instance[1]) in ids)
    shown = smi("mig", "-i", gpu, "-lgi")
    checks.same("mig -lgi", len(re.findall(r"^\|\s+\d+\s+MIG ", shown, re.M)), len(ids))
    smi("mig", "-i", gpu, "-dci", "-gi", instance[1])
    smi("mig", "-i", gpu, "-dgi", "-gi", instance[1])
    truth.refresh()
    left = [device["gpu_instance"] for device in truth.gpus[cut[0]].get("mig_devices", [])]
    checks.same("the instance is gone from the API", int(instance[1]) in left, False)


def main():
    path = os.path.abspath(sys.argv[1])
    truth, checks = Truth(), Checks("nvidia-smi")
    smi = Smi(path, checks)
    table(smi, checks, truth)
    lists(smi, checks, truth)
    everything(smi, checks, truth)
    tools(smi, checks, truth)
    truth.refresh_is_same_tick(checks)
    partitions(smi, checks, truth)
    checks.end(at_least=30)


main()
