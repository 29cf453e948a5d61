"""Options: every check gives a plain value, or names the argument, its value and the rule."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sksurvgpu import CoxLassoCCD
from sksurvgpu._warnings import PACKAGE, keep_warnings, warn
from sksurvgpu.data import options
from sksurvgpu.datasets import simulate_cox


@pytest.mark.parametrize("value", [True, np.True_])
def test_a_flag_is_a_plain_one(value):
    assert options.flag(value, "robust") is True


@pytest.mark.parametrize("value", [1, "yes", None, np.ones(1, bool)])
def test_what_is_no_flag_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"`robust` is .*, must be True or False; ask\."):
        options.flag(value, "robust", "; ask")


def test_a_whole_number_is_a_plain_one():
    assert type(options.whole(np.int64(3), "n", 1)) is int


@pytest.mark.parametrize("value", [True, 1.0, "1", 0, None, np.nan])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match=r"`n` is .*, must be a whole number of at least 1"):
        options.whole(value, "n", 1)


def test_numbers_lie_within_bounds():
    between = {"above": 0, "below": 1}
    assert options.number(np.float32(0.5), "level", "must be small", **between) == 0.5
    assert options.number(0, "level", "must be small", least=0) == 0.0
    for value in (0, 1, True, np.nan, "0.5", None, [0.5]):
        with pytest.raises(ValueError, match=r"`level` is .*, must be small"):
            options.number(value, "level", "must be small", **between)
    with pytest.raises(ValueError, match="`level` is inf"):
        options.number(np.inf, "level", "must be small", least=0)


def test_a_choice_is_one_of_some_words():
    assert options.choice("b", "kind", ("a", "b")) == "b"
    assert options.choice(None, "kind", ("a", None)) is None
    for value in ("c", None, 1, ["a"], np.array(["a"])):
        with pytest.raises(ValueError, match=r"`kind` is .*, must be one of 'a', 'b', here"):
            options.choice(value, "kind", {"a": 1, "b": 2}, ", here")


def test_the_first_names_and_how_many_more():
    assert options.first_of(["a", "b"], 2) == "a, b"
    assert options.first_of(list(range(2_000)), 2) == "0, 1 and 1,998 more"


def test_warnings_point_at_the_caller_outside():
    inside = {"warn": warn}
    lines = "def deep(): warn('slow')\ndef shallow(): deep()"
    exec(compile(lines, f"{PACKAGE}/file.py", "exec"), inside)
    with pytest.warns(UserWarning, match="slow") as found:
        inside["shallow"]()
    assert found[0].filename == __file__


def test_a_script_whose_name_begins_as_the_package_is_outside():
    script = f"{PACKAGE}_study.py"
    inside = {"warn": warn}
    exec(compile("def study(): warn('slow')", script, "exec"), inside)
    with pytest.warns(UserWarning, match="slow") as found:
        inside["study"]()
    assert found[0].filename == script


def test_warnings_point_past_the_searches_of_scikit_learn():
    data = simulate_cox(100, 3, random_state=0)
    model = CoxLassoCCD(max_iter=1, tol=1e-12)
    with pytest.warns(ConvergenceWarning) as found:
        GridSearchCV(model, {"alpha": [1e-3]}, cv=2).fit(data.X, data.y)
    assert {warning.filename for warning in found} == {__file__}


def test_a_thread_keeps_its_own_warnings_alone():
    def other():
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="of the other"):
                warn("of the other")

    with keep_warnings() as kept:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        warn("of this one")
    assert [str(warning) for warning in kept] == ["of this one"]
