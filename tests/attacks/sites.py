"""Messages and answers between a coordinator and sites, damaged: an error in our words, or no harm.

::

    python -m tests.attacks.sites --seed 0 --attempts 2000

A damaged message is answered, by a refusal perhaps; a site that hears all again from the beginning
answers as if it had not been sent.  A damaged answer ends the fit with an error that names the site
or a sum that is none, or changes nothing.
"""

import argparse
import re
import warnings
from collections import Counter
from dataclasses import is_dataclass, replace
from functools import cache

import numpy as np
from sklearn.base import clone

from sksurvgpu import (
    CaseSeriesCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    case_series,
    competing_risks,
    surv,
)
from sksurvgpu.federated import Coordinator, RefusedError, Rules, Site, wire
from sksurvgpu.federated.keys import Identity

N_ROWS, CUT, GRID = 180, 80, np.arange(1.0, 9.0)
RULES = Rules(
    min_rows=1, min_sites=2, max_exchanges=10**6, largest_share=1.0, longest_range=700.0,
    max_models=99, max_matrices=10**6, blur=0.0,
)  # fmt: skip
# Words of the site that a refusal must not have: those of errors from inside.
INSIDE = "an error came up at the site"
# What a site keeps of a message, so that rows are not told twice.
KEPT = re.compile("or proposed before|fits of other sites")
OURS = re.compile(
    r"^site '[AB]'|^(strata or classes|rows have strata) .* 'A' and 'B'|of site 'B'|^column \d+ of"
    r"|^what the sites have sent does not add up|^some site refused points of this fit"
)


def _rows(kind):
    random = np.random.default_rng(3)
    X = (random.random((N_ROWS, 4)) < 0.4).astype(float)
    X[:, 0] = random.normal(size=N_ROWS)
    event, time = random.random(N_ROWS) < 0.7, random.integers(1, 9, N_ROWS).astype(float)
    outcomes = {
        "plain": lambda: surv(event, time),
        "delayed": lambda: surv(event, time, start=time * (random.random(N_ROWS) < 0.4) / 2),
        "strata": lambda: surv(event, time, stratum=np.array(["f", "m"])[X[:, 1].astype(int)]),
        "competing": lambda: competing_risks(event * random.integers(1, 3, N_ROWS), time),
        "classes": lambda: event.astype(int),
        "numbers": lambda: time + X[:, 0],
        "persons": lambda: case_series(random.poisson(1.0, N_ROWS), time, np.arange(N_ROWS) // 4),
    }  # fmt: skip
    return X, outcomes[kind]()


CASES = {
    "plain": (CoxLassoCCD(alpha=0.02), "plain", {"level": "full"}),
    "efron": (CoxLassoCCD(alpha=0.02, ties="efron"), "plain", {}),
    "delayed": (CoxLassoCCD(alpha=0.02), "delayed", {}),
    "strata": (CoxLassoCCD(alpha=0.02), "strata", {"level": "sample", "matrix_of": "B"}),
    "competing": (FineGrayCCD(alpha=0.02), "competing", {"level": "full"}),
    "classes": (LogisticCCD(alpha=0.02), "classes", {"level": "full"}),
    "numbers": (LinearCCD(alpha=0.02), "numbers", {}),
    "persons": (CaseSeriesCCD(alpha=0.02), "persons", {"level": "full"}),
}


def _site(case, name):
    X, y = _rows(CASES[case][1])
    rows = slice(0, CUT) if name == "A" else slice(CUT, None)
    options = {"rules": RULES, "secret": 16 * b"a", "key": Identity(name.encode() * 32)}
    return Site(X[rows], y[rows], name=name, **options)


def _end(site):
    """End the thread of a fit that nobody goes on with."""
    if site._session is not None:
        site._session.stop()


def _fit(case, damage):
    """A fit in which answers of a site go through a function, which is told their number."""
    model, _, options = CASES[case]
    sites, n_answers = {name: _site(case, name) for name in "AB"}, Counter()

    def send(message):
        n_answers["B"] += 1
        return damage(n_answers["B"] - 1, message, sites["B"].answer(message))

    send_to = {"A": sites["A"].answer, "B": send}
    grid = GRID if hasattr(model, "ties") or isinstance(model, FineGrayCCD) else None
    coordinator = Coordinator(clone(model), send_to, grid=grid, rows_per_time=1, **options)
    try:
        return coordinator.fit()
    finally:
        for site in sites.values():
            _end(site)


@cache
def exchanged(case):
    """Messages to a site in an honest fit and its answers, and coefficients of the fit."""
    found = []

    def keep(_, message, answer):
        found.append((wire.decode(message), wire.decode(answer)))
        return answer

    model = _fit(case, keep)
    return found, model.coef_.tobytes()


def _places(value, path=()):
    """All places within a message: (path, what is there)."""
    yield path, value
    inner = vars(value) if is_dataclass(value) else value
    if isinstance(inner, tuple):
        inner = dict(enumerate(inner))
    for key, item in inner.items() if isinstance(inner, dict) else ():
        yield from _places(item, (*path, key))


def _put(value, path, new):
    """A value with something else at a place within it."""
    if not path:
        return new
    key, *rest = path
    if is_dataclass(value):
        return replace(value, **{key: _put(getattr(value, key), rest, new)})
    if isinstance(value, dict):
        return value | {key: _put(value[key], rest, new)}
    return (*value[:key], _put(value[key], rest, new), *value[key + 1 :])


def _damage_array(random, array):
    one = array.reshape(-1)[:1]
    ways = [
        lambda: array[..., 1:], lambda: np.concatenate([array.reshape(-1), one]),
        lambda: array[None], lambda: array.reshape(-1)[:0],
        lambda: one.reshape(()) if len(one) else array[None],
        lambda: array[::-1] if array.ndim else array, lambda: array.astype(np.float32),
        lambda: array.astype(np.int32), lambda: array.astype(str), lambda: array.astype(bool),
        lambda: array.astype(array.dtype.newbyteorder(">")), lambda: array.astype(np.float64),
        lambda: array.astype(np.int64), lambda: -array, lambda: array + 1, lambda: array * 0,
    ]  # fmt: skip
    numbers = (np.nan, np.inf, -np.inf, -1, 1e308, -1e308, 2**62, -(2**62), 10**6, 0.5, 1e-300)

    def set_one():
        changed, number = array.copy(), numbers[random.integers(len(numbers))]
        if array.dtype.kind != "f" and number != number // 1:
            changed = changed.astype(float)
        changed.reshape(-1)[random.integers(array.size)] = number
        return changed

    way = random.integers(2 * len(ways))
    if way < len(ways) or not array.size or array.dtype.kind == "U":
        return ways[way % len(ways)]()
    return set_one()


def _damage_value(random, value):
    choices = [None, True, -1, 0, 1, 2**70, -(2**70), 10**9, np.nan, np.inf, -1e308, 0.5, "", "x"]
    choices += [np.zeros(2), np.zeros(0, np.int64), (), {}, wire.Lost(), "[" * 5000, '{"model": 1}']
    if isinstance(value, float | int | str | bool | None) and random.random() < 0.8:
        alike = [c for c in choices if isinstance(c, type(value) | float | int)]
        return alike[random.integers(len(alike))]
    return choices[random.integers(len(choices))]


def _damage_container(random, value):
    if isinstance(value, tuple):
        return [value * 2, value[1:], value[::-1], (), (*value, None)][random.integers(5)]
    names = list(value)
    first, other = random.choice(names, 2) if names else ("more", "more")
    dropped = {name: table for name, table in value.items() if name != first}
    others = value | {"more": np.zeros(1)}, value | {first: value.get(other, np.zeros(1))}
    return [dropped, dropped, *others][random.integers(4)]


def damaged(random, content, stamp):
    """Bytes of a message or an answer that is not quite right, or not one at all."""
    if random.random() < 0.05:
        data = bytearray(wire.encode(content, **stamp))
        data[random.integers(len(data))] ^= 1 << random.integers(8)
        return bytes(data[: random.integers(1, 3) * len(data) * 2 // 3])
    places = list(_places(content))
    for _ in range(1 + (random.random() < 0.2)):
        path, value = places[random.integers(len(places))]
        try:
            if isinstance(value, np.ndarray) and random.random() < 0.9:
                with np.errstate(all="ignore"):
                    new = _damage_array(random, value)
            elif isinstance(value, tuple | dict) and random.random() < 0.8:
                new = _damage_container(random, value)
            else:
                new = _damage_value(random, value)
            content = _put(content, path, new)
        except (TypeError, ValueError, OverflowError, KeyError, IndexError, AttributeError):
            continue  # there is no such damage
    return wire.encode(content, **stamp)


def attack_site(random, case):
    """Send a damaged message to a site in the middle of a fit; "refused" or "answered"."""
    said, _ = exchanged(case)
    at = int(random.integers(len(said))) if random.random() < 0.5 else int(random.integers(5))
    site = _site(case, "B")
    try:
        for message, _ in said[:at]:
            site.answer(wire.encode(message))
        found = wire.decode(site.answer(damaged(random, said[at][0], {})))
        reason = found.reason if isinstance(found, wire.Refused) else ""
        assert INSIDE not in reason, reason
        for message, right in said[: at + 2]:
            again = wire.decode(site.answer(wire.encode(message)))
            if isinstance(again, wire.Refused):
                assert KEPT.search(again.reason), again.reason
                break
            # Nonces of what is sealed are random.
            is_same = isinstance(right, wire.Sealed) or wire.encode(again) == wire.encode(right)
            assert is_same, "answers another thing"
    finally:
        _end(site)
    return "refused" if reason else "answered"


def attack_coordinator(random, case):
    """Damage an answer of a site in a fit; "refused" or "fitted"."""
    found, coef = exchanged(case)
    chosen = int(random.integers(len(found)))

    def damage(number, message, answer):
        if number != chosen:
            return answer
        stamp = vars(wire.read(answer))
        return damaged(random, stamp["content"], {k: stamp[k] for k in ("site", "about", "rows")})

    try:
        with warnings.catch_warnings(action="ignore"):  # of what is no sum
            model = _fit(case, damage)
    except (ValueError, TypeError, RefusedError) as error:
        if OURS.search(str(error)):
            return "refused"
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    assert model.coef_.tobytes() == coef
    return "fitted"


ATTACKS = {"site": attack_site, "coordinator": attack_coordinator}


def attack(end, seed, number):
    """One attempt on a site or a coordinator."""
    case = list(CASES)[number % len(CASES)]
    return ATTACKS[end](np.random.default_rng([seed, number]), case)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--attempts", type=int, default=500)
    parser.add_argument("--ends", nargs="*", default=list(ATTACKS))
    parser.add_argument("--repeat", type=int, metavar="NUMBER", help="one attempt alone")
    options = parser.parse_args()
    warnings.simplefilter("error")
    counts = Counter()
    numbers = range(options.attempts) if options.repeat is None else [options.repeat]
    for end in options.ends:
        for number in numbers:
            try:
                counts[end, attack(end, options.seed, number)] += 1
            except Exception as error:
                if options.repeat is not None:
                    raise
                counts[end, "failed"] += 1
                print(f"{end} {number}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
