"""Runs a client that prints its readings as JSON and compares them with the API: readings.py NAME PROGRAM…

MIRAGE_VISIBLE_DEVICES, if set, also says which GPUs the client must see, numbered anew.
"""

import json
import os
import subprocess
import sys

from truth import LIMIT_S, Checks, Truth

SAME = ("uuid", "name", "serial", "pci_bus_id", "minor", "memory_total_bytes", "memory_reserved_bytes",
        "memory_used_bytes", "temperature_c", "sm_clock_mhz", "memory_clock_mhz", "performance_state")
MAYBE = ("utilization_percent", "memory_utilization_percent")


def visible(gpus):
    """The GPUs this process may see."""
    wanted = os.environ.get("MIRAGE_VISIBLE_DEVICES")
    if wanted is None:
        return gpus
    return [gpus[int(index)] for index in wanted.split(",")]


def compare(checks, found, gpu, index):
    where = f"of GPU {index}"
    checks.same("index", found["index"], index, where)
    for key in SAME:
        if key in found:
            checks.same(key, found[key], gpu[key], where)
    for key in MAYBE:
        if key in found:
            checks.same(key, found[key], gpu.get(key), where)
    if "power_mw" in found:
        watts = gpu.get("power_average_w", gpu["power_w"])
        checks.same("power", found["power_mw"], round(watts * 1000), where)
        checks.same("power limit", found["power_limit_mw"], round(gpu["power_limit_w"] * 1000), where)
    if "energy_mj" in found:
        energy = gpu.get("energy_j")
        checks.same("energy", found["energy_mj"], None if energy is None else round(energy * 1000), where)
    pids = sorted(process["pid"] for process in gpu.get("processes", []))
    checks.same("processes", sorted(found["pids"]), pids, where)
    if "mig_devices" in found:
        keys = ("uuid", "gpu_instance", "compute_instance", "memory_total_bytes", "memory_used_bytes")
        shown = [device for device in gpu.get("mig_devices", []) if "compute_instance" in device]
        checks.same("MIG devices", sorted(tuple(device[key] for key in keys) for device in found["mig_devices"]),
                    sorted(tuple(device[key] for key in keys) for device in shown), where)


def main():
    name, program = sys.argv[1], sys.argv[2:]
    truth, checks = Truth(), Checks(name)
    gpus = visible(truth.gpus)
    done = subprocess.run(program, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"{name} ended with {done.returncode}: {done.stderr}{done.stdout}")
    found = json.loads(done.stdout)
    cuda = [int(part) for part in truth.cuda.split(".")]
    checks.same("driver", found["driver"], truth.driver)
    if "cuda" in found:
        checks.same("cuda", found["cuda"], cuda[0] * 1000 + cuda[1] * 10)
    checks.same("count", len(found["gpus"]), len(gpus))
    for index, (reading, gpu) in enumerate(zip(found["gpus"], gpus)):
        compare(checks, reading, gpu, index)
    truth.refresh_is_same_tick(checks)
    checks.end(at_least=12 if gpus else 3)


main()
