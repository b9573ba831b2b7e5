"""Processes that wait for events wake when a fault is injected, each of them, with the right GPU and Xid."""

import os
import subprocess
import sys

import pynvml as nv

from truth import LIMIT_S, Checks, Truth

XID, WAITERS = 63, 3


def wait():
    """One waiting process: says it waits, then tells what woke it."""
    nv.nvmlInit()
    events = nv.nvmlEventSetCreate()
    for index in range(nv.nvmlDeviceGetCount()):
        nv.nvmlDeviceRegisterEvents(nv.nvmlDeviceGetHandleByIndex(index), nv.nvmlEventTypeXidCriticalError, events)
    print("waiting", flush=True)
    data = nv.nvmlEventSetWait_v2(events, LIMIT_S * 1000)
    print(nv.nvmlDeviceGetUUID(data.device), data.eventType, data.eventData, flush=True)
    nv.nvmlEventSetFree(events)
    nv.nvmlShutdown()


def main():
    truth, checks = Truth(), Checks("events")
    struck = truth.gpus[-1]
    waiting = [subprocess.Popen([sys.executable, __file__, "wait"], stdout=subprocess.PIPE, text=True)
               for _ in range(WAITERS)]
    try:
        for process in waiting:
            checks.same("readiness", process.stdout.readline().strip(), "waiting")
        # Registered before the fault, so it is theirs whether they have begun to wait or not.
        subprocess.run([os.environ["MIRAGE_BIN"], "ctl", "--state-dir", os.environ["MIRAGE_STATE_DIR"],
                        "fault", "inject", f"xid={XID}", "--device", struck["uuid"]],
                       check=True, capture_output=True, timeout=LIMIT_S)
        for process in waiting:
            told, _ = process.communicate(timeout=2 * LIMIT_S)
            wanted = f"{struck['uuid']} {nv.nvmlEventTypeXidCriticalError} {XID}"
            checks.same("event", told.strip(), wanted)
    finally:
        for process in waiting:
            process.kill()
            process.wait()
    truth.refresh()
    checks.same("last Xid in the API", truth.gpus[-1].get("last_xid"), XID)
    checks.end()


if sys.argv[1:] == ["wait"]:
    wait()
else:
    main()
