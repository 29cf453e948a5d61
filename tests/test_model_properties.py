"""What fits of any likelihood must not depend on, and likelihoods that are special cases of others.

The penalties are part ridge, so that the optimum is unique and depends continuously on the data:
two fits of one problem may be compared by their coefficients.
"""

import numpy as np
import pytest
from models import MODELS, Sample, draw_columns, fit, gradient, open_rows, open_session

PENALTY = {"l1_ratio": 0.3, "tol": 1e-10}
LAM = 0.5
SEEDS = range(3)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture
def check_same(check_close):
    """Two fits agree in coefficients and log-likelihood."""

    def check(one, other, coef=None, loglik=True):
        assert one.converged
        assert other.converged
        check_close(one.coef, other.coef if coef is None else coef, "coef")
        if loglik:
            np.testing.assert_allclose(one.loglik, other.loglik, rtol=1e-9, atol=1e-9)

    return check


def number(sample):
    """The sample with its groups numbered from 0, as an estimator hands them down."""
    if "group" not in sample.y:
        return sample
    return sample.with_y(group=np.unique(sample.y["group"], return_inverse=True)[1])


def append(sample, n, **y):
    """The sample and n more rows: copies of its first, but for the given entries of the outcome."""
    more = sample.rows(np.append(np.arange(sample.n), np.zeros(n, int)))
    for name, values in y.items():
        more.y[name][-n:] = values
    if more.weights is not None:
        more.weights[-n:] = 1.0
    more.X[-n:] = np.arange(1.0, n + 1)[:, None]
    return more


class TestRows:
    @pytest.mark.thorough(but=r"efron|\[fine_gray\]|conditional|\[(gaussian|logistic)\]")
    def test_order(self, model, check_same):
        for seed in SEEDS:
            sample = model.sample([60, seed], p=4)
            order = np.random.default_rng(seed).permutation(sample.n)
            plain = fit(model, sample, LAM, **PENALTY)
            check_same(fit(model, sample.rows(order), LAM, **PENALTY), plain)

    @pytest.mark.thorough(but=r"efron|\[fine_gray\]|conditional|\[(gaussian|logistic)\]")
    def test_zero_weight_is_absence(self, model, check_same):
        """Whatever such rows hold."""
        for seed in SEEDS:
            sample = model.sample([62, seed], p=4)
            absent = sample.weights == 0
            assert absent.any()
            gone = number(sample.rows(~absent))
            sample.X[absent] *= 1e3
            check_same(fit(model, sample, LAM, **PENALTY), fit(model, gone, LAM, **PENALTY))

    @pytest.mark.thorough(but=r"efron|\[fine_gray\]|conditional|\[(gaussian|logistic)\]")
    def test_scaled_weights(self, model, check_close):
        """On the mean scale of the penalty, only ratios of weights matter."""
        for seed in SEEDS:
            sample = model.sample([63, seed], p=4)
            plain = fit(model, sample, LAM, **PENALTY)
            for scale in (0.125, 1000.0):
                scaled = sample.with_(weights=scale * sample.weights)
                solution = fit(model, scaled, scale * LAM, **PENALTY)
                check_close(solution.coef, plain.coef, "coef")

    @pytest.mark.thorough(but=r"efron|\[fine_gray\]|conditional|\[(gaussian|logistic)\]")
    def test_order_and_scale_of_columns(self, model, check_same):
        for seed in SEEDS:
            sample = model.sample([64, seed], p=5)
            order, scale = np.array([3, 0, 4, 1, 2]), np.array([1e-3, 1.0, 1e3, 1.0, 5.0])
            factor = np.array([1.0, 2.0, 0.5, 1.0, 1.0])
            # part ridge has no factor that undoes a scale
            args = {"l1_ratio": 1.0, "tol": 1e-11}
            plain = fit(model, sample, LAM, factor=factor, **args)
            moved = sample.with_(X=(sample.X * scale)[:, order])
            solution = fit(model, moved, LAM, factor=(factor * scale)[order], **args)
            check_same(solution, plain, (plain.coef / scale)[order])


COPIED = [name for name, model in MODELS.items() if model.copies]


@pytest.mark.thorough(but=r"-0\]")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", COPIED)
def test_weights_are_copies(name, seed, check_same):
    """Of rows, or of whole groups where the weights are theirs."""
    model = MODELS[name]
    sample = model.sample([61, seed], p=4, weights=False)
    counts = np.random.default_rng(seed).integers(0, 4, sample.n)
    if model.weighs_groups:
        counts = counts[sample.y["group"]]
    rows = np.repeat(np.arange(sample.n), counts)
    copies = sample.rows(rows)
    if model.weighs_groups:
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        copies = number(copies.with_y(group=10 * copies.y["group"] + nth))
    weighted = sample.with_(weights=counts.astype(float))
    check_same(fit(model, copies, LAM, **PENALTY), fit(model, weighted, LAM, **PENALTY))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.free])
def test_shifts_within_groups(name, check_same):
    """Of the offset, and of columns: they change nothing where means are free."""
    model = MODELS[name]
    sample = model.sample(65, p=4)
    group = np.unique(model.group_of(sample), return_inverse=True)[1]
    rng = np.random.default_rng(65)
    shift = rng.uniform(-30.0, 30.0, group.max() + 1)[group]
    plain = fit(model, sample, LAM, **PENALTY)
    moved = sample.with_(offset=sample.offset + shift)
    check_same(fit(model, moved, LAM, **PENALTY), plain)
    moved = sample.with_(X=sample.X + rng.normal(size=(group.max() + 1, 4))[group])
    check_same(fit(model, moved, LAM, **PENALTY), plain)


LABELLED = {
    name: key
    for name, model in MODELS.items()
    for key in ("strata", "curve", "group")
    if model.sample(0).y.get(key) is not None
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels(name, check_same):
    model, key = MODELS[name], LABELLED[name]
    sample = model.sample(66, p=4)
    labels = np.random.default_rng(66).permutation(sample.y[key].max() + 1)
    moved = sample.with_y(**{key: labels[sample.y[key]]})
    check_same(fit(model, moved, LAM, **PENALTY), fit(model, sample, LAM, **PENALTY))


@pytest.mark.parametrize("name", ["conditional_poisson", "conditional_poisson, many"])
def test_groups_that_contribute_nothing(name, check_same):
    """Without an event, or of one row."""
    model = MODELS[name]
    sample = model.sample(67, p=4)
    next_group = sample.y["group"].max() + 1
    plain = fit(model, sample, LAM, **PENALTY)
    no_event = append(sample, 3, group=next_group, count=0.0)
    check_same(fit(model, no_event, LAM, **PENALTY), plain)
    one_row = append(sample, 1, group=next_group, count=7.0)
    check_same(fit(model, one_row, LAM, **PENALTY), plain)


@pytest.mark.parametrize("name", ["conditional_logistic", "conditional_logistic, many"])
def test_sets_that_contribute_nothing(name, check_same):
    """Without a case, without a control, or of one row."""
    model = MODELS[name]
    sample = model.sample(68, p=4)
    next_set = sample.y["group"].max() + 1
    plain = fit(model, sample, LAM, **PENALTY)
    for n, case in [(3, 0.0), (3, 1.0), (1, 0.0), (1, 1.0)]:
        more = append(sample, n, group=next_set, case=case)
        check_same(fit(model, more, LAM, **PENALTY), plain)


@pytest.mark.parametrize("name", ["fine_gray, strata", "fine_gray, strata and curves"])
@pytest.mark.parametrize("status", [0, 2])
def test_strata_without_events(name, status, check_same):
    """Nobody with the event: the stratum has only a part in pooled curves, here of its own."""
    model = MODELS[name]
    sample = model.sample(69, p=4)
    other = {"strata": 9, "status": status, "time": np.arange(3.0) + 2}
    if sample.y["curve"] is not None:
        other["curve"] = 9
    more = append(sample, 3, **other)
    check_same(fit(model, more, LAM, **PENALTY), fit(model, sample, LAM, **PENALTY))


def test_rows_of_no_weight_within_a_group(check_same):
    model = MODELS["conditional_poisson"]
    sample = model.sample(70, p=4, weights=False)
    present = np.random.default_rng(70).random(sample.n) < 0.7
    weighted = sample.with_(weights=present.astype(float))
    gone = number(sample.rows(present))
    check_same(fit(model, weighted, LAM, **PENALTY), fit(model, gone, LAM, **PENALTY))


def cox_of(sample, **y):
    """The sample as Cox's model has it."""
    kept = {"time": sample.y.get("time"), "start": None, "strata": sample.y.get("strata")}
    return Sample(sample.X, {**kept, **y}, sample.weights, sample.offset)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("fine_gray")])
class TestFineGray:
    def test_without_competing_events_is_cox(self, name, check_same):
        model = MODELS[name]
        sample = model.sample(71, p=4)
        sample = sample.with_y(status=np.minimum(sample.y["status"], 1))
        cox = cox_of(sample, event=sample.y["status"] == 1)
        expected = fit(MODELS["cox, breslow"], cox, LAM, **PENALTY)
        solution = fit(model, sample, LAM, **PENALTY)
        check_same(solution, expected)
        np.testing.assert_allclose(solution.baseline, expected.baseline, rtol=1e-9)

    def test_without_censoring_competing_rows_stay(self, name, check_same):
        model = MODELS[name]
        sample = model.sample(72, p=4)
        sample = sample.with_y(status=np.maximum(sample.y["status"], 1))
        stays = sample.y["status"] == 2
        cox = cox_of(sample, event=~stays, time=np.where(stays, 99.0, sample.y["time"]))
        expected = fit(MODELS["cox, breslow"], cox, LAM, **PENALTY)
        check_same(fit(model, sample, LAM, **PENALTY), expected)

    def test_times_matter_by_their_order(self, name, check_same):
        """Ties broken by 1e-12 are what the order says; without ties nothing changes."""
        model = MODELS[name]
        sample = model.sample(73, p=4)
        rng = np.random.default_rng(73)
        plain = sample.with_y(time=rng.permutation(sample.n) + 2.0)
        expected = fit(model, plain, LAM, **PENALTY)
        moved = plain.with_y(time=plain.y["time"] + 1e-12 * rng.uniform(-1, 1, sample.n))
        check_same(fit(model, moved, LAM, **PENALTY), expected)
        stretched = plain.with_y(time=np.exp(0.1 * plain.y["time"]))
        check_same(fit(model, stretched, LAM, **PENALTY), expected)
        tied = fit(model, sample, LAM, **PENALTY)
        assert not np.allclose(tied.coef, expected.coef)


def test_conventions_of_censoring_agree_without_ties(check_same):
    model = MODELS["fine_gray"]
    sample = model.sample(74, p=4)
    tied = [
        fit(MODELS[name], sample, LAM, **PENALTY).coef
        for name in ("fine_gray", "fine_gray, events first")
    ]
    assert np.abs(tied[0] - tied[1]).max() > 1e-4
    untied = sample.with_y(time=np.random.default_rng(74).permutation(sample.n) + 2.0)
    first = fit(MODELS["fine_gray, events first"], untied, LAM, **PENALTY)
    check_same(first, fit(model, untied, LAM, **PENALTY))


def one_case_each(seed, n_sets=15):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_sets)
    group = rng.permutation(np.repeat(np.arange(n_sets), sizes))
    case = np.zeros(len(group))
    case[np.unique(group, return_index=True)[1]] = 1.0
    X, offset = draw_columns(rng, len(group), 4), rng.normal(size=len(group))
    weights = rng.choice([0.0, 0.5, 2.0], n_sets)[group]
    return Sample(X, {"case": case, "group": group}, weights, offset)


@pytest.mark.thorough
@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_case_a_set_is_one_model(seed, algorithm, check_same, check_close):
    sample = one_case_each(seed)
    args = {**PENALTY, "algorithm": algorithm}
    exact = fit(MODELS["conditional_logistic"], sample, LAM, **args)
    case, group = sample.y["case"], sample.y["group"]
    poisson = Sample(sample.X, {"count": case, "group": group}, sample.weights, sample.offset)
    check_same(fit(MODELS["conditional_poisson"], poisson, LAM, **args), exact)
    for ties in ("breslow", "efron"):
        cox = cox_of(sample, time=np.ones(sample.n), event=case, strata=group)
        solution = fit(MODELS[f"cox, {ties}"], cox, LAM, **args)
        # a weight c alone contributes the constant -c log c
        check_same(solution, exact, loglik=False)
        weight = sample.weights[case > 0]
        weight = weight[weight > 0]
        check_close(solution.loglik + weight @ np.log(weight), exact.loglik, "coef")


@pytest.mark.thorough(but="majorized")  # the exact algorithm has a kernel for sets alone
@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("seed", SEEDS)
def test_cases_and_controls_change_places(seed, algorithm, check_same):
    model, args = MODELS["conditional_logistic"], {**PENALTY, "algorithm": algorithm}
    sample = model.sample([75, seed], p=4)
    mirrored = sample.with_(X=-sample.X, offset=-sample.offset)
    mirrored = mirrored.with_y(case=1.0 - sample.y["case"])
    check_same(fit(model, mirrored, LAM, **args), fit(model, sample, LAM, **args))


@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
def test_one_group_is_poisson_regression(algorithm, check_close):
    poisson, conditional = MODELS["poisson"], MODELS["conditional_poisson"]
    sample = poisson.sample(76, p=4, weights=False)
    count, ones = sample.y["value"], sample.sample_weight
    sample = sample.with_(weights=ones)
    y = {"count": count, "group": np.zeros(sample.n, int)}
    grouped = Sample(sample.X, y, ones, sample.offset)
    solutions = [
        fit(m, s, LAM, algorithm=algorithm, **PENALTY)
        for m, s in ((poisson, sample), (conditional, grouped))
    ]
    check_close(solutions[0].coef, solutions[1].coef, "coef")
    total = count.sum()
    constant = total * np.log(total) - total
    check_close(solutions[0].loglik - constant, solutions[1].loglik, "coef")
    eta = np.random.default_rng(76).normal(size=sample.n)
    sessions = [open_rows(m, s, eta)[0] for m, s in ((poisson, sample), (conditional, grouped))]
    check_close(gradient(sessions[0]), gradient(sessions[1]), "u")
    every = np.arange(sample.n)
    (plain, total), (given, same) = (session.curvature(every) for session in sessions)
    check_close(plain, given, "curvature")
    check_close(total, same, "h")


@pytest.mark.parametrize("name", ["poisson", "poisson, origin", "conditional_poisson"])
def test_split_exposures(name, check_close):
    """A row is two rows that share its exposure and its events."""
    model = MODELS[name]
    sample = model.sample(77, p=4)
    key = "count" if "count" in sample.y else "value"
    halves = sample.rows(np.repeat(np.arange(sample.n), 2))
    share = np.tile([0.3, 0.7], sample.n)
    first = np.floor(0.5 * sample.y[key])
    counts = np.column_stack([first, sample.y[key] - first]).ravel()
    halves = halves.with_y(**{key: counts}).with_(offset=halves.offset + np.log(share))
    expected = fit(model, sample, LAM, **PENALTY)
    check_close(fit(model, halves, LAM, **PENALTY).coef, expected.coef, "coef")


@pytest.mark.parametrize("name", ["logistic", "logistic, origin"])
def test_shares_are_weights(name, check_same):
    """A share y of weight c is an event of weight c y and none of weight c (1 - y)."""
    model = MODELS[name]
    sample = model.sample(78, p=4)
    share = np.linspace(0.0, 1.0, sample.n)
    both = sample.rows(np.tile(np.arange(sample.n), 2))
    weights = np.concatenate([sample.weights * share, sample.weights * (1 - share)])
    value = np.repeat([1.0, 0.0], sample.n)
    both = both.with_(weights=weights).with_y(value=value)
    expected = fit(model, both, LAM, **PENALTY)
    check_same(fit(model, sample.with_y(value=share), LAM, **PENALTY), expected)


@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("name", ["gaussian", "gaussian, origin"])
def test_least_squares(name, algorithm, check_close):
    """Ridge regression has a closed form."""
    model = MODELS[name]
    sample = model.sample(79, p=4)
    X, y, c = sample.X, sample.y["value"] - sample.offset, sample.weights
    if model.free:
        mean = (c @ X) / c.sum(), (c @ y) / c.sum()
        X, y = X - mean[0], y - mean[1]
    expected = np.linalg.solve(X.T @ (c[:, None] * X) + LAM * np.eye(4), X.T @ (c * y))
    solution = fit(model, sample, LAM, l1_ratio=0.0, tol=1e-12, algorithm=algorithm)
    check_close(solution.coef, expected, "coef")
    if model.free:
        check_close(solution.baseline, mean[1] - mean[0] @ expected, "coef")
        assert open_session(model, sample, solution.coef)[1] == pytest.approx(solution.loglik)
