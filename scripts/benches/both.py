"""Scenarios over both transports of FUSE in turn: kpackfs and C1 over /dev/fuse, then over rings, round by round."""

import sys
from statistics import median

from .results import seconds, size
from .transports import allowed

TRANSPORTS = ("dev-fuse", "uring")


class Values:
    """The results of one round over one transport, by scenario and row: a value, that of its control, and how they are written."""

    # What was left out, in any round.
    said = set()

    def __init__(self):
        self.rows = {}

    def compare(self, scenario, what, subject, control, unit, against, **goal):
        name = f"{what}, {against}" if "warm" in against else what
        self.rows[scenario, name] = (median(subject), median(control), unit, against, unit not in (seconds, size))

    def absolute(self, scenario, what, values, unit, note="", **goal):
        if unit is not str:
            self.rows[scenario, what] = (median(values), None, unit, "", "at_least" in goal)

    def left_out(self, scenario, reason):
        """Says it at the first of the rounds."""
        if (scenario, reason) not in self.said:
            self.said.add((scenario, reason))
            print(f"\n*** LEFT OUT: {scenario}: {reason} ***\n", file=sys.stderr)


class Table:
    """All rounds, and the table of their medians."""

    def __init__(self):
        self.rounds = []

    def add(self, of_transports):
        self.rounds.append(of_transports)

    def markdown(self):
        lines = ["| scenario | what | /dev/fuse | rings | rings by /dev/fuse | /dev/fuse by control | rings by control | control |"]
        lines.append("|---|---|---:|---:|---:|---:|---:|---|")
        names = dict.fromkeys(key for rounds in self.rounds for values in rounds.values() for key in values.rows)
        lines.extend(row for key in names if (row := self.row(key)))
        return "\n".join(lines) + "\n"

    def row(self, key):
        measured = [[values.rows.get(key) for values in rounds.values()] for rounds in self.rounds]
        measured = [pair for pair in measured if all(pair)]
        if not measured:
            return None
        _, _, unit, against, is_speed = measured[0][0]
        old, new = ([pair[index] for pair in measured] for index in range(2))
        gain = median(ring[0] / device[0] for device, ring in measured if device[0]) if any(it[0] for it in old) else 1
        controls = [f"{median(value / control for value, control, *_ in side):.2f}" if against else "" for side in (old, new)]
        control = f"{against} {' / '.join(unit(median(it[1] for it in side)) for side in (old, new))}" if against else ""
        direction = "more" if is_speed else "less"
        cells = (*key, *(unit(median(it[0] for it in side)) for side in (old, new)), f"{gain:.2f} ({direction} is better)", *controls, control)
        return f"| {' | '.join(cells)} |"


def run(bench, scenarios, rounds):
    """Runs scenarios by turns, each round in full over one transport and then over the other."""
    table, machine = Table(), bench.results
    with allowed():
        bench.rounds = 1
        for name, scenario in scenarios.items():
            for _ in range(rounds):
                of_transports = {}
                for transport in TRANSPORTS:
                    bench.transport = transport
                    bench.results = of_transports[transport] = Values()
                    bench.run(name, scenario)
                table.add(of_transports)
    bench.results = machine
    machine.rounds.add(rounds)
    return f"{machine.machine()}\n\n{table.markdown()}"
