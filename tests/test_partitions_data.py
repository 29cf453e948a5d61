"""Data over partitions that differ in what one table cannot: units, labels, names."""

import gc
import tempfile

import numpy as np
import pytest

from sksurvgpu import (
    ConditionalLogisticCCD,
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    PoissonCCD,
    matched,
    open_partitions,
    surv,
    write_partitions,
)
from sksurvgpu.partitions.handles import from_lists

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3))
LABEL = np.arange(60) % 5
HALVES = slice(0, 30), slice(30, None)
Y = surv(RANDOM.uniform(size=60) < 0.7, np.ceil(RANDOM.exponential(9.0 * np.exp(X[:, 0]))))


def halves(*kinds, values=None, **others):
    """Both halves of the rows; the labels of each are what its kind makes of them."""
    given = {"X": X, **others}
    handles = {name: [value[rows] for rows in HALVES] for name, value in given.items()}
    for name, labels in (values or {}).items():
        handles[name] = [kind(labels[k]) for k, kind in zip(HALVES, kinds, strict=True)]
    return from_lists(handles)


@pytest.mark.parametrize("scale", [1e-15, 1e-9, 1e-6, 1e-3, 1e6, 1e12, 1e60])
def test_intercepts_have_the_units_of_the_outcome(scale):
    y = scale * (X @ [1.0, -0.5, 0.0] + RANDOM.normal(size=60) + 0.3)
    model = LinearCCD(alpha=0.01 * scale, tol=1e-8)
    here = LinearCCD(**model.get_params()).fit(X, y)
    far = model.fit(**halves(y=y))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-11)
    assert far.intercept_ == pytest.approx(here.intercept_, rel=1e-6)
    np.testing.assert_allclose(far.coef_, here.coef_, atol=1e-6 * scale)
    assert far.n_exchanges_ < 40


def test_no_intercept_is_searched_of_moves_that_are_too_long():
    """Steps from far away are shortened again and again; all that matters is how far they go."""
    count = RANDOM.poisson(np.exp(0.5 * X[:, 0]))
    offset = 50.0 * X[:, 0]
    model = PoissonCCD(alpha=0.01, tol=1e-8)
    here = PoissonCCD(**model.get_params()).fit(X, count, offset=offset)
    far = model.fit(**halves(y=count, offset=offset))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-9)
    assert far.n_exchanges_ < 200


@pytest.mark.parametrize("first", [np.int64(2**60), np.uint64(2**63 + 2**60)])
def test_large_labels_of_two_integer_types_stay_apart(first):
    strata = LABEL.astype(np.uint64) + np.uint64(first)
    small = first < 2**63
    here = CoxLassoCCD(alpha=0.01, tol=1e-8).fit(X, Y, strata=strata)
    if not small:  # one half has labels that the other's type cannot hold
        strata[HALVES[0]] = LABEL[HALVES[0]]
        here.fit(X, Y, strata=strata)
    kinds = (lambda v: v.astype(np.int64)), np.asarray
    far = CoxLassoCCD(alpha=0.01, tol=1e-8).fit(**halves(*kinds, values={"strata": strata}, y=Y))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-11)
    assert list(far.cum_baseline_hazard_) == list(here.cum_baseline_hazard_)


def test_labels_of_two_kinds_are_refused():
    said = "labels are text in partition 1 and numbers in partition 0"
    kinds = np.asarray, (lambda labels: labels.astype(str))
    with pytest.raises(TypeError, match=said):
        CoxLassoCCD().fit(**halves(*kinds, values={"strata": LABEL}, y=Y))
    y = matched(np.arange(60) % 6 < 2, np.arange(60) // 6)
    torn = [matched(y["case"][::2], y["stratum"][::2])]
    torn += [matched(y["case"][1::2], y["stratum"][1::2].astype(str))]
    with pytest.raises(TypeError, match=said):  # each set has a row in both
        ConditionalLogisticCCD().fit(**from_lists({"X": [X[::2], X[1::2]], "y": torn}))


def test_subjects_of_two_kinds_are_refused():
    subject = np.arange(60) // 2
    torn = [Y[k] for k in HALVES]
    torn = [surv(y["event"], y["time"], subject=subject[HALVES[0]]) for y in torn]
    torn[1] = surv(torn[1]["event"], torn[1]["time"], subject=subject[HALVES[0]].astype(str))
    handles = from_lists({"X": [X[k] for k in HALVES], "y": torn})
    with pytest.raises(TypeError, match="labels are text in partition 1"):
        CoxLassoCV(cv=2, n_alphas=2).fit(**handles)
    torn[1] = Y[HALVES[1]]  # rows without a subject are each their own
    CoxLassoCV(cv=2, n_alphas=2).fit(**from_lists({"X": [X[k] for k in HALVES], "y": torn}))


def test_strata_of_some_partitions_only_are_refused():
    some = [surv(Y["event"][:30], Y["time"][:30], stratum=LABEL[:30]), Y[30:50], Y[50:]]
    parts = {"X": [X[:30], X[30:50], X[50:]], "y": some}
    with pytest.raises(ValueError, match="strata in partitions 0, and none in 1, 2; give"):
        CoxLassoCCD().fit(**from_lists(parts))


def test_torn_sets_without_anything_to_compare_say_so():
    y = matched(np.arange(6) % 2 == 0, np.arange(6) // 2)
    rows = [slice(k, k + 1) for k in range(6)]
    handles = from_lists({"X": [X[k] for k in rows], "y": [y[k] for k in rows]})
    with pytest.raises(ValueError, match=r"group 0 has rows in partitions 0 and 1, .*`group=`"):
        ConditionalLogisticCCD().fit(**handles)


def test_names_with_line_breaks_are_compared_one_by_one():
    pandas = pytest.importorskip("pandas")
    names = ["a\nb", "c", "d"], ["a", "b\nc", "d"]
    frames = [pandas.DataFrame(X[k], columns=n) for k, n in zip(HALVES, names, strict=True)]
    with pytest.raises(ValueError, match="column 0 of partition 1"):
        CoxLassoCCD().fit(**from_lists({"X": frames, "y": [Y[k] for k in HALVES]}))


def test_temporary_files_end_with_the_fit(tmp_path, monkeypatch):
    write_partitions(tmp_path / "rows.parts", (X, Y), rows=20)
    data = open_partitions(tmp_path / "rows.parts", memory=0)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    gc.disable()  # cycles of a fit are collected at some time only
    try:
        CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
        assert not list(folder.iterdir())
    finally:
        gc.enable()
