"""Random malformed input, in a slow test: as many attempts as `n_attempts` says.

More by hand: ``python -m tests.attacks.malformed --attempts 10000``.
"""

import numpy as np
import pytest

from attacks import malformed, misbehaving, n_attempts
from attacks.children import SECONDS, Child
from attacks.judge import MEANINGLESS, WrongError, judge

SEED = 20


@pytest.mark.slow
def test_attempts_of_all_kinds():
    counts, failures = malformed.attack(SEED, range(max(n_attempts(), 150)))
    assert not failures, "\n\n".join(malformed.describe(failure, SEED) for failure in failures)
    for kind in (*malformed.FORMATS, "frame"):
        assert counts[kind, "accepted"] and counts[kind, "refused"], kind


def test_crashes_and_hangs_are_seen_and_survived():
    with Child(misbehaving.__spec__.name, seed=5) as child:
        assert child.attempt(0).words == "seed 5"
        crash = child.attempt(1)
        assert crash.result == "failed"
        assert "Segmentation fault" in crash.words
        assert child.attempt(0).result == "accepted"
        child._seconds = 0.5
        assert "hangs" in child.attempt(2).words
        child._seconds = SECONDS
        assert child.attempt(3).result == "accepted"


def test_judgement():
    def root(number):
        if number < 0:
            raise ValueError("`number` is negative.")
        return [number**0.5]

    assert judge(root, 4.0, 4)[0] == "accepted"
    assert judge(root, -4.0, MEANINGLESS)[0] == "refused"
    assert judge(root, -4.0, 4)[0] == "refused"
    for damaged, plain, strict, words in (
        (4.0, MEANINGLESS, False, "has no meaning"),
        (4.0, -1, False, "plain form is refused"),
        (4.0, 5, False, "instead of"),
        (-4.0, 4, True, "as good as"),
    ):
        with pytest.raises(WrongError, match=words):
            judge(root, damaged, plain, strict=strict)
    with pytest.raises(TypeError, match="unsupported"):  # the words of another
        judge(lambda number: number + {}, np.ones(2), MEANINGLESS)
