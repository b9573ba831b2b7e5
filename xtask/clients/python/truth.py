"""What the clients are measured against: the API, the exporter's page and the catalogue of one running mirage.

The engine stands still while a client is compared, so all three speak of one tick. Three variables say where to
look: MIRAGE_TRUTH (http://address), MIRAGE_NODE and MIRAGE_BIN.
"""

import functools
import json
import os
import re
import subprocess
import sys
import urllib.request

# How long anything may take on a machine that is busy with something else.
LIMIT_S = 120


class Truth:
    """Everything a running mirage says about one node."""

    def __init__(self):
        self.address = os.environ["MIRAGE_TRUTH"]
        self.node = os.environ["MIRAGE_NODE"]
        self.refresh()

    def refresh(self):
        """Reads again, after something was changed."""
        view = json.loads(self.page(f"/api/v1/nodes/{self.node}"))
        self.driver, self.cuda, self.tick = view["driver"], view["cuda"], view["tick"]
        self.gpus = view["gpus"]
        self.series = self._series()

    def refresh_is_same_tick(self, checks):
        """Whoever compared over a while asks whether time really stood still."""
        before = self.tick
        self.refresh()
        checks.same("the tick", before, self.tick)

    def page(self, path):
        with urllib.request.urlopen(self.address + path, timeout=LIMIT_S) as answer:
            return answer.read().decode()

    def metric(self, name, gpu):
        """A value of the exporter's page for a whole GPU; None where the page is silent."""
        return self.series.get((name, gpu))

    def _series(self):
        found = {}
        line = re.compile(r'(\w+)\{gpu="(\d+)",([^}]*)\} (\S+)')
        for name, gpu, labels, value in line.findall(self.page(f"/nodes/{self.node}/metrics")):
            if "GPU_I_ID=" not in labels:
                found.setdefault((name, int(gpu)), float(value))
        return found


@functools.cache
def catalogue(key):
    """A model as `mirage models` shows it, flattened: {"power.min-w": "100", ...}."""
    shown = subprocess.run(
        [os.environ["MIRAGE_BIN"], "models", key],
        check=True, capture_output=True, text=True, timeout=LIMIT_S,
    ).stdout
    figures, group = {}, ""
    for line in shown.splitlines():
        if head := re.fullmatch(r"([a-z-]+):", line):
            group = head[1]
        elif figure := re.fullmatch(r"  ([a-z0-9-]+): \[(.*), [a-z0-9-]+\]", line):
            figures[f"{group}.{figure[1]}"] = figure[2].strip('"')
    return figures


class Checks:
    """Comparisons, all of them made before any is held against anybody."""

    def __init__(self, client):
        self.client = client
        self.made = 0
        self.kinds = set()
        self.wrong = []

    def same(self, what, found, wanted, where=""):
        self.made += 1
        self.kinds.add(what)
        if found != wanted:
            self.wrong.append(f"{what} {where}: it says {found!r}, mirage says {wanted!r}")

    def near(self, what, found, wanted, slack, where=""):
        """For what a client rounds before it prints."""
        self.made += 1
        self.kinds.add(what)
        if not isinstance(found, (int, float)) or abs(found - wanted) > slack:
            self.wrong.append(f"{what} {where}: it says {found!r}, mirage says {wanted!r} (± {slack})")

    def holds(self, what, condition, where=""):
        self.made += 1
        self.kinds.add(what)
        if not condition:
            self.wrong.append(f"{what} {where}: does not hold")

    def end(self, at_least=1):
        """Tells the outcome; the process ends with it."""
        for line in self.wrong[:40]:
            print(f"  {line}", file=sys.stderr)
        if self.wrong:
            sys.exit(f"{self.client}: {len(self.wrong)} of {self.made} comparisons failed")
        if len(self.kinds) < at_least:
            sys.exit(f"{self.client}: {len(self.kinds)} kinds of values compared, {at_least} promised")
        print(f"{self.client}: {self.made} values of {len(self.kinds)} kinds agree")
