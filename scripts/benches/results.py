"""Results, and their table."""

import os
import platform
import subprocess
import sys
import time
from statistics import median


def seconds(value):
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1 or unit == "µs":
            return f"{value * factor:.3g} {unit}"


def rate(value):
    """Bytes per second."""
    return f"{value / 1e9:.2f} GB/s" if value >= 1e9 else f"{value / 1e6:.0f} MB/s"


def size(value):
    """Bytes."""
    return f"{value / 2**20:.0f} MiB" if value >= 10 * 2**20 else f"{value / 2**20:.2f} MiB"


def share(value):
    return f"{100 * value:.2f} %"


def plain(value):
    return f"{value:.2f}"


def commit():
    """The commit of this tree, even if `KPACKFS` names a program of another one. A bare machine has no git."""
    command = ["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


class Results:
    def __init__(self, judge):
        self.judge = judge
        self.rows = []
        self.started = time.strftime("%Y-%m-%d %H:%M")
        self.load_before = os.getloadavg()[0]
        self.rounds = set()
        self.notes = []

    def compare(self, scenario, what, subject, control, unit, against, at_least=None, at_most=None):
        """Two lists of values, taken in turn. The ratio is the median of the ratios of the rounds."""
        ratio = median(one / other for one, other in zip(subject, control))
        goal, met = self._goal(ratio, at_least, at_most, plain)
        self.rounds.add(len(subject))
        self._row(scenario, what, unit(median(subject)), f"{against} {unit(median(control))}", f"{ratio:.2f}", goal, met)

    def absolute(self, scenario, what, values, unit, note="", at_least=None, at_most=None):
        """Values without a control, with or without a goal."""
        value = median(values)
        goal, met = self._goal(value, at_least, at_most, unit)
        self.rounds.add(len(values))
        self._row(scenario, what, unit(value), note, "", goal, met)

    def left_out(self, scenario, reason):
        print(f"\n*** LEFT OUT: {scenario}: {reason} ***\n", file=sys.stderr)
        self.rows.append((scenario, f"**left out: {reason}**", "", "", "", "", ""))

    def _goal(self, value, at_least, at_most, unit):
        if at_least is not None:
            return f"≥ {unit(at_least)}", self._met(value >= at_least)
        if at_most is not None:
            return f"≤ {unit(at_most)}", self._met(value <= at_most)
        return "", ""

    def _met(self, met):
        return ("yes" if met else "**no**") if self.judge else "-"

    def _row(self, *cells):
        self.rows.append(cells)
        print("  ".join(filter(None, cells)), file=sys.stderr)

    def markdown(self):
        title = ("scenario", "what", "subject", "control", "ratio", "goal", "met?")
        lines = [self.machine(), "", *(f"| {' | '.join(cells)} |" for cells in (title, ["---"] * 2 + ["---:"] * 4 + ["---"], *self.rows))]
        return "\n".join(lines) + "\n"

    def machine(self):
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
        load = f"load {self.load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
        rounds = f"{min(self.rounds, default=0)} rounds" if len(self.rounds) < 2 else f"{min(self.rounds)} to {max(self.rounds)} rounds"
        return f"{self.started} UTC, commit {commit()}, {os.cpu_count()} cores of {model}, Linux {platform.release()}, {', '.join([load, rounds, *self.notes])}"
