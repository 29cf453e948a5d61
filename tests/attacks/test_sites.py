"""Damaged messages and answers between a coordinator and sites: a few always, more in a slow test.

More by hand: ``python -m tests.attacks.sites --attempts 2000``.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from attacks import n_attempts, sites
from sksurvgpu.federated import Site, wire
from sksurvgpu.federated.ledger import Ledger

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

ENDS = pytest.mark.parametrize("end", sites.ATTACKS)


@ENDS
def test_few_attempts(end):
    counts = Counter(sites.attack(end, 0, number) for number in range(40))
    assert len(counts) == 2 and min(counts.values()) > 2


@ENDS
@pytest.mark.weekly
def test_many_attempts(end):
    for number in range(n_attempts(0.4)):
        sites.attack(end, 1, number)


def attack_often(end):
    for number in range(30):
        sites.attack(end, 0, number)


def test_errors_from_inside_are_found(monkeypatch):
    def fail(*given):
        raise KeyError("inside")

    for case in sites.CASES:
        sites.exchanged(case)
    monkeypatch.setattr("sksurvgpu.federated.post.check_facts", fail)
    with pytest.raises(KeyError, match="inside"):
        attack_often("coordinator")
    monkeypatch.undo()
    monkeypatch.setattr("sksurvgpu.federated.session.check_facts", fail)
    with pytest.raises(AssertionError, match="error came up at the site"):
        attack_often("site")


STRANGE = {
    "options that are pairs": {"then": '[["wald", [["robust", true]]]]'},
    "keys that are estimators": {
        "estimator": '{"class": "CoxLassoCCD", "parameters": {"penalty_factor": {"pairs": '
        '[[{"class": "CoxLassoCCD", "parameters": {}}, 1]]}}}'
    },
    "times that are text": {"grid": np.array(["a", "b"])},
    "times without an axis": {"grid": np.array(1.0)},
    "times of two axes": {"grid": np.ones((2, 2))},
}


@pytest.mark.parametrize("name", STRANGE)
def test_programmes_that_cannot_be_shown_end_no_site(name, tmp_path):
    """... whose log and whose person in charge are shown them."""
    [(begin, _), *_], _ = sites.exchanged("plain")
    site = sites._site("plain", "B")
    site._log = tmp_path / "log"
    strange = wire.Begin(replace(begin.programme, **STRANGE[name]))
    for approve in (None, lambda programme: bool(str(programme))):
        answer = wire.decode(site.answer(wire.encode(strange), approve))
        assert "an error came up" not in getattr(answer, "reason", "")
        sites._end(site)
    assert len((tmp_path / "log").read_text().splitlines()) == 2
    assert isinstance(wire.decode(site.answer(wire.encode(begin))), wire.Joined)
    sites._end(site)


def test_number_of_rows_is_not_found_by_trying_grids():
    """A power of two is told: every grid up to it is answered alike by sites of other numbers."""
    [(begin, _), *_], _ = sites.exchanged("plain")
    X, y = sites._rows("plain")
    answers = []
    for n in (70, 100):
        site = Site(X[:n], y[:n], name="A", rules=sites.RULES)
        told = []
        for length in (69, 71, 99, 101, 127, 128):
            site.ledger = Ledger()
            asked = wire.Begin(replace(begin.programme, grid=np.arange(1.0, 1.0 + length)))
            told.append(getattr(wire.decode(site.answer(wire.encode(asked))), "reason", ""))
            sites._end(site)
        answers.append(told)
    assert answers[0] == answers[1] and [bool(a) for a in answers[0]] == [False] * 5 + [True]


def test_damage_is_that_of_its_seed():
    [(message, _), *_], _ = sites.exchanged("plain")
    same = [sites.damaged(np.random.default_rng(7), message, {}) for _ in range(2)]
    assert same[0] == same[1] != wire.encode(message)
