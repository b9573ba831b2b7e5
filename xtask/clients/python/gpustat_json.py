"""`gpustat --json` against the API."""

import json
import subprocess
import sys
from pathlib import Path

from truth import LIMIT_S, Checks, Truth

MIB = 1 << 20


def main():
    truth, checks = Truth(), Checks("gpustat")
    program = Path(sys.executable).parent / "gpustat"
    done = subprocess.run([program, "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"gpustat ended with {done.returncode}: {done.stderr}{done.stdout}")
    found = json.loads(done.stdout)
    checks.same("driver", found["driver_version"], truth.driver)
    checks.same("count", len(found["gpus"]), len(truth.gpus))
    for index, (shown, gpu) in enumerate(zip(found["gpus"], truth.gpus)):
        where = f"of GPU {index}"
        watts = gpu.get("power_average_w", gpu["power_w"])
        pids = sorted(process["pid"] for process in gpu.get("processes", []))
        rows = [
            ("index", "index", index),
            ("uuid", "uuid", gpu["uuid"]),
            ("name", "name", gpu["name"]),
            ("temperature", "temperature.gpu", gpu["temperature_c"]),
            ("utilisation", "utilization.gpu", gpu.get("utilization_percent")),
            ("memory", "memory.total", gpu["memory_total_bytes"] // MIB),
            ("used", "memory.used", gpu["memory_used_bytes"] // MIB),
            ("limit", "enforced.power.limit", int(gpu["power_limit_w"])),
            ("fan", "fan.speed", gpu.get("fan_percent")),
        ]
        for what, key, wanted in rows:
            checks.same(what, shown[key], wanted, where)
        checks.near("power", shown["power.draw"], watts, 1, where)
        # gpustat leaves out processes that the host does not have; it must never show others.
        shown_pids = {process["pid"] for process in shown["processes"] or []}
        checks.holds("processes", shown_pids <= set(pids), where)
    truth.refresh_is_same_tick(checks)
    checks.end(at_least=11)


main()
