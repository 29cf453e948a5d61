"""The slow references against differences, enumeration and each other; published optima of them."""

import numpy as np
import pytest
from grids import thin
from oracles import reference_conditional as conditional
from oracles.cases import load, read_case
from oracles.reference_competing import censoring_km, finegray_direct
from oracles.reference_conditional import (
    clogit_approx,
    clogit_coordinate,
    clogit_enumerate,
    clogit_exact,
    clogit_extended,
    multinomial_direct,
)
from oracles.reference_glm import glm_direct, null_intercept, profile
from oracles.reference_likelihoods import (
    baseline,
    bin_hessian,
    cox_direct,
    difference_gradient,
    difference_hessian,
    exact_hessian,
    information,
    kkt,
    model_hessian,
)

N = 13
TIES = {"time": np.array([1, 1, 2, 2, 2, 3, 4, 4, 4, 5, 5, 6, 6.0])}
STATUS = np.array([1, 0, 1, 2, 0, 2, 1, 1, 0, 0, 2, 1, 0])
GROUP = np.array([3, 3, 3, 3, 1, 1, 1, 1, 1, 7, 7, 7, 7])  # labels, not codes
WEIGHTS = np.array([1, 0.5, 2, 0, 1, 3.25, 1, 1, 0, 2, 1.5, 1, 1])
GROUP_WEIGHTS = np.where(GROUP == 1, 2.5, np.where(GROUP == 3, 1.0, 0.0))
CASE = np.array([1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1])
COUNTS = np.array([0, 2, 1, 0, 0, 0, 0, 0, 0, 1, 4, 0, 2])
EXPOSURE = np.linspace(0.3, 20.0, N)
BINARY = np.array([0, 1, 1, 0, 0.5, 1, 0, 1, 0, 0, 1, 0, 1])


def competing(**options):
    return lambda eta: finegray_direct(eta, TIES["time"], STATUS, **options)


def glm(family, y, **options):
    return lambda eta: glm_direct(eta, y, family, **options)


MODELS = {
    "cox": lambda eta: cox_direct(eta, TIES["time"], STATUS == 1, strata=GROUP, weights=WEIGHTS),
    "cox, efron": lambda eta: cox_direct(eta, TIES["time"], STATUS == 1, ties="efron"),
    "competing": competing(),
    "competing, events first": competing(km_ties="events_first", weights=WEIGHTS),
    "competing, weights": competing(weights=WEIGHTS, weighted_km=False),
    "competing, strata": competing(strata=GROUP, weights=WEIGHTS),
    "competing, groups": competing(strata=GROUP, censor_groups=GROUP % 2),
    "case series": lambda eta: multinomial_direct(eta, COUNTS, GROUP, EXPOSURE, GROUP_WEIGHTS),
    "conditional poisson": lambda eta: multinomial_direct(eta, COUNTS, GROUP),
    "clogit, listed": lambda eta: clogit_enumerate(eta, CASE, GROUP, GROUP_WEIGHTS),
    "clogit, efron": lambda eta: clogit_approx(eta, CASE, GROUP, GROUP_WEIGHTS),
    "clogit, breslow": lambda eta: clogit_approx(eta, CASE, GROUP, ties="breslow"),
    "logistic": glm("logistic", BINARY, weights=WEIGHTS, intercept=False),
    "poisson": glm("poisson", COUNTS, weights=WEIGHTS, intercept=False),
    "gaussian": glm("gaussian", EXPOSURE, weights=WEIGHTS, intercept=False),
}
for curvature in conditional.CURVATURES:
    MODELS[f"clogit, {curvature}"] = lambda eta, curvature=curvature: clogit_exact(
        eta, CASE, GROUP, GROUP_WEIGHTS, curvature
    )


def draw_eta(seed, spread=1.5):
    return spread * np.random.default_rng(seed).normal(size=N)


def close(actual, expected, relative):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=0, atol=relative * scale)


@pytest.mark.parametrize(("name", "seed"), thin(4, MODELS, range(3)))
class TestDerivatives:
    def test_gradient(self, name, seed):
        eta = draw_eta(seed)
        evaluation = MODELS[name](eta)
        close(difference_gradient(MODELS[name], eta), evaluation.u, 1e-9)

    def test_curvature(self, name, seed):
        """The model majorizes; where it is said to be exact, it is."""
        evaluate, eta = MODELS[name], draw_eta(seed)
        evaluation, differences = evaluate(eta), difference_hessian(evaluate, eta)
        is_recursion = name.startswith("clogit") and not evaluation.atoms
        if not is_recursion or evaluation.hessian is not None:
            close(differences, exact_hessian(evaluation), 1e-9)
            X = np.random.default_rng(seed).normal(size=(N, 3))
            close(information(X, evaluation), X.T @ differences @ X, 1e-8)
        model = model_hessian(evaluation.h, evaluation.stratum)
        if name == "clogit, exact diagonal":
            close(np.diag(model), np.diag(differences), 1e-9)
            model = 2.0 * model
        assert np.linalg.eigvalsh(model - differences).min() >= -1e-8 * max(1.0, model.max())
        if name in ("case series", "conditional poisson", "logistic", "poisson", "gaussian"):
            close(model, differences, 1e-9)

    def test_shifts_of_a_group_change_nothing(self, name, seed):
        eta = draw_eta(seed)
        evaluation = MODELS[name](eta)
        if evaluation.stratum is None:
            pytest.skip("no group whose level is free")
        shifted = MODELS[name](eta + np.array([0.5, -2.0, 1.0])[evaluation.stratum])
        close(shifted.loglik, evaluation.loglik, 1e-12)
        close(shifted.u, evaluation.u, 1e-12)

    def test_rows_without_weight_are_absent(self, name, seed):
        evaluation = MODELS[name](draw_eta(seed) + np.where(WEIGHTS == 0, 500.0, 0.0))
        assert np.isfinite(evaluation.loglik)


class TestCompeting:
    def test_censoring_curve_by_hand(self):
        time, status = np.array([1.0, 1, 2, 2, 3]), np.array([0, 1, 0, 2, 0])
        at = [1, 1.5, 2, 3, 4]
        together = [1, 4 / 5, 4 / 5, 4 / 5 * 2 / 3, 0]
        events_first = [1, 3 / 4, 3 / 4, 3 / 4 * 1 / 2, 0]
        np.testing.assert_allclose(censoring_km(time, status, at), together, rtol=1e-15)
        first = censoring_km(time, status, at, ties="events_first")
        np.testing.assert_allclose(first, events_first, rtol=1e-15)

    @pytest.mark.parametrize("km_ties", ["together", "events_first"])
    def test_weights_are_copies(self, km_ties):
        """Of rows, of their absence, and in the curve of censoring."""
        copies, eta = np.resize([2, 1, 0, 3], N), draw_eta(3)
        rows = np.repeat(np.arange(N), copies)
        options = {"km_ties": km_ties}
        weighted = finegray_direct(eta, TIES["time"], STATUS, weights=copies, **options)
        copied = finegray_direct(eta[rows], TIES["time"][rows], STATUS[rows], **options)
        close(weighted.loglik, copied.loglik, 1e-13)
        close(weighted.u, np.bincount(rows, copied.u, minlength=N), 1e-13)

    def test_no_competing_event_is_cox(self):
        eta, status = draw_eta(4), np.minimum(STATUS, 1)
        actual = finegray_direct(eta, TIES["time"], status, strata=GROUP, weights=WEIGHTS)
        expected = cox_direct(eta, TIES["time"], status, strata=GROUP, weights=WEIGHTS)
        close(actual.loglik, expected.loglik, 1e-13)
        close(actual.u, expected.u, 1e-13)

    def test_no_censoring_keeps_competing_rows(self):
        eta, status, time = draw_eta(5), np.where(STATUS == 0, 2, STATUS), TIES["time"]
        actual = finegray_direct(eta, time, status)
        expected = cox_direct(eta, np.where(status == 2, 99.0, time), status == 1)
        close(actual.u, expected.u, 1e-13)

    @pytest.mark.parametrize("n_bins", [1, 2, 4])
    def test_bins_majorize(self, n_bins):
        evaluation = MODELS["competing, weights"](draw_eta(6))
        bins = np.arange(len(evaluation.atoms)) % n_bins
        gap = bin_hessian(evaluation.atoms, bins) - exact_hessian(evaluation)
        assert np.linalg.eigvalsh(gap).min() >= -1e-12


class TestConditional:
    @pytest.mark.parametrize("spread", [0.1, 2.0, 30.0])
    @pytest.mark.parametrize("seed", range(4))
    def test_recursion_is_enumeration(self, spread, seed):
        eta = draw_eta(seed, spread)
        listed = clogit_enumerate(eta, CASE, GROUP, GROUP_WEIGHTS)
        recursion = clogit_exact(eta, CASE, GROUP, GROUP_WEIGHTS)
        close(recursion.loglik, listed.loglik, 1e-13)
        close(recursion.u, listed.u, 1e-13)

    @pytest.mark.parametrize(
        ("n", "m", "spread"), [(9, 4, 3), (60, 1, 1), (90, 50, 8), (60, 59, 2)]
    )
    def test_recursion_is_exact(self, n, m, spread):
        eta = spread * np.random.default_rng(n + m).normal(size=n)
        expected = clogit_extended(eta, m)
        log_b, pi = conditional.inclusion(eta, m)
        # log B is a sum of terms as large as eta.
        assert abs(log_b - float(expected.log_b)) <= 1e-15 * n * np.abs(eta).max()
        np.testing.assert_allclose(pi, expected.pi.astype(float), rtol=1e-13)
        assert abs(expected.pi.sum() - m) < 1e-25  # the sum itself has 28 digits

    def test_coordinate(self):
        eta, x = draw_eta(7), draw_eta(8)
        evaluation = clogit_enumerate(eta, CASE, GROUP, GROUP_WEIGHTS)
        slope, curvature = clogit_coordinate(eta, CASE, GROUP, x, GROUP_WEIGHTS)
        close(slope, x @ evaluation.u, 1e-13)
        close(curvature, x @ evaluation.hessian @ x, 1e-12)

    @pytest.mark.parametrize("m", [1, 4])
    def test_exact_diagonal_of_one_case_or_control(self, m):
        eta, case = draw_eta(9)[:5], np.arange(5) < m
        evaluation = clogit_enumerate(eta, case, np.zeros(5))
        h = clogit_exact(eta, case, np.zeros(5)).h
        close(model_hessian(h, np.zeros(5)), evaluation.hessian, 1e-13)

    def test_one_case_each_has_one_likelihood(self):
        eta, case = draw_eta(10), np.resize([1, 0, 0, 0], N)[:12]
        args = (eta[:12], case, np.arange(12) // 4)
        values = [
            clogit_enumerate(*args).loglik,
            clogit_approx(*args, ties="efron").loglik,
            clogit_approx(*args, ties="breslow").loglik,
            multinomial_direct(*args).loglik,
        ]
        np.testing.assert_allclose(values, values[0], rtol=1e-14)

    def test_case_series_profiles_poisson(self):
        """Group intercepts at their optimum: the same u, and log-likelihoods a constant apart."""
        gaps = []
        for eta in (draw_eta(11), draw_eta(12)):
            multinomial = multinomial_direct(eta, COUNTS, GROUP, EXPOSURE)
            rate = eta + np.log(EXPOSURE)
            for g in np.unique(GROUP):
                rows = g == GROUP
                total = COUNTS[rows].sum()
                rate[rows] += np.log(total / np.exp(rate[rows]).sum()) if total else -np.inf
            poisson = glm_direct(np.maximum(rate, -700.0), COUNTS, "poisson")
            close(poisson.u, multinomial.u, 1e-13)
            constant = COUNTS @ np.log(EXPOSURE)
            gaps.append(poisson.loglik - constant - multinomial.loglik)
        # ...of the exposure and the totals only.
        close(gaps[0], gaps[1], 1e-13)


@pytest.mark.parametrize(("family", "y"), [("logistic", BINARY), ("poisson", COUNTS)])
def test_profile_of_the_intercept(family, y):
    """At the best intercept the model and u are those of the profile log-likelihood."""
    eta = draw_eta(13)

    def profiled(eta):
        intercept = null_intercept(y, family, eta, WEIGHTS)
        return glm_direct(eta + intercept, y, family, WEIGHTS)

    evaluation = profiled(eta)
    assert abs(evaluation.u.sum()) < 1e-12
    close(difference_gradient(profiled, eta), profile(evaluation)[0], 1e-9)
    model = model_hessian(evaluation.h, evaluation.stratum)
    close(difference_hessian(profiled, eta), model, 1e-8)


PUBLISHED = {name: load(name) for name in ("competing.json", "conditional.json", "glm.json")}
CASES = [(name, case["name"]) for name in PUBLISHED for case in PUBLISHED[name]["cases"]]
LARGE_STRATA = load("large_strata.json")["strata"]
VECTORS = load("vectors.json")


class TestPublished:
    @pytest.mark.parametrize(("file", "name"), thin(4, CASES))
    def test_case(self, file, name):
        (case,) = [case for case in PUBLISHED[file]["cases"] if case["name"] == name]
        optimum = read_case(PUBLISHED[file]["datasets"], case)
        assert optimum.coef_error() <= (1e-7 if case["lam"] > 0 else 1e-8)
        # Columns at zero are not part of it.
        assert optimum.kkt() <= 2e-7
        if "loglik" in case:
            loglik = optimum.evaluation.loglik
            np.testing.assert_allclose(loglik, case["loglik"], rtol=1e-11)
        if "standard_errors" in case:
            errors = optimum.standard_errors()[: len(case["standard_errors"])]
            np.testing.assert_allclose(errors, case["standard_errors"], rtol=1e-6)
        if "baseline" in case:
            self.check_baseline(optimum.evaluation, case["baseline"])

    @staticmethod
    def check_baseline(evaluation, expected):
        strata, times, hazard = (
            np.array(expected[name]) for name in ("strata", "times", "cumulative_hazard")
        )
        assert len(times) == len(evaluation.jumps)
        for k, stratum in enumerate(np.unique(strata)):
            rows = strata == stratum
            actual = baseline(evaluation, k, times[rows])
            np.testing.assert_allclose(actual, hazard[rows], rtol=1e-10)

    @pytest.mark.parametrize("stratum", LARGE_STRATA[:6], ids=lambda stratum: stratum["name"])
    def test_large_strata(self, stratum):
        eta, pi = (np.repeat(stratum[name], stratum["counts"]) for name in ("eta", "pi"))
        log_b, actual = conditional.inclusion(eta, stratum["cases"])
        assert abs(log_b - stratum["log_b"]) <= 1e-15 * len(eta) * max(1.0, np.abs(eta).max())
        np.testing.assert_allclose(actual, pi, rtol=1e-13)

    @pytest.mark.parametrize("stratum", LARGE_STRATA, ids=lambda stratum: stratum["name"])
    def test_large_strata_add_up(self, stratum):
        assert abs(np.dot(stratum["pi"], stratum["counts"]) - stratum["cases"]) < 1e-9
        assert np.all(np.diff(stratum["pi"]) >= 0)


def vector_evaluation(case, data, eta):
    options = case["options"]

    def column(option):
        return data[options[option]] if options.get(option) else None

    if case["card"] == "fine_gray":
        return finegray_direct(
            eta,
            column("time"),
            column("status"),
            column("strata"),
            column("weights"),
            column("censor_groups"),
            options["km_ties"],
            weighted_km="km_weights" not in options,
        )
    if case["card"] == "sccs":
        return multinomial_direct(eta, column("y"), column("group"), column("exposure"))
    if case["card"] == "glm":
        return glm_direct(eta, column("y"), options["family"], column("weights"))
    args = eta, column("case"), column("stratum")
    if options["method"] == "exact":
        return clogit_exact(*args)
    return clogit_approx(*args, ties=options["method"])


@pytest.mark.parametrize(
    "case",
    [case for case in VECTORS["expected"] if case["card"] not in ("cox", "time_varying")],
    ids=lambda case: case["name"],
)
def test_vectors(case):
    """Its coefficients are good to 1e-8, so the violation is in units of the curvature."""
    data = {name: np.array(values, float) for name, values in VECTORS["data"].items()}
    X, coef = np.column_stack([data[f"x{j}"] for j in range(6)]), np.array(case["coef"])
    options = case["options"]
    eta = X @ coef + (options.get("intercept") or 0.0)
    evaluation = vector_evaluation(case, data, eta)
    factor = np.array(options.get("penalty_factor", np.ones(6)), float)
    l1_ratio = options.get("l1_ratio", 1.0)
    violation = kkt(X, evaluation.u, coef, options["lam"], l1_ratio, factor)
    assert violation.max() <= 1e-8 * np.max(evaluation.h @ X**2)
    if options.get("intercept") is not None:
        assert abs(evaluation.u.sum()) <= 1e-8 * evaluation.h.sum()
    if case["loglik"] is not None:
        np.testing.assert_allclose(evaluation.loglik, case["loglik"], rtol=1e-11)
