"""Stability selection: halves are the estimator's own fits, and bounds those of the theorems."""

import pickle

import numpy as np
import pytest
from faces import FACES, X
from sklearn.base import clone

from sksurvgpu import (
    CoxLassoCCD,
    LinearCCD,
    StabilityResult,
    fit_path,
    stability_selection,
    surv,
)
from sksurvgpu.data.simulate.draw import generator
from sksurvgpu.inference._replicates import DRAWS
from sksurvgpu.inference.stability_result import expected_errors, largest_tail

ALPHAS = [0.03, 0.005]


def halves(seed, n_units, sampling, n_subsamples):
    """Weights of units as they are documented, (n_units, n_subsamples)."""
    seed, found = int(generator(seed).integers(2**63)), []
    size = n_units // 2
    for b in range(n_subsamples):
        number, first = (b // 2, b % 2 * size) if sampling == "complementary" else (b, 0)
        order = np.random.default_rng([seed, number]).permutation(n_units)
        found.append(np.isin(np.arange(n_units), order[first : first + size]))
    return np.array(found, float).T


@pytest.mark.thorough(but=r"(cox|conditional logistic|poisson)-complementary|fine-gray-half")
@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
@pytest.mark.parametrize("sampling", ["complementary", "half"])
@pytest.mark.parametrize("name", list(FACES))
def test_halves_are_fits_to_weights(name, sampling):
    face = FACES[name]
    unit = face.drawn
    model, rest = face.make(penalty_factor={3: 0.0}), np.zeros(12)
    if name == "cox":
        rest[1] = 0.1
        model.set_params(prior_mean={1: 0.1})
    given = dict(face.rows)
    options = {"alphas": ALPHAS, "n_subsamples": 4, "sampling": sampling, "random_state": 3}
    result = stability_selection(model, X, face.y, max_errors=1e6, **options, **given)
    weight = halves(3, unit.max() + 1, sampling, 4)[unit] * given.pop("sample_weight")[:, None]
    selected = np.array(
        [
            [
                clone(model).set_params(alpha=alpha).fit(X, face.y, sample_weight=w, **given).coef_
                != rest
                for alpha in ALPHAS
            ]
            for w in weight.T
        ]
    )
    np.testing.assert_array_equal(result.probabilities, selected.mean(axis=0).T)
    union = np.maximum.accumulate(selected[:, :, np.arange(12) != 3], axis=1)
    np.testing.assert_array_equal(result.n_selected, union.sum(axis=2).mean(axis=0))
    stable = selected.mean(axis=0).max(axis=0) >= 0.75
    np.testing.assert_array_equal(result.support, stable & (np.arange(12) != 3))
    assert stable.any() and not hasattr(model, "coef_")


@pytest.mark.parametrize("n_units", [10, 11])
def test_complementary_halves_have_nothing_in_common(n_units):
    draw = DRAWS["complementary"]
    pairs = np.array([draw(1, b, n_units) for b in range(200)]).reshape(100, 2, n_units)
    assert (pairs.sum(axis=2) == 5).all() and pairs.sum(axis=1).max() == 1
    assert len(np.unique(pairs[:, 0], axis=0)) > 50
    np.testing.assert_allclose(pairs.mean(axis=(0, 1)), 5 / n_units, atol=0.1)


@pytest.fixture(scope="module")
def noisy():
    """Three effects among forty columns."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(200, 40))
    return columns, columns[:, :3] @ [1.0, -1.0, 0.7] + rng.normal(size=200)


@pytest.fixture(scope="module")
def result(noisy):
    return stability_selection(LinearCCD(), *noisy, n_alphas=8, random_state=0)


def test_selection(result):
    """What is selected, from the definition."""
    assert result.support.nonzero()[0].tolist() == [0, 1, 2]
    counts = [
        expected_errors(q, 40, 0.75, 100, "unimodal") <= 1.0 for q in result.n_selected.tolist()
    ]
    assert 0 < sum(counts) < 8 and result.alpha_min == result.alphas[sum(counts) - 1]
    best = result.probabilities[:, : sum(counts)].max(axis=1)
    np.testing.assert_array_equal(result.max_probabilities, best)
    table = result.summary()
    assert table["selected"].sum() == 3 and table["probability"].is_monotonic_decreasing
    assert set(table.index[:3]) == {"x0", "x1", "x2"}
    assert result.to_frame().shape == (8, 40)
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again, StabilityResult)
    np.testing.assert_array_equal(again.expected_errors, result.expected_errors)


@pytest.mark.thorough
def test_other_options_need_no_other_fits(noisy, result):
    options = {"threshold": 0.9, "max_errors": 0.1, "assumption": "none"}
    changed = result.with_options(**options)
    anew = stability_selection(LinearCCD(), *noisy, n_alphas=8, random_state=0, **options)
    np.testing.assert_array_equal(changed.support, anew.support)
    assert changed.alpha_min == anew.alpha_min > result.alpha_min
    assert result.threshold == 0.75
    with pytest.raises(TypeError, match="`sampling` cannot be changed after the fits"):
        result.with_options(sampling="half")
    with pytest.raises(ValueError, match=r"`threshold` is 0\.5, must be above 0\.5"):
        result.with_options(threshold=0.5)


@pytest.mark.thorough
def test_noise_is_rarely_selected():
    """Data sets without an effect, and at most 0.5 errors expected of each."""
    rng = np.random.default_rng(1)
    n_errors = []
    for seed in range(6):
        X, y = rng.normal(size=(60, 30)), rng.normal(size=60)
        found = stability_selection(
            LinearCCD(),
            X,
            y,
            n_alphas=4,
            alpha_min_ratio=0.3,
            n_subsamples=20,
            max_errors=0.5,
            threshold=0.6,
            assumption="r-concave",
            random_state=seed,
        )
        n_errors.append(found.support.sum())
    assert np.mean(n_errors) < 0.5


def test_folder_and_threads(noisy, tmp_path):
    given = {"n_alphas": 4, "n_subsamples": 40, "random_state": 5}
    plain = stability_selection(LinearCCD(n_jobs=2), *noisy, **given)
    model = LinearCCD(n_jobs=1)
    kept = stability_selection(model, *noisy, folder=tmp_path / "fits", **given)
    names = sorted(path.name for path in (tmp_path / "fits").glob("*.npz"))
    assert names == ["halves-0.npz", "halves-16.npz", "halves-32.npz"]
    (tmp_path / "fits" / names[1]).unlink()
    resumed = stability_selection(model, *noisy, folder=tmp_path / "fits", **given)
    for other in (kept, resumed):
        np.testing.assert_array_equal(plain.probabilities, other.probabilities)
        np.testing.assert_array_equal(plain.n_selected, other.n_selected)
    other = {**given, "n_subsamples": 42}
    with pytest.raises(FileExistsError, match="n_subsamples"):
        stability_selection(model, *noisy, folder=tmp_path / "fits", **other)


def test_penalties_begin_before_those_of_all_rows(noisy, result):
    path = fit_path(LinearCCD(), *noisy, n_alphas=8, alpha_min_ratio=0.1)
    np.testing.assert_allclose(result.alphas, np.sqrt(2) * path.alphas, rtol=1e-9)


def test_errors_beyond_what_is_allowed_warn(noisy):
    columns, y = noisy
    with pytest.warns(
        UserWarning, match="are to be expected even at the largest penalty"
    ) as caught:
        found = stability_selection(
            LinearCCD(), columns, y, alphas=[1e-3], n_subsamples=4, random_state=0
        )
    assert len(caught) == 1 and caught[0].filename == __file__
    assert not found.support.any() and found.max_probabilities.max() == 0


def test_halves_without_an_event_are_left_out_with_their_pair():
    rng = np.random.default_rng(0)
    X, event = rng.normal(size=(40, 3)), np.arange(40) < 4
    y = surv(event, rng.random(40))
    drawn = halves(0, 40, "complementary", 40)
    is_fit = (event @ drawn).reshape(-1, 2).all(axis=1)
    assert 0 < is_fit.sum() < 20
    with pytest.warns(UserWarning, match=f"{2 * (~is_fit).sum()} of 40 halves"):
        found = stability_selection(
            CoxLassoCCD(), X, y, alphas=[10.0], n_subsamples=40, random_state=0
        )
    assert found.n_subsamples == 2 * is_fit.sum()


def test_bound_without_an_assumption():
    assert expected_errors(10.0, 200, 0.9, 100, "none") == pytest.approx(100 / 200 / 0.8)
    # a share of 0.605 of 100 halves is one of 0.61
    assert expected_errors(5.0, 50, 0.605, 100, "none") == pytest.approx(25 / 50 / 0.22)


@pytest.mark.parametrize(
    ("q", "p", "threshold", "n_pairs", "unimodal", "concave"),
    [
        (10, 100, 0.75, 50, 1.020408163, 0.2858199965),
        (10, 100, 0.6, 50, 2.631578947, 1.141338056),
        (50, 1000, 0.9, 50, 1.078431373, 0.1688116233),
        (3, 20, 0.8, 25, 0.3807692308, 0.1141636022),
        (20, 1000, 0.55, 100, 2.105263158, 0.3520495276),
        (5, 50, 1.0, 20, 0.04761904762, 0.00814393708),
    ],
)
def test_bounds_are_those_of_stabs(q, p, threshold, n_pairs, unimodal, concave):
    """q^2 / p / um_const(threshold, B, q / p) and p * minD(q, p, threshold, B), stabs 0.6.

    Its optimize() stops short of the ends of an interval, where the largest value may be.
    """
    found = expected_errors(q, p, threshold, 2 * n_pairs, "unimodal")
    assert found == pytest.approx(unimodal, rel=1e-9)
    found = expected_errors(q, p, threshold, 2 * n_pairs, "r-concave")
    assert concave <= found < 1.03 * concave


@pytest.mark.thorough(but=r"0\.1-4")
@pytest.mark.parametrize("r", [-0.5, -0.25])
@pytest.mark.parametrize(("mean", "at_least", "n"), [(0.1, 4, 8), (0.05, 3, 6), (0.15, 8, 10)])
def test_largest_tail_is_the_largest(mean, at_least, n, r):
    """r-concave laws have convex masses to the power of r: many of them are tried."""
    best, rng = largest_tail(mean, at_least, n, r), np.random.default_rng(0)
    place, found = np.arange(n + 1), [0.0]
    for _ in range(3_000):
        bend = rng.choice([0.0, 0.1, 1.0]) * rng.exponential(size=n)
        convex = rng.exponential() ** 2 + np.append(0.0, np.cumsum(1.0 + np.cumsum(bend)))
        masses = convex ** (1.0 / r)
        last = rng.integers(2, n + 1)
        masses[last + 1 :] = 0.0
        masses[last] *= rng.random()  # which keeps it r-concave
        masses /= masses.sum()
        if masses @ place <= mean * n:
            found.append(masses[at_least:].sum())
    assert 0.8 * best < max(found) <= best * (1 + 1e-9)


def test_bounds_are_in_order():
    for q in (1.0, 5.0, 14.0, 30.0, 60.0, 100.0):
        none, unimodal, concave = (
            expected_errors(q, 100, 0.7, 100, which) for which in ("none", "unimodal", "r-concave")
        )
        assert 0 < concave <= unimodal <= none <= q


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_subsamples": 5}, "`n_subsamples` is 5, must be .* even for complementary pairs"),
        ({"n_subsamples": 2.0}, r"`n_subsamples` is 2\.0"),
        ({"sampling": "third"}, "`sampling` is 'third', must be one of 'complementary', 'half'"),
        ({"threshold": 1.1}, r"`threshold` is 1\.1, must be above 0\.5 and at most 1"),
        ({"max_errors": 0}, "`max_errors` is 0, must be a positive number"),
        ({"assumption": "normal"}, "`assumption` is 'normal', must be one of"),
        ({"sampling": "half", "assumption": "unimodal"}, 'bound is for sampling="complementary"'),
        ({"folder": "somewhere"}, "without a seed no call is the same"),
        ({"alpha_min_ratio": 2}, "`alpha_min_ratio` is 2"),
        ({"n_alphas": 0}, "`n_alphas` is 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        stability_selection(CoxLassoCCD(), X, FACES["cox"].y, **options)


def test_one_unit_is_no_data():
    with pytest.raises(ValueError, match="belong to one unit"):
        stability_selection(CoxLassoCCD(), X, FACES["cox"].y, groups=np.zeros(X.shape[0]))


@pytest.mark.thorough
def test_penalties_that_end_early_are_told():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0.0, 3.0, 600), rng.random((600, 40)) < 0.1])
    y = surv(np.ones(600, bool), rng.exponential(np.exp(-X[:, 0] - 0.8 * X[:, 1])))
    options = {"n_subsamples": 20, "n_alphas": 8, "random_state": 0}
    with pytest.warns(
        UserWarning, match=r"end at alpha .* of max_errors=1 .*alpha_min_ratio \(0.1"
    ):
        early = stability_selection(CoxLassoCCD(), X, y, **options)
    late = stability_selection(CoxLassoCCD(), X, y, alpha_min_ratio=0.005, **options)
    assert early.support[:2].tolist() == [True, False] and late.support[:2].all()
    stability_selection(
        CoxLassoCCD(), X, y, alphas=early.alphas, **options
    )  # as they were asked for
