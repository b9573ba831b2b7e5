"""nvtop in a pseudo-terminal against the API: nvtop_screen.py PROGRAM."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time

import pyte

from truth import LIMIT_S, Checks, Truth

COLUMNS = 160
GIB = 1 << 30
CELLS = re.compile(
    r"Device (\d+) \[([^\]]+)\].*?"
    r"GPU\s+(\d+)MHz\s+MEM\s+(\d+)MHz\s+TEMP\s+(\d+).C\s+(?:FAN\s+\S+\s+)?POW\s+(\d+)\s*/\s*(\d+)\s*W.*?"
    r"GPU\[[| ]*?(\d+%|N/A)\]\s+MEM\[[| ]*?([\d.]+)Gi/([\d.]+)Gi\]", re.S)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, program, rows, home):
        self.screen = pyte.Screen(COLUMNS, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.child, self.master = pty.fork()
        if self.child == 0:
            # The size is there before the program can ask for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
            os.environ.update(TERM="vt220", HOME=home, XDG_CONFIG_HOME=home, LANG="C.UTF-8", LC_ALL="C.UTF-8")
            os.execv(program[0], program)

    def feed(self, seconds):
        """Takes what it draws, for a while at most; whether it still lives."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            drawn = os.read(self.master, 1 << 16)
        except OSError:
            return False
        self.stream.feed(drawn)
        return bool(drawn)

    def text(self):
        return "\n".join(self.screen.display)

    def end(self):
        """Asks it to quit as a person would, then insists."""
        os.write(self.master, b"q")
        until = time.monotonic() + LIMIT_S
        while self.feed(0.1):
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                return status
            if time.monotonic() > until:
                os.kill(self.child, signal.SIGKILL)
        return os.waitpid(self.child, 0)[1]


def pids(truth):
    """The processes that must be on the screen."""
    return [str(process["pid"]) for gpu in truth.gpus for process in gpu.get("processes", [])]


def missing(wanted, text):
    """Which of the processes are not."""
    return [pid for pid in wanted if re.search(rf"\b{pid}\b", text) is None]


def show(program, truth):
    """Lets it draw until every GPU and every process is on the screen."""
    # A header of three lines per GPU, two GPUs beside each other on a wide screen, and room for processes.
    rows = 3 * len(truth.gpus) + 16
    with tempfile.TemporaryDirectory() as home:
        terminal = Terminal([program, "-p", "-C", "-d", "5"], rows, home)
        until = time.monotonic() + 2 * LIMIT_S
        found, text, wanted = [], "", pids(truth)
        # A screen is drawn from top to bottom in several writes: GPUs stand there before their processes do.
        while (len(found) < len(truth.gpus) or missing(wanted, text)) and time.monotonic() < until:
            lives = terminal.feed(0.5)
            found, text = panels(terminal.screen.display), terminal.text()
            if not lives:
                break
        status = terminal.end()
    if len(found) < len(truth.gpus):
        sys.exit(f"nvtop shows {len(found)} of {len(truth.gpus)} GPUs:\n{text}")
    return found, text, status


def panels(lines):
    """The GPUs on the screen, in order. Panels stand beside each other, so columns are cut where titles begin."""
    found = {}
    for at, line in enumerate(lines):
        starts = [match.start() for match in re.finditer(r"Device \d+ \[", line)]
        for start, end in zip(starts, starts[1:] + [COLUMNS]):
            block = "\n".join(row[start:end] for row in lines[at:at + 3])
            if cells := CELLS.search(block):
                found[int(cells[1])] = cells.groups()
    return [found[index] for index in sorted(found)]


def main():
    truth, checks = Truth(), Checks("nvtop")
    found, text, status = show(sys.argv[1], truth)
    for index, (cells, gpu) in enumerate(zip(found, truth.gpus)):
        number, name, clock, memory_clock, temperature, power, limit, busy, used, total = cells
        where = f"of GPU {index}"
        watts = gpu.get("power_average_w", gpu["power_w"])
        taken = gpu["memory_used_bytes"] + gpu["memory_reserved_bytes"]
        checks.same("number", int(number), index, where)
        checks.same("name", name, gpu["name"], where)
        checks.same("clock", int(clock), gpu["sm_clock_mhz"], where)
        checks.same("memory clock", int(memory_clock), gpu["memory_clock_mhz"], where)
        checks.same("temperature", int(temperature), gpu["temperature_c"], where)
        checks.near("power", int(power), watts, 1, where)
        checks.same("limit", int(limit), int(gpu["power_limit_w"]), where)
        wanted = f"{gpu['utilization_percent']}%" if "utilization_percent" in gpu else "N/A"
        checks.same("utilisation", busy, wanted, where)
        # Versions differ in whether the driver's reserve counts as used.
        near = min((taken, gpu["memory_used_bytes"]), key=lambda bytes_: abs(bytes_ / GIB - float(used)))
        checks.near("used", float(used), near / GIB, 0.01 if len(used.split(".")[-1]) > 1 else 0.1, where)
        checks.near("total", float(total), gpu["memory_total_bytes"] / GIB, 0.1, where)
    for pid in pids(truth):
        checks.holds("a process", pid not in missing([pid], text), pid)
    checks.same("status", status, 0)
    truth.refresh_is_same_tick(checks)
    if checks.wrong:
        print(text, file=sys.stderr)
    checks.end(at_least=11)


main()
