"""How things are timed: as `detent-bench` does it. Trials that are compared run in turn, again and
again, so that whatever the machine does in between happens to all of them; a sample is as many runs
as the clock needs; the median and the quartiles of the samples come out."""

import dataclasses
import json
import statistics
import time
from collections.abc import Callable

SECONDS = 1.0  # of a comparison, once every trial is warm
MOST_TURNS = 101
FEWEST_TURNS = 5


@dataclasses.dataclass
class Options:
    repeat: int | None  # turns; None: as many as fit into about a second
    quick: bool  # whether it works, not how fast
    compiled: bool  # training steps by torch.compile, too


@dataclasses.dataclass
class Trial:
    name: str  # of its row, as in `detent-bench`
    source: str  # who does the work, with version
    unit: str  # "ms": the value is the time, else work / time / 10^9
    run: Callable
    work: float = 0.0  # of one run
    ratio_to: "Trial | None" = None
    ratio_name: str = ""
    runs: int = 1  # in a sample
    seconds: list = dataclasses.field(default_factory=list)  # of one run, for each turn

    def value(self, seconds):
        return 1e3 * seconds if self.unit == "ms" else 1e-9 * self.work / seconds


class Printer:
    """Rows as lines for people or as objects of JSON, each as soon as it stands."""

    def __init__(self, as_json):
        self.as_json = as_json
        self.rows = 0

    def begin(self, machine):
        if self.as_json:
            print('{"machine": %s,\n"rows": [' % json.dumps(machine), end="", flush=True)
        else:
            print("\n".join("%s: %s" % item for item in machine.items()), end="\n\n", flush=True)

    def row(self, **row):
        if self.as_json:
            # Only detent prints shares of the machine's limits: it measures these limits.
            row = {**row, "limit": None, "share_of_limit": None}
            print(",\n  " if self.rows else "\n  ", json.dumps(row), sep="", end="", flush=True)
        else:
            line = "%-46s %8s %-8s" % (row["name"], digits(row["value"]), row["unit"])
            if row["repetitions"] > 1:
                line += "  %-18s" % "({} to {})".format(digits(row["low"]), digits(row["high"]))
            for other, ratio in (row["ratio_to"] or {}).items():
                line += "  %.2f x %s" % (ratio, other)
            print(line, " ", row["source"], flush=True)
        self.rows += 1

    def end(self):
        if self.as_json:
            print("\n]}")


def digits(value):
    """Three digits, or all before the point."""
    places = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return "%.*f" % (places if abs(value) >= 0.9995 else 3, value)


def sample(trial):
    if trial.unit == "ms":  # a step follows a step, whose memory is in the caches
        trial.run()
    start = time.perf_counter()
    for _ in range(trial.runs):
        trial.run()
    return (time.perf_counter() - start) / trial.runs


def calibrate(trial, enough):
    """Doubles the runs until a sample is long enough; the first ones also warm up."""
    trial.run()
    while sample(trial) * trial.runs < enough:
        trial.runs *= 2


def is_enough(options, turns, elapsed):
    if options.repeat:
        return turns >= options.repeat
    if options.quick:
        return turns >= 3
    return turns >= MOST_TURNS or (turns >= FEWEST_TURNS and elapsed > SECONDS)


def measure(options, printer, trials):
    """Runs the trials in turn and prints a row for each."""
    for trial in trials:
        calibrate(trial, 1e-4 if options.quick else 5e-3)
    start = time.perf_counter()
    turns = 0
    while not is_enough(options, turns, time.perf_counter() - start):
        for trial in trials:
            trial.seconds.append(sample(trial))
        turns += 1
    for trial in trials:
        print_trial(printer, trial)


def print_trial(printer, trial):
    quartiles = statistics.quantiles(trial.seconds, n=4, method="inclusive")
    low, value, high = (trial.value(seconds) for seconds in quartiles)
    ratio = None
    if trial.ratio_to is not None:
        other = trial.ratio_to
        ratio = {trial.ratio_name: value / other.value(statistics.median(other.seconds))}
    printer.row(
        name=trial.name,
        value=value,
        unit=trial.unit,
        low=min(low, high),
        high=max(low, high),
        repetitions=len(trial.seconds),
        ratio_to=ratio,
        source=trial.source,
    )


def print_bytes(printer, name, source, count, ratio_to=None):
    """A row of memory: it does not vary."""
    printer.row(
        name=name,
        value=count / 2**20,
        unit="MiB",
        low=count / 2**20,
        high=count / 2**20,
        repetitions=1,
        ratio_to=ratio_to,
        source=source,
    )
