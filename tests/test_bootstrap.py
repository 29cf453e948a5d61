"""Bootstrap: replicates are the estimator's own fits to weights, or to rows drawn."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from faces import COUNT, EXPOSURE, FACES, SUBJECT, X
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    BootstrapResult,
    CaseSeriesCCD,
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCCD,
    PoissonCCD,
    bootstrap,
    case_series,
    surv,
)
from sksurvgpu.data.simulate.draw import generator
from sksurvgpu.datasets import simulate_cox


def draws(seed, n_units, kind, n_replicates):
    """Weights of units, (n_units, n_replicates), as they are documented: from seed and number."""
    seed = int(generator(seed).integers(2**63))
    found = []
    for number in range(n_replicates):
        random = np.random.default_rng([seed, number])
        if kind == "multinomial":
            found.append(np.bincount(random.integers(n_units, size=n_units), minlength=n_units))
        else:
            found.append(random.standard_exponential(n_units))
    return np.array(found, float).T


@pytest.mark.thorough(but=r"\[(cox|conditional logistic|linear)-")
@pytest.mark.parametrize("kind", ["multinomial", "exponential"])
@pytest.mark.parametrize("name", list(FACES))
def test_replicates_are_fits_to_weights(name, kind):
    face = FACES[name]
    unit = face.drawn
    model = face.make()
    given = dict(face.rows)
    result = bootstrap(model, X, face.y, n_replicates=4, kind=kind, random_state=5, **given)
    weight = draws(5, unit.max() + 1, kind, 4)[unit] * given.pop("sample_weight")[:, None]
    for b in range(4):
        single = clone(model).fit(X, face.y, sample_weight=weight[:, b], **given)
        np.testing.assert_allclose(result.coefs[:, b], single.coef_, atol=1e-6)
    full = clone(model).fit(X, face.y, **face.rows)
    np.testing.assert_allclose(result.coef, full.coef_, atol=1e-7)
    assert not hasattr(model, "coef_")


def test_multinomial_weights_are_rows_drawn():
    data = simulate_cox(200, 6, density=0.4, random_state=0)
    y = data.y.copy()
    y["time"] = np.ceil(y["time"])  # ties, under which Breslow's weights are copies of rows
    result = bootstrap(CoxLassoCCD(tol=1e-10), data.X, y, n_replicates=3, random_state=1)
    seed = int(generator(1).integers(2**63))
    for b in range(3):
        rows = np.random.default_rng([seed, b]).integers(200, size=200)
        drawn = CoxLassoCCD(tol=1e-10).fit(data.X[rows], y[rows])
        np.testing.assert_allclose(result.coefs[:, b], drawn.coef_, atol=1e-7)


@pytest.mark.parametrize("group", [None, np.arange(120) // 3])
def test_rows_of_no_weight_are_not_drawn(group):
    data, weight = simulate_cox(120, 4, density=0.4, random_state=1), np.tile([0, 0, 0, 2, 0.5], 24)
    some = weight > 0
    found = [
        bootstrap(
            CoxLassoCCD(alpha=0.02, tol=1e-10),
            data.X[rows],
            data.y[rows],
            sample_weight=weight[rows],
            groups=None if group is None else group[rows],
            n_replicates=4,
            random_state=3,
        ).coefs
        for rows in (slice(None), some)
    ]
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("source", ["argument", "field"])
def test_groups_are_kept_whole(source):
    data = simulate_cox(120, 5, density=0.4, random_state=0)
    person = np.array([f"p{k % 40}" for k in range(120)])
    y = data.y
    if source == "field":
        y = surv(y["event"], y["time"], subject=person)
    groups = person if source == "argument" else None
    result = bootstrap(
        CoxLassoCCD(tol=1e-10), data.X, y, n_replicates=3, groups=groups, random_state=2
    )
    labels = np.unique(person)
    seed = int(generator(2).integers(2**63))
    for b in range(3):
        drawn = labels[np.random.default_rng([seed, b]).integers(40, size=40)]
        rows = np.concatenate([np.flatnonzero(person == label) for label in drawn])
        expected = CoxLassoCCD(tol=1e-10).fit(data.X[rows], data.y[rows])
        np.testing.assert_allclose(result.coefs[:, b], expected.coef_, atol=1e-7)


def test_balanced_classes_are_balanced_in_every_replicate():
    rng = np.random.default_rng(0)
    table, y = rng.normal(size=(150, 4)), rng.random(150) < 0.2
    model = LogisticCCD(class_weight="balanced", tol=1e-10)
    result = bootstrap(model, table, y, n_replicates=3, random_state=0)
    weight = draws(0, 150, "multinomial", 3)
    for b in range(3):
        single = clone(model).fit(table, y, sample_weight=weight[:, b])
        np.testing.assert_allclose(result.coefs[:, b], single.coef_, atol=1e-6)


def test_the_seed_alone_decides():
    data = simulate_cox(150, 6, density=0.4, random_state=0)
    one = bootstrap(CoxLassoCCD(n_jobs=1), data.X, data.y, n_replicates=6, random_state=3)
    two = bootstrap(CoxLassoCCD(n_jobs=2), data.X, data.y, n_replicates=6, random_state=3)
    np.testing.assert_array_equal(one.coefs, two.coefs)
    fewer = bootstrap(CoxLassoCCD(), data.X, data.y, n_replicates=2, random_state=3)
    np.testing.assert_array_equal(fewer.coefs, one.coefs[:, :2])
    others = bootstrap(CoxLassoCCD(), data.X, data.y, n_replicates=6, random_state=4)
    assert not np.array_equal(others.coefs, one.coefs)
    state = np.random.RandomState(0)
    first, second = (
        bootstrap(CoxLassoCCD(), data.X, data.y, n_replicates=2, random_state=state).coefs
        for _ in range(2)
    )
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    "kind", ["multinomial", pytest.param("exponential", marks=pytest.mark.thorough)]
)
def test_a_penalty_is_chosen_in_every_replicate(kind, tmp_path):
    data = simulate_cox(200, 6, density=0.4, random_state=0)
    model = CoxLassoCV(cv=3, alphas=[0.1, 0.03, 0.01, 0.003], l1_ratios=[0.5, 1.0], tol=1e-9)
    given = model, data.X, data.y
    drawn, options = draws(0, 200, kind, 3), {"kind": kind, "random_state": 0}
    result = bootstrap(*given, n_replicates=3, **options, folder=tmp_path)
    np.testing.assert_allclose(result.coef, clone(model).fit(*given[1:]).coef_, atol=1e-9)
    for b in range(3):
        single = clone(model).fit(*given[1:], sample_weight=drawn[:, b])
        assert single.alpha_ == result.alphas[b]
        np.testing.assert_allclose(single.coef_, result.coefs[:, b], atol=1e-9)
    again = bootstrap(*given, n_replicates=3, **options, folder=tmp_path)
    np.testing.assert_array_equal(again.coefs, result.coefs)
    assert bootstrap(CoxLassoCCD(), *given[1:], n_replicates=2).alphas is None


def test_replicates_that_no_split_fits_are_missing():
    event = np.arange(40) < 4
    y, table = surv(event, np.arange(40) + 1.0), np.random.default_rng(0).normal(size=(40, 2))
    model = CoxLassoCV(cv=2, alphas=[0.3, 0.1])
    with pytest.warns(UserWarning, match="of 12 replicates have no event"):
        result = bootstrap(model, table, y, n_replicates=12, random_state=0)
    missing = np.isnan(result.alphas)
    assert 0 < missing.sum() < 12
    np.testing.assert_array_equal(missing, np.isnan(result.coefs).any(axis=0))


def test_draws_are_what_they_are_called():
    counts, weights = (draws(0, 400, kind, 50) for kind in ("multinomial", "exponential"))
    assert (counts.sum(axis=0) == 400).all()
    assert np.var(counts) == pytest.approx(1 - 1 / 400, rel=0.05)
    assert weights.mean() == pytest.approx(1, rel=0.05)
    assert weights.var() == pytest.approx(1, rel=0.1)
    assert len(np.unique(counts, axis=1).T) == 50


def test_replicates_without_an_event():
    rng = np.random.default_rng(0)
    event = np.arange(40) < 2
    y, table = surv(event, 1.0 + rng.permutation(40)), rng.normal(size=(40, 2))
    model = CoxLassoCCD(alpha=0.005, tol=1e-10)
    drawn = draws(0, 40, "multinomial", 30)
    missing = drawn[event].sum(axis=0) == 0
    assert 0 < missing.sum() < 28
    with pytest.warns(UserWarning, match=f"^{missing.sum()} of 30 replicates have no event"):
        result = bootstrap(model, table, y, n_replicates=30, random_state=0)
    np.testing.assert_array_equal(np.isnan(result.coefs).any(axis=0), missing)
    for b in np.flatnonzero(~missing)[:3]:
        single = clone(model).fit(table, y, sample_weight=drawn[:, b])
        np.testing.assert_allclose(result.coefs[:, b], single.coef_, atol=1e-6)
    assert result.n_replicates == 30 and np.isfinite(result.summary()).all(axis=None)
    assert len(bootstrap(model, table, y, kind="exponential", n_replicates=5).to_frame()) == 5


def test_no_replicate_has_an_event():
    y = surv(np.arange(30) == 7, np.arange(30) + 1.0)
    seed = next(k for k in range(99) if not draws(k, 30, "multinomial", 2)[7].all())
    with pytest.raises(ValueError, match=r'of 2 replicates can be fitted.*kind="exponential"'):
        bootstrap(CoxLassoCCD(), np.eye(30)[:, :3], y, n_replicates=2, random_state=seed)


def test_figures_by_hand():
    rng = np.random.default_rng(0)
    coefs = np.round(rng.normal(size=(3, 41)), 3)
    coefs[1, ::2] = 0.0
    coefs[:, 5] = np.nan
    names = np.array(["a", "b", "c"], dtype=object)
    result = BootstrapResult(
        np.array([0.1, 0.0, -1.0]), coefs, 0.9, names, np.zeros(3, bool), "hazard_ratio"
    )
    kept = np.delete(coefs, 5, axis=1)
    for row, name in enumerate(names):
        ordered = np.sort(kept[row])
        # 39 gaps between 40 values: 5 % lies at 1.95 of them.
        lower = ordered[1] + 0.95 * (ordered[2] - ordered[1])
        upper = ordered[-2] - 0.95 * (ordered[-2] - ordered[-3])
        interval = result.intervals.loc[name]
        assert interval[["lower", "upper"]].tolist() == pytest.approx([lower, upper])
        deviation = np.sqrt(np.sum((kept[row] - kept[row].mean()) ** 2) / 39)
        assert result.standard_errors[name] == pytest.approx(deviation)
    # of the replicates 0, 2, ..., 40, none is the one that was not fitted
    assert result.selection_frequency.tolist() == [1.0, 19 / 40, 1.0]
    table = result.summary()
    assert table.index.name == "feature"
    np.testing.assert_allclose(table["hazard_ratio_upper"], np.exp(table["upper"]))
    assert table["coef"].tolist() == [0.1, 0.0, -1.0]
    assert result.n_replicates == 41 and result.to_frame().shape == (41, 3)
    assert repr(result).splitlines()[0] == (
        "<BootstrapResult of 41 replicates, 3 coefficients, 90% percentile intervals>"
    )
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(result)).summary(), table)


def test_names_and_progress(capsys):
    data = simulate_cox(100, 3, density=0.4, random_state=0)
    table = pd.DataFrame(data.X.toarray(), columns=["age", "dose", "sex"])
    cut = float(np.median(data.y["time"]))
    model = CoxLassoCCD(time_varying={"dose": [cut]}, verbose=1)
    result = bootstrap(model, table, data.y, n_replicates=3, random_state=0)
    names = clone(model).set_params(verbose=0).fit(table, data.y).summary().index.tolist()
    assert result.intervals.index.tolist() == names and len(names) == 4
    assert capsys.readouterr().out.startswith("bootstrap: 3 fits, ")


def test_fits_that_do_not_converge():
    data = simulate_cox(200, 5, density=0.4, random_state=0)
    with pytest.warns(ConvergenceWarning, match="of the 4 fits of the bootstrap did not converge"):
        bootstrap(CoxLassoCCD(alpha=1e-4, max_iter=1), data.X, data.y, n_replicates=3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_replicates": 1}, ValueError, "`n_replicates` is 1"),
        ({"n_replicates": 2.5}, ValueError, "`n_replicates` is 2.5"),
        ({"n_replicates": True}, ValueError, "`n_replicates` is True"),
        ({"level": 1.0}, ValueError, "`level` is 1.0"),
        ({"kind": "bayes"}, ValueError, "`kind` is 'bayes'.*'multinomial', 'exponential'"),
        ({"groups": [1, 2]}, ValueError, "`groups` has 2 entries, `X` has 4"),
        ({"exposure": 1}, TypeError, "`exposure` is no argument of bootstrap and CoxLassoCCD"),
        ({"estimator": "cox"}, TypeError, "of type str"),
    ],
)
def test_bad_arguments(change, error, message):
    y = surv([True, True, False, True], [1.0, 2.0, 3.0, 4.0])
    given = {"estimator": CoxLassoCCD(), "X": np.eye(4)[:, :2], "y": y} | change
    with pytest.raises(error, match=message):
        bootstrap(**given)


def test_groups_that_tear_subjects_apart():
    y = case_series(COUNT, EXPOSURE, SUBJECT)
    with pytest.raises(ValueError, match=r"`groups` tears rows apart.*row [0-9]+ is in another"):
        bootstrap(CaseSeriesCCD(), X, y, groups=np.arange(len(y)))
    coarser = bootstrap(
        CaseSeriesCCD(tol=1e-10), X, y, groups=SUBJECT // 2, n_replicates=2, random_state=0
    )
    weight = draws(0, SUBJECT.max() // 2 + 1, "multinomial", 2)[SUBJECT // 2]
    single = CaseSeriesCCD(tol=1e-10).fit(X, y, sample_weight=weight[:, 1])
    np.testing.assert_allclose(coarser.coefs[:, 1], single.coef_, atol=1e-6)


@pytest.mark.thorough
def test_standard_errors_of_a_mean():
    """A Poisson model of one column: the spread is that of the logarithm of a ratio of means."""
    rng = np.random.default_rng(0)
    treated, n = np.repeat([0.0, 1.0], 100), 200
    y = rng.poisson(2.0 + treated)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = bootstrap(
            PoissonCCD(alpha=0), treated[:, None], y, n_replicates=400, random_state=0
        )
    parts = [y[treated == k] for k in (0.0, 1.0)]
    variance = sum(part.var() / (n / 2) / part.mean() ** 2 for part in parts)
    assert result.standard_errors.iloc[0] == pytest.approx(np.sqrt(variance), rel=0.1)


def test_a_replicate_without_an_exposed_row_has_no_effect():
    """As a fit of its own, which says 0, and not the coefficient of all rows."""
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.normal(size=(60, 2)), np.r_[1.0, 1.0, np.zeros(58)]])
    y = surv(rng.random(60) < 0.7, rng.exponential(size=60))
    model = CoxLassoCCD(alpha=0.01, l1_ratio=0.0)
    result = bootstrap(model, table, y, n_replicates=60, random_state=0)
    empty = result.coefs[2] == 0.0
    assert 2 < np.count_nonzero(empty) < 20  # a share of exp(-2)
    assert result.coef[2] != 0.0


def test_one_unit_cannot_be_drawn():
    data = simulate_cox(50, 3, density=0.3, random_state=0)
    with pytest.raises(ValueError, match="belong to one unit"):
        bootstrap(CoxLassoCCD(), data.X, data.y, groups=np.zeros(50, int))


def test_a_folder_keeps_finished_replicates_of_one_call(tmp_path, monkeypatch):
    data, model = simulate_cox(200, 4, density=0.4, random_state=0), CoxLassoCCD()
    given = {"n_replicates": 20, "random_state": 0}
    expected = bootstrap(model, data.X, data.y, **given)
    given["folder"] = tmp_path / "work"
    first = bootstrap(model, data.X, data.y, **given)
    assert first.coefs.tobytes() == expected.coefs.tobytes()
    parts = {path.name for path in (tmp_path / "work").glob("*.npz")}
    assert parts == {"replicates-0.npz", "replicates-16.npz"}

    def refuse(*given, **changes):
        raise AssertionError("a finished part was computed again")

    with monkeypatch.context() as patch:
        patch.setattr("sksurvgpu.estimators._prepared.Prepared.solve", refuse)
        again = bootstrap(clone(model).set_params(n_jobs=1), data.X, data.y, **given)
    assert again.coefs.tobytes() == expected.coefs.tobytes()
    for change, told in (
        ({"n_replicates": 21}, "`n_replicates` is 20 there and 21 here"),
        ({"random_state": 1}, "`random_state` differs"),
        ({"groups": np.arange(200) // 2}, "`groups` differs"),
        ({"sample_weight": np.arange(1.0, 201.0)}, "`sample_weight` differs"),
    ):
        with pytest.raises(FileExistsError, match=told):
            bootstrap(model, data.X, data.y, **(given | change))
    with pytest.raises(ValueError, match="without a seed no call is the same; pass random_state"):
        bootstrap(model, data.X, data.y, folder=tmp_path)
    given |= {"n_replicates": 2, "folder": tmp_path / "folds"}
    model = CoxLassoCV(cv=2, alphas=[0.1], random_state=0)
    bootstrap(model, data.X, data.y, **given)
    with pytest.raises(FileExistsError, match="`seed of folds` is 0 there and 1 here"):
        bootstrap(model.set_params(random_state=1), data.X, data.y, **given)
    given["folder"] = tmp_path / "states"
    first, again = (
        bootstrap(model.set_params(random_state=np.random.RandomState(0)), data.X, data.y, **given)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.coefs, again.coefs)
