"""Many attempts, counted; what the fuzzers share.

An attempt is a function of a seed that returns a `Result`.  Attempts of a campaign have consecutive
seeds, so that ``--attempts 1 --seed S`` repeats the one that was printed with S.
"""

import argparse
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial


@dataclass
class Result:
    """What one attempt was about, and what came of it."""

    labels: list[str]  # what it is counted by
    text: str = ""  # the problem, in words
    skipped: str = ""  # why nothing could be compared
    unconverged: list[str] = field(default_factory=list)  # fits that said so
    failures: list[str] = field(default_factory=list)

    def require(self, holds, what):
        if not holds:  # a comparison with NaN is no success
            self.failures.append(what)


@dataclass
class Tally:
    """Results of a campaign."""

    tried: Counter = field(default_factory=Counter)
    skipped: Counter = field(default_factory=Counter)
    unconverged: Counter = field(default_factory=Counter)
    attempts: int = 0
    n_compared: int = 0
    n_unconverged: int = 0
    failures: list[str] = field(default_factory=list)
    tell: Callable[[str], None] = lambda failure: None  # at once, as attempts may take hours

    def add(self, seed, result):
        self.attempts += 1
        if result.skipped:
            self.skipped[result.skipped] += 1
            return
        self.n_compared += 1
        self.tried.update(result.labels)
        if result.unconverged:
            self.n_unconverged += 1
            self.unconverged.update(result.labels)
        if result.failures:
            lines = "\n    ".join([result.text, *result.failures])
            self.failures.append(f"seed {seed}: {lines}")
            self.tell(self.failures[-1])

    def report(self):
        lines = [
            f"{self.attempts} attempts: {self.n_compared} compared, of which {len(self.failures)} "
            f"failed and {self.n_unconverged} had a fit that said it did not converge; "
            f"{sum(self.skipped.values())} skipped"
        ]
        lines += [f"  skipped: {count} because {why}" for why, count in self.skipped.most_common()]
        for label in sorted(self.tried):
            said = f", {self.unconverged[label]} unconverged" if self.unconverged[label] else ""
            lines.append(f"  {label}: {self.tried[label]}{said}")
        return "\n".join(lines)


def run_campaign(attempt: Callable[[int], Result], numbers: Iterable[int], tally=None) -> Tally:
    """Make an attempt with each seed."""
    tally = Tally() if tally is None else tally
    for number in numbers:
        try:
            result = attempt(number)
        except Exception as error:  # whatever it is, the other attempts go on
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {where.name}, line {where.lineno}: {error}"
            result = Result(["an exception"], failures=[what])
        tally.add(number, result)
    return tally


def main(attempt, description):
    """Command line of a fuzzer; its exit status is 1 where an attempt failed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--attempts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the first attempt")
    options = parser.parse_args()
    tally = Tally(tell=partial(print, flush=True))
    try:
        run_campaign(attempt, range(options.seed, options.seed + options.attempts), tally)
    except KeyboardInterrupt:
        print("interrupted")
    print(tally.report())
    raise SystemExit(bool(tally.failures))
