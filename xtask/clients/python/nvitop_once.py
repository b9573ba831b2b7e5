"""`nvitop --once` against the API: the rows of its table, and its library for exact values."""

import re
import subprocess
import sys
from pathlib import Path

from nvitop import NA, Device

from truth import LIMIT_S, Checks, Truth

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def table(checks, truth):
    """What a person reads: temperature, power, memory and utilisation of every GPU, in order."""
    program = Path(sys.executable).parent / "nvitop"
    done = subprocess.run([program, "--once", "--no-unicode", "--colorful"], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"nvitop ended with {done.returncode}: {done.stderr}{done.stdout}")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    checks.holds("driver in the table", truth.driver in shown)
    # Fan, temperature, state, power and limit, memory, utilisation.
    row = re.compile(
        r"^\|\s*(\S+)\s+(\d+)C\s+P(\d+)\s+(\d+)W\s*/\s*(\d+)W\s*"
        r"\|\s*([\d.]+)(\w+)\s*/\s*([\d.]+)(\w+)\s*\|\s*(\S+)", re.M)
    rows = row.findall(shown)
    checks.same("rows in the table", len(rows), len(truth.gpus))
    if len(rows) != len(truth.gpus):
        print(shown, file=sys.stderr)
    for index, (cells, gpu) in enumerate(zip(rows, truth.gpus)):
        fan, temperature, state, power, limit, used, used_unit, total, total_unit, busy = cells
        where = f"in the table, GPU {index}"
        watts = gpu.get("power_average_w", gpu["power_w"])
        checks.same("fan", fan, f"{gpu['fan_percent']}%" if "fan_percent" in gpu else "N/A", where)
        checks.same("temperature", int(temperature), gpu["temperature_c"], where)
        checks.same("state", int(state), gpu["performance_state"], where)
        checks.near("power", int(power), watts, 1, where)
        checks.same("limit", int(limit), round(gpu["power_limit_w"]), where)
        for what, number, unit in (("used", used, used_unit), ("total", total, total_unit)):
            # As many digits as it prints.
            slack = UNITS[unit] * (0.01 if "." in number else 1)
            checks.near(what, float(number) * UNITS[unit], gpu[f"memory_{what}_bytes"], slack, where)
        wanted = f"{gpu['utilization_percent']}%" if "utilization_percent" in gpu else "N/A"
        checks.same("utilisation", busy, wanted, where)


def library(checks, truth):
    """The same by its library, unrounded."""
    devices = Device.all()
    checks.same("count", len(devices), len(truth.gpus))
    for index, (device, gpu) in enumerate(zip(devices, truth.gpus)):
        where = f"of GPU {index}"
        watts = gpu.get("power_average_w", gpu["power_w"])
        rows = [
            ("name", device.name(), gpu["name"]),
            ("uuid", device.uuid(), gpu["uuid"]),
            ("bus id", device.bus_id(), gpu["pci_bus_id"]),
            ("memory", device.memory_total(), gpu["memory_total_bytes"]),
            ("exact used", device.memory_used(), gpu["memory_used_bytes"]),
            ("exact utilisation", device.gpu_utilization(), gpu.get("utilization_percent", NA)),
            ("exact memory utilisation", device.memory_utilization(), gpu.get("memory_utilization_percent", NA)),
            ("exact temperature", device.temperature(), gpu["temperature_c"]),
            ("exact power", device.power_usage(), round(watts * 1000)),
            ("exact limit", device.power_limit(), round(gpu["power_limit_w"] * 1000)),
            ("sm clock", device.sm_clock(), gpu["sm_clock_mhz"]),
            ("memory clock", device.memory_clock(), gpu["memory_clock_mhz"]),
            ("state", device.performance_state(), f"P{gpu['performance_state']}"),
        ]
        for what, found, wanted in rows:
            checks.same(what, found, wanted, where)


def main():
    truth, checks = Truth(), Checks("nvitop")
    library(checks, truth)
    table(checks, truth)
    truth.refresh_is_same_tick(checks)
    checks.end(at_least=20)


main()
