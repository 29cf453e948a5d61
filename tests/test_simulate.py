"""The generators do what their docstrings say. Seeds are fixed; bounds are 5 standard errors."""

import numpy as np
import pytest
from scipy import sparse, stats

from sksurvgpu.data.simulate import draw, survival
from sksurvgpu.datasets import simulate_cox, simulate_dense, simulate_ehr

GENERATORS = {
    "cox": lambda **kwargs: simulate_cox(2_000, 60, **kwargs),
    "ehr": lambda **kwargs: simulate_ehr(2_000, 60, **kwargs),
    "dense": lambda **kwargs: simulate_dense(200, 60, **kwargs),
}


@pytest.fixture(params=GENERATORS)
def generate(request):
    return GENERATORS[request.param]


@pytest.fixture(params=["cox", "ehr"])
def generate_sparse(request):
    return GENERATORS[request.param]


def values(X):
    return X.data if sparse.issparse(X) else X


def same(first, second):
    return np.array_equal(values(first.X), values(second.X)) and (
        not sparse.issparse(first.X)
        or (
            np.array_equal(first.X.indices, second.X.indices)
            and np.array_equal(first.X.indptr, second.X.indptr)
        )
    )


def correlations(X):
    return np.corrcoef(X.toarray() if sparse.issparse(X) else X, rowvar=False)


def test_same_seed_same_data(generate):
    first, second, other = generate(random_state=3), generate(random_state=3), generate()
    assert same(first, second)
    assert np.array_equal(first.y, second.y)
    assert np.array_equal(first.coef, second.coef)
    assert not np.array_equal(first.y, other.y)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_generators_are_accepted_and_advance(kind):
    source = kind(5)
    first, second = (simulate_cox(300, 20, random_state=source) for _ in range(2))
    again = simulate_cox(300, 20, random_state=kind(5))
    assert same(first, again)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.y, second.y)


def test_design_does_not_depend_on_strata(generate):
    assert same(generate(random_state=1), generate(random_state=1, n_strata=4))


def test_sparse_format(generate_sparse):
    X = generate_sparse(random_state=0).X
    assert isinstance(X, sparse.csc_array)
    assert X.dtype == np.float64
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert np.all(X.data == 1.0)
    # Strictly increasing rows in each column: sorted and without duplicates.
    is_first = np.zeros(X.nnz + 1, bool)
    is_first[X.indptr] = True
    assert np.all((np.diff(X.indices) > 0) | is_first[1:-1])
    assert X.indices.min() >= 0
    assert X.indices.max() < X.shape[0]
    assert X.shape == (2_000, 60)


def test_dense_format():
    X = simulate_dense(30, 50, random_state=0).X
    assert X.shape == (30, 50)
    assert X.dtype == np.float64
    assert X.flags.f_contiguous


def test_columns_differ(generate):
    X = generate(random_state=2).X
    columns = (X.toarray() if sparse.issparse(X) else X).T
    assert len(np.unique(columns, axis=0)) == 60
    assert np.all(columns.std(axis=1) > 0)


def test_outcome(generate):
    data = generate(random_state=4)
    assert data.y.dtype.names == ("event", "time")
    assert data.y["event"].dtype == bool
    assert data.y["time"].dtype == np.float64
    assert np.all(data.y["time"] > 0.9)
    assert np.all(data.y["time"] < 501)
    assert 0.05 < data.y["event"].mean() < 0.95
    assert data.strata is None


def test_ties(generate):
    broken = generate(random_state=4).y
    tied = generate(random_state=4, tie_break=False).y
    assert np.unique(broken["time"]).size == broken.size
    assert np.unique(tied["time"]).size < tied.size
    assert np.all(tied["time"] == np.round(tied["time"]))
    assert np.all(tied["time"] >= 1)
    assert np.array_equal(tied["event"], broken["event"])
    noise = broken["time"] - tied["time"]
    assert np.abs(noise).max() < 6e-3
    assert 0.8e-3 < noise.std() < 1.2e-3


def test_strata(generate):
    strata = generate(random_state=0, n_strata=5).strata
    assert strata.dtype == np.int32
    counts = np.bincount(strata)
    assert counts.size == 5
    expected = strata.size / 5
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize("n_features", [5, 60, 333])
def test_share_of_zero_coefficients(n_features):
    coef = simulate_cox(50, n_features, random_state=0).coef
    assert np.count_nonzero(coef == 0) == round(0.8 * n_features)


@pytest.mark.parametrize(("simulator", "scale"), [(simulate_cox, 1.0), (simulate_ehr, 0.5)])
def test_spread_of_coefficients(simulator, scale):
    coef = simulator(2, 4_000, zero_fraction=0.0, random_state=0).coef
    assert stats.kstest(coef, stats.norm(0, scale).cdf).pvalue > 1e-3


@pytest.mark.parametrize("density", [0.0, 0.002, 0.05, 0.5, 0.95])
def test_cox_cells_are_independent_bernoulli(density):
    n, p = 4_000, 50
    X = simulate_cox(n, p, density=density, random_state=11).X
    sd = np.sqrt(n * density * (1 - density))
    counts = np.diff(X.indptr)
    assert abs(X.nnz - n * p * density) <= 5 * sd * np.sqrt(p)
    assert np.abs(counts - n * density).max() <= 5 * sd
    if density > 0:
        # The counts vary as binomial ones do, which a fixed count a column would not.
        assert 0.5 < counts.std() / sd < 1.5
        off_diagonal = correlations(X)[~np.eye(p, dtype=bool)]
        # Of rare columns one shared row is already a large correlation: only their mean is tight.
        largest = 6 / np.sqrt(n) if density >= 0.05 else 0.5
        assert np.abs(off_diagonal).max() < largest
        assert abs(off_diagonal.mean()) < 5 / np.sqrt(n * p * (p - 1) / 2)
        # Rows are uniform: neither the first nor the last ones are favoured.
        assert stats.kstest(X.indices / n, "uniform").pvalue > 1e-3


def test_cox_chunks_have_no_seam(monkeypatch):
    n, p = 1_000, 40
    monkeypatch.setattr(draw, "CHUNK_CELLS", 7 * n)
    counts = np.diff(simulate_cox(n, p, density=0.2, random_state=0).X.indptr)
    assert counts.size == p
    assert np.abs(counts - 200).max() < 5 * np.sqrt(160)


def test_positions_reach_the_last_cell():
    rng = np.random.default_rng(0)
    hits = np.zeros(4)
    for _ in range(4_000):
        hits[draw.bernoulli_positions(4, 0.3, rng)] += 1
    assert np.abs(hits - 1_200).max() < 5 * np.sqrt(4_000 * 0.21)


def test_positions_with_very_rare_ones():
    positions = draw.bernoulli_positions(2**31, 1e-12, np.random.default_rng(0))
    assert positions.size <= 1


def test_cox_times_follow_the_design():
    # Without effects the rate is one known number between 0.01 and 0.03.
    data = simulate_cox(50_000, 2, zero_fraction=1.0, tie_break=False, random_state=8)
    time, event = data.y["time"], data.y["event"]
    rate = event.sum() / (time - 1).sum()
    assert 0.01 < rate < 0.03
    # Censoring is uniform with mean 249.5: P(event) = 1 - (1 - exp(-499 r)) / (499 r).
    expected = 1 - (1 - np.exp(-499 * rate)) / (499 * rate)
    # Rounding costs less than half a day: an event must come strictly first.
    assert abs(event.mean() - expected) < 0.01 + 5 / np.sqrt(50_000)


def test_cox_rates_differ_between_strata():
    data = simulate_cox(40_000, 2, n_strata=4, zero_fraction=1.0, random_state=8)
    rates = [
        data.y["event"][data.strata == s].sum() / (data.y["time"][data.strata == s] - 1).sum()
        for s in range(4)
    ]
    assert all(0.009 < rate < 0.031 for rate in rates)
    assert np.ptp(rates) > 0.002


@pytest.mark.parametrize("simulator", [simulate_cox, simulate_ehr])
def test_higher_linear_predictor_means_earlier_events(simulator):
    data = simulator(5_000, 200, random_state=0)
    eta = data.X @ data.coef
    is_high = eta > np.median(eta)
    assert data.y["event"][is_high].mean() > data.y["event"][~is_high].mean() + 0.05


@pytest.mark.parametrize("seed", range(4))
def test_ehr_shape(seed):
    X_y = simulate_ehr(5_000, 400, random_state=seed)
    prevalence = np.diff(X_y.X.indptr) / 5_000
    assert 0.035 < prevalence.mean() < 0.07
    assert prevalence.min() < 0.003
    assert 0.2 < prevalence.max() < 0.35
    assert (
        stats.kstest(
            np.log(prevalence[prevalence > 0.01]),
            stats.uniform(np.log(0.01), np.log(0.3) - np.log(0.01)).cdf,
        ).pvalue
        > 1e-3
    )
    assert 0.1 < X_y.y["event"].mean() < 0.5


def test_ehr_columns_are_positively_correlated():
    data = simulate_ehr(5_000, 200, cluster_size=20, duplicate_fraction=0.0, random_state=0)
    off_diagonal = correlations(data.X)[~np.eye(200, dtype=bool)]
    # Between clusters weakly (severity), within clusters strongly.
    assert 0.005 < np.median(off_diagonal) < 0.2
    assert np.quantile(off_diagonal, 0.99) > 0.25
    # 19 of the 199 partners of a column are in its cluster.
    assert 0.03 < (off_diagonal > 0.15).mean() < 0.2


@pytest.mark.thorough
def test_ehr_near_duplicates():
    n, p = 20_000, 200

    def partners(fraction):
        data = simulate_ehr(n, p, duplicate_fraction=fraction, random_state=6)
        is_common = np.diff(data.X.indptr) > 50
        corr = correlations(data.X)
        np.fill_diagonal(corr, 0.0)
        return (corr[:, is_common] > 0.9).any(axis=0).sum(), corr.max(), is_common.mean()

    n_copied, largest, common = partners(0.1)
    # 20 copies have a partner, and so have their distinct sources, as far as they are common.
    assert 20 * common * 0.8 <= n_copied <= 40
    assert largest < 1.0
    assert partners(0.0)[0] == 0


def test_near_copy_moves_the_stated_share():
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(100_000)[:20_000]).astype(np.int32)
    copy = survival._near_copy(rows, 100_000, 0.05, rng)
    assert copy.dtype == np.int32
    assert np.all(np.diff(copy) > 0)
    kept = np.intersect1d(rows, copy).size
    # 950 more than 19,000 are kept less 0 to 20 % of the moved ones that land on a kept row.
    assert abs(kept - 19_000) < 5 * np.sqrt(950) + 250
    assert abs(copy.size - 20_000) < 300


def test_ehr_has_no_empty_column():
    X = simulate_ehr(40, 500, random_state=0).X
    assert np.diff(X.indptr).min() >= 1


def test_dense_correlation_decays():
    X = simulate_dense(20_000, 6, correlation=0.6, random_state=0).X
    expected = 0.6 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    assert np.abs(correlations(X) - expected).max() < 5 / np.sqrt(20_000)
    assert np.abs(X.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert np.abs(X.std(axis=0) - 1).max() < 5 / np.sqrt(20_000)


def test_dense_informative_columns():
    assert np.count_nonzero(simulate_dense(10, 300, random_state=0).coef) == 20
    assert np.count_nonzero(simulate_dense(10, 5, random_state=0).coef) == 5
    assert np.count_nonzero(simulate_dense(10, 5, n_informative=0, random_state=0).coef) == 0


def test_event_and_censoring_on_one_day_is_censored():
    class Fixed:
        def uniform(self, low, high, size):
            return np.full(size, 1.0 if low > 0 else 7.0)

        def standard_exponential(self, size):
            return np.array([6.0, 7.0, 8.0])

    y, _ = survival._draw_outcome(np.zeros(3), (0.5, 1.0), 1, False, Fixed())
    assert y["time"].tolist() == [7.0, 8.0, 8.0]
    assert y["event"].tolist() == [True, False, False]


def test_huge_effects_do_not_overflow():
    y, _ = survival._draw_outcome(
        np.array([-2e3, 2e3]), (0.01, 0.03), 1, False, np.random.default_rng(0)
    )
    assert np.all(np.isfinite(y["time"]))
    assert y["event"].tolist() == [False, True]


@pytest.mark.parametrize(
    ("simulator", "arguments", "message"),
    [
        (simulate_cox, {"n_samples": 0}, "`n_samples` is 0"),
        (simulate_cox, {"n_samples": 2**31}, "fewer than 2"),
        (simulate_ehr, {"n_features": 0}, "`n_features` is 0"),
        (simulate_cox, {"n_strata": 0}, "`n_strata` is 0"),
        (simulate_cox, {"density": 1.0}, r"`density` is 1.0; it must lie in \[0, 1\)"),
        (simulate_cox, {"zero_fraction": 1.5}, "`zero_fraction` is 1.5"),
        (simulate_ehr, {"flip_fraction": -0.1}, "`flip_fraction` is -0.1"),
        (simulate_ehr, {"duplicate_fraction": 1.0}, "`duplicate_fraction` is 1.0"),
        (simulate_ehr, {"cluster_size": 0}, "`cluster_size` is 0"),
        (simulate_dense, {"correlation": 1.0}, "`correlation` is 1.0"),
        (simulate_dense, {"n_informative": -1}, "`n_informative` is -1"),
    ],
)
def test_bad_arguments(simulator, arguments, message):
    with pytest.raises(ValueError, match=message):
        simulator(**arguments)
