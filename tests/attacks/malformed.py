"""Malformed input of all kinds: no crash, no hang, no error of others, no wrong result.

::

    python -m tests.attacks.malformed --seed 0 --attempts 10000
    python -m tests.attacks.malformed --seed 0 --repeat 1234

The second form makes one attempt in the process itself and shows its traceback.
"""

import argparse
import sys
import traceback
from collections import Counter
from functools import partial

import numpy as np

from .children import Child
from .files import attack_file
from .frames import attack_frame
from .matrices import FORMATS, attack_matrix
from .records import attack_records
from .vectors import attack_vectors

# What is attacked -> one attempt, from a random generator to a result and the words of a refusal.
ATTACKS = {format: partial(attack_matrix, format=format) for format in FORMATS}
ATTACKS |= {
    "frame": attack_frame,
    "vector": attack_vectors,
    "records": attack_records,
    "file": attack_file,
}


def kind_of(number):
    """What an attempt attacks: all kinds in turn."""
    return list(ATTACKS)[number % len(ATTACKS)]


def make_attempt(seed, number):
    return ATTACKS[kind_of(number)](np.random.default_rng([seed, number]))


def attempt(seed, number):
    """Return the result of an attempt, "accepted", "refused" or "failed", and its words."""
    try:
        return make_attempt(seed, number)
    except Exception:
        return "failed", traceback.format_exc()


def attack(seed, numbers, report=lambda outcome: None):
    """Make attempts in a child; return counts by kind and result, and the failures."""
    counts, failures = Counter(), []
    with Child(__spec__.name, seed) as child:
        for number in numbers:
            outcome = child.attempt(number)
            counts[kind_of(number), outcome.result] += 1
            if outcome.result == "failed":
                failures.append(outcome)
                report(outcome)
    return counts, failures


def describe(outcome, seed):
    return (
        f"attempt {outcome.number} ({kind_of(outcome.number)}), repeated by\n"
        f"python -m tests.attacks.malformed --seed {seed} --repeat {outcome.number}\n"
        f"{outcome.words}"
    )


def table(counts):
    results = ("accepted", "refused", "failed")
    lines = [f"{'':12}" + "".join(f"{result:>10}" for result in results)]
    for kind in (*ATTACKS, "all"):
        found = [
            sum(n for (k, r), n in counts.items() if r == result and kind in (k, "all"))
            for result in results
        ]
        lines.append(f"{kind:12}" + "".join(f"{n:10,}" for n in found))
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attempts", type=int, default=1000)
    parser.add_argument("--kinds", nargs="*", choices=list(ATTACKS), help="only these")
    parser.add_argument("--repeat", type=int, metavar="NUMBER", help="one attempt, right here")
    options = parser.parse_args(arguments)
    if options.repeat is not None:
        print(*make_attempt(options.seed, options.repeat))
        return 0

    def report(outcome):
        print(describe(outcome, options.seed), flush=True)

    numbers = [
        number
        for number in range(options.attempts)
        if not options.kinds or kind_of(number) in options.kinds
    ]
    counts, failures = attack(options.seed, numbers, report)
    print(table(counts))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
