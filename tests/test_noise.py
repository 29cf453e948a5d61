"""Noise at sites: what a row can change, what hides it, and what fits are worth with it."""

import json
from dataclasses import replace
from functools import partial, reduce
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import CoxLassoCCD, CoxLassoCV, LogisticCCD, surv, wald
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.federated import Coordinator, Identity, Noise, RefusedError, Rules, Site, wire
from sksurvgpu.federated.newton import MODELS
from sksurvgpu.federated.noise import (
    SLACK,
    NoisySums,
    Release,
    delta_of,
    draw_normal,
    mu_of,
    noise_key,
)
from sksurvgpu.federated.noisy import fit_noisy
from sksurvgpu.federated.noisy_rows import NoisyRows
from sksurvgpu.federated.programme import Programme, text_of
from sksurvgpu.federated.words import add

NAMES = ("A", "B", "C")
GRID = np.linspace(0.05, 1.0, 20)
EFFECTS = np.array([0.5, -0.4, 0.3, 0.0])
KEYS = {name: Identity(name.encode() * 32) for name in NAMES}
PEERS = {name: key.fingerprint for name, key in KEYS.items()}
ANY = Rules(max_epsilon=1e7)
EXACT = Noise(1e6, norm=3.0, effect=4.0, steps=6)  # noise of no account
MUCH = pytest.mark.filterwarnings("ignore:the noise is as large")
COX, LOGISTIC = CoxLassoCCD(alpha=0), LogisticCCD(alpha=0)


def rows_of(kind, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.normal(size=(n, len(EFFECTS)))
    if kind == "logistic":
        return X, (rng.random(n) < 1 / (1 + np.exp(1 - X @ EFFECTS))).astype(int)
    time = rng.exponential(np.exp(-X @ EFFECTS))
    return X, surv(time < 1.2, np.minimum(time, 1.2))


def site_of(name, *rows, **options):
    return Site(*rows, **{"key": KEYS[name], "peers": PEERS, "rules": ANY} | options)


def sites_of(X, y, **options):
    return {name: site_of(name, X[k::3], y[k::3], **options) for k, name in enumerate(NAMES)}


def coordinator_of(sites, estimator=COX, noise=EXACT, **options):
    options |= {"grid": GRID} if isinstance(estimator, CoxLassoCCD) else {}
    send = {name: site.answer for name, site in sites.items()}
    return Coordinator(estimator, send, noise=noise, **options)


def programme_of(noise, estimator=COX):
    grid = GRID if isinstance(estimator, CoxLassoCCD) else GRID[:0]
    return Programme("s", NAMES, text_of(estimator), "[]", grid, 30, "diagonal", "", noise.text)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.05), (1.0, 0.3), (1.0, 2.0), (6.0, 1.5)])
def test_delta_is_that_of_two_normals(epsilon, mu):
    def excess(x):
        return max(0.0, norm.pdf(x, mu) - np.exp(epsilon) * norm.pdf(x))

    start = epsilon / mu + mu / 2
    expected, _ = quad(excess, start, start + 12, epsabs=1e-14, epsrel=1e-10)
    assert delta_of(epsilon, mu) == pytest.approx(expected, rel=1e-7)


def test_mu_is_the_published_one():
    """Balle and Wang's own program: sigma = 3.730632 for epsilon = 1 and delta = 1e-5."""
    assert 1 / mu_of(1.0, 1e-5) == pytest.approx(3.730632, abs=2e-6)
    for epsilon, delta in [(0.01, 1e-9), (1e6, 1e-6)]:
        assert delta_of(epsilon, mu_of(epsilon, delta)) <= delta


def test_renyi_bounds_promise_less():
    order = np.linspace(1.01, 200, 20_000)
    for mu in (0.1, 0.5, 2.0):
        bound = (mu**2 * order / 2 + np.log(1e6) / (order - 1)).min()
        assert delta_of(bound, mu) < 1e-6


@pytest.mark.parametrize("steps", [1, 5])
def test_all_releases_add_up_to_what_is_promised(steps):
    """What sites would count, of a whole fit."""
    for estimator, kind in ((COX, "cox"), (LOGISTIC, "logistic")):
        sites = sites_of(*rows_of(kind))
        noise = replace(EXACT, steps=steps)
        coordinator_of(sites, estimator, noise).fit()
        spent = sites["A"].ledger.total("noise")
        [told] = [name for name in sites["A"].ledger._counted if name.startswith("noise of")]
        assert sites["A"].ledger.total(told) == pytest.approx(noise.mu**2, rel=1e-12)
        assert spent == pytest.approx(noise.mu**2, rel=1e-8)


class Recorder:
    """Answers that sums might have with much noise; keeps what was asked for."""

    n_exchanges = 0

    def __init__(self, rng):
        self.rng, self.asked = rng, []

    def ask(self, releases, point=None):
        self.asked += [(release, point) for release in releases]
        return [self.answer(release) for release in releases]

    def answer(self, release):
        draws = self.rng.normal(size=release.size) * release.variance**0.5
        if release.name == "counts":  # hazards far above and below zero
            draws[release.size // 2 :] += 1e5
            draws[: release.size // 2] += self.rng.normal(size=release.size // 2) * 3e5
        return draws + (1e4 if release.name == "risk" else 0.0)


def awful_rows(rng, kind, n=60):
    """Rows that are long, huge, tiny, no numbers, and some that are as they should be."""
    X = rng.normal(size=(n, 4)) * 10.0 ** rng.integers(-3, 3, (n, 1))
    X[:6] *= np.array([1e150, 1e300, 1e-300, np.nan, np.inf, 0.0])[:, None]
    X[6:12] = np.repeat(EFFECTS[None] * 1e9, 6, axis=0)
    time = rng.choice([0.0, -1.0, 0.03, 0.5, 0.951, 1.0, 5.0, np.inf, np.nan, 1e300], n)
    y = np.zeros(n, [("event", "?"), ("time", "<f8")])
    y["event"], y["time"] = rng.random(n) < 0.7, time
    if kind == "logistic":
        y = rng.choice([0.0, 1.0, 7.0, np.nan, -1e300], n)
    return X, y


@pytest.mark.thorough(but=r"-0\]")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "estimator"), [("cox", COX), ("logistic", LOGISTIC)])
def test_no_row_changes_a_sum_by_more_than_its_bound(kind, estimator, seed):
    rng = np.random.default_rng(seed)
    noise = Noise(5.0, norm=rng.choice([0.1, 1.5, 40.0]), effect=3.0)
    programme, recorder = programme_of(noise, estimator), Recorder(rng)
    model = MODELS[type(estimator).__name__](recorder, noise, programme, 4)
    coef = model.begin()
    for step in range(noise.steps):
        model.step(step, coef)
        coef = model.project(10.0 * rng.normal(size=len(coef)))
    X, y = awful_rows(rng, kind)
    read = partial(NoisyRows, programme=programme)
    every, shares = read({"X": as_design(X), "y": y}), []
    for release, point in recorder.asked:
        bound = release.own_sigma * release.mu * release.n_others**0.5
        total = every.total(release, point)
        for row in range(len(y)):
            rest = np.arange(len(y)) != row
            less = read({"X": as_design(X[rest]), "y": y[rest]}).total(release, point)
            shares.append(np.linalg.norm(total - less) / bound)
    assert 0.5 < max(shares) <= 1.0


def as_design(X):
    """X as no user could give it."""
    design = build_design(np.zeros_like(X) + 0.5)
    return SimpleNamespace(
        n_columns=design.n_columns, names=None, to_scipy=lambda: SimpleNamespace(toarray=lambda: X)
    )


def test_what_is_told_in_the_clear_is_of_columns_alone():
    X, y = rows_of("cox", 300)
    other = X[:7] * 50.0, y[:7].copy()
    other[1]["time"], other[1]["event"] = 3.0, False
    said = [NoisyRows({"X": build_design(a), "y": b}, programme_of(EXACT)).facts("")
            for a, b in ((X, y), other)]  # fmt: skip
    assert wire.encode(wire.Joined("", *said[0])) == wire.encode(wire.Joined("", *said[1]))


@pytest.mark.parametrize("n_sites", [2, 3, 6])
def test_noise_has_its_variance_without_one_site(n_sites):
    release = Release("gradient", 4000, 7.0, 0.2, n_sites)
    zero = SimpleNamespace(total=lambda r, point: np.zeros(r.size, np.int64))
    parts = []

    def exchange(form, make, n_words):
        parts.append(make())
        return parts[-1]

    def own(k):
        sums = NoisySums(exchange, zero, lambda amount: bytes([k]) * 32)
        return sums.ask([release])[0]

    each = np.array([own(k) for k in range(n_sites)])
    least, n = (7.0 / 0.2) ** 2, release.size
    assert chi2.cdf((each[1:].sum(axis=0) ** 2).sum() / least, n) == pytest.approx(0.5, abs=0.4999)
    total = (each.sum(axis=0) ** 2).sum() / release.variance
    assert chi2.cdf(total, n) == pytest.approx(0.5, abs=0.4999)
    assert NoisySums(lambda *_: add(parts[0], parts[1])).ask([release])[0] == pytest.approx(
        each[0] + each[1]
    )
    whole = np.ldexp(each[0], -release.exponent)
    assert np.array_equal(whole, np.rint(whole))


def test_draws_are_normal():
    draws = draw_normal(b"k" * 32, 40_001)
    assert np.abs(np.sort(norm.cdf(draws)) - np.linspace(0, 1, len(draws))).max() < 0.008
    assert np.abs(np.corrcoef(draws[:20_000], draws[20_001:])[0, 1]) < 0.025
    assert len(np.unique(draws)) == len(draws)


def by_hand(sites, noise):
    """Messages and answers of a fit."""
    coordinator = Coordinator(COX, list(sites), grid=GRID, noise=noise)
    told = []
    while messages := coordinator.messages():
        answers = {name: sites[name].answer(message) for name, message in messages.items()}
        told.append((messages["A"], answers["A"]))
        coordinator.receive(answers)
    return told


def words_of(answer):
    return wire.decode(answer).words


@MUCH
def test_a_site_that_is_started_again_sends_the_same_noise(tmp_path):
    X, y = rows_of("cox")
    kept = {"secret": 16 * b"s", "ledger": tmp_path / "ledger", "rules": Rules(max_epsilon=2.0)}
    noise = Noise(2.0, norm=2.0)
    sites = sites_of(X, y) | {"A": site_of("A", X[::3], y[::3], **kept)}
    told = by_hand(sites, noise)
    spent = sites["A"].ledger.total("noise")
    again = site_of("A", X[::3], y[::3], **kept)
    for message, answer in told[:-1]:
        repeated = again.answer(message)
        if isinstance(wire.decode(answer), wire.Covered):
            assert np.array_equal(words_of(repeated), words_of(answer))
    assert again.ledger.total("noise") == spent


def test_noise_is_of_the_secret_the_rows_and_the_point():
    said = [b"secret", b"state", b"code"]
    changed = [[*said[:k], b"other", *said[k + 1 :]] for k in range(3)]
    assert len({noise_key(*some) for some in [said, said, *changed]}) == 4


def test_other_points_of_a_programme_count_beside_it():
    """As where a site and the coordinator forge sums together."""
    X, y = rows_of("cox", 90)
    noise = Noise(1.0, norm=2.0)
    site, programme = Site(X, y, rules=Rules(max_epsilon=1.2)), programme_of(noise)
    keys = {site.open_noise(programme, b"point", 0.9 * noise.mu**2) for _ in range(9)}
    assert len(keys) == 1
    keys.add(site.open_noise(programme, b"other", 0.15 * noise.mu**2))
    assert len(keys) == 2
    with pytest.raises(Exception, match="is used up"):
        site.open_noise(programme, b"third", 0.9 * noise.mu**2)


@MUCH
def test_all_programmes_together_are_within_a_budget(tmp_path):
    X, y = rows_of("cox")
    rules = Rules(max_epsilon=1.0)
    at = partial(sites_of, X, y, rules=rules)
    sites = at() | {"B": site_of("B", X[1::3], y[1::3], rules=rules, ledger=tmp_path / "b")}
    coordinator_of(sites, noise=Noise(0.7, norm=2.0)).fit()
    sites = at() | {"B": site_of("B", X[1::3], y[1::3], rules=rules, ledger=tmp_path / "b")}
    with pytest.raises(RefusedError, match=r"site 'B' refused: its rows are .* epsilon 1 in all"):
        coordinator_of(sites, noise=Noise(0.71, norm=2.0)).fit()
    with pytest.raises(RefusedError, match=r"its sums are exact.*ask with `noise`"):
        coordinator_of(at(), noise=None).fit()
    coordinator_of(at(), noise=Noise(1.0, norm=2.0)).fit()
    with pytest.raises(RefusedError, match="smaller epsilon"):
        coordinator_of(at(), noise=Noise(1.01, norm=2.0)).fit()


def at_grid(y):
    time = GRID[np.minimum(np.searchsorted(GRID, y["time"]), len(GRID) - 1)]
    return surv(y["event"] & (y["time"] <= 1.0), time)


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_without_noise_to_speak_of_cox_models_are_the_plain_ones(alpha):
    X, y = rows_of("cox", 6000)
    estimator = CoxLassoCCD(alpha=alpha, l1_ratio=0, tol=1e-9)
    sites = sites_of(X, y)
    coordinator = coordinator_of(sites, estimator)
    found = coordinator.fit()
    plain = CoxLassoCCD(alpha=alpha, l1_ratio=0, tol=1e-9).fit(X, at_grid(y))
    assert found.coef == pytest.approx(plain.coef_, abs=2e-4)
    assert found.n_rows == pytest.approx(6000, abs=1)
    assert np.array_equal(sites["C"].model_.coef, found.coef)
    assert coordinator.n_exchanges_ == found.n_exchanges + 3
    if not alpha:
        errors = wald(plain, X, at_grid(y)).standard_errors
        assert found.standard_errors == pytest.approx(errors, rel=2e-3)


def test_without_noise_to_speak_of_logistic_models_are_the_plain_ones():
    X, y = rows_of("logistic", 6000)
    found = coordinator_of(sites_of(X, y), LOGISTIC).fit()
    plain = LogisticCCD(alpha=0, tol=1e-9).fit(X, y)
    whole = wald(plain, X, y, intercept=True)
    assert found.coef == pytest.approx(whole.coef, abs=2e-4)
    assert found.standard_errors == pytest.approx(whole.standard_errors, rel=2e-3)
    assert list(found.summary().index) == ["intercept", "x0", "x1", "x2", "x3"]
    assert "odds_ratio_lower" in found.summary()


def test_a_row_that_cannot_be_read_counts_for_nothing():
    X, y = rows_of("cox")
    X, y = np.vstack([X, X[:3] * 0]), np.concatenate([y, y[:3]])
    y["time"][-3:] = np.nan
    found = coordinator_of(sites_of(X, y)).fit()
    assert found.n_rows == pytest.approx(3000, abs=1)


class Together(NoisySums):
    """Sums of rows here, whose noise is of a seed."""

    def __init__(self, rows, seed):
        super().__init__(self.add)
        key = np.random.default_rng(seed).bytes
        self.sites = [NoisySums(None, own, lambda _: key(32)) for own in rows]

    def ask(self, releases, point=None):
        self.next = releases, point
        return super().ask(releases, point)

    def add(self, *_):
        return reduce(add, [site.make(*self.next) for site in self.sites])


@pytest.mark.thorough
def test_intervals_know_of_the_noise():
    """Errors of 50 fits of 4 coefficients, beside those of the rows, are those that are said."""
    X, y = rows_of("cox", 9000)
    programme = programme_of(Noise(6.0, norm=2.0))
    rows = [NoisyRows({"X": build_design(X[k::3]), "y": y[k::3]}, programme) for k in range(3)]
    plain = wald(CoxLassoCCD(alpha=0, tol=1e-9).fit(X, at_grid(y)), X, at_grid(y))
    public = SimpleNamespace(powers=np.zeros(4), names=None)
    fits = [fit_noisy(programme, public, Together(rows, seed)) for seed in range(50)]
    errors = np.mean([(fit.coef - plain.coef) ** 2 for fit in fits])
    said = np.mean([fit.standard_errors**2 for fit in fits]) - np.mean(plain.standard_errors**2)
    assert said > 0.15 * np.mean(plain.standard_errors**2)
    assert errors == pytest.approx(said, rel=0.25)
    assert repr(fits[0]).startswith("<NoisyFit of 4 coefficients, 95% intervals, epsilon 6, delta")


def test_inflation_is_what_comes():
    X, y = rows_of("cox", 30_000)
    programme = programme_of(Noise(2.0, norm=2.5))
    rows = [NoisyRows({"X": build_design(X[k::3]), "y": y[k::3]}, programme) for k in range(3)]
    public = SimpleNamespace(powers=np.zeros(4), names=None)
    found = [fit_noisy(programme, public, Together(rows, seed)) for seed in range(10)]
    plain = wald(CoxLassoCCD(alpha=0).fit(X, at_grid(y)), X, at_grid(y)).standard_errors
    ratio = np.mean([fit.standard_errors for fit in found]) / np.mean(plain)
    factor = Noise(2.0, norm=2.5).inflation(found[0].n_events, 0.25, residual=6.0)
    assert factor > 1.02
    assert ratio - 1 == pytest.approx(factor - 1, rel=0.5)


def test_too_much_noise_is_said():
    X, y = rows_of("cox")
    with pytest.raises(ValueError, match="too few rows for so much noise"):
        coordinator_of(sites_of(X, y), noise=Noise(0.1, norm=2.0)).fit()
    with pytest.warns(ConvergenceWarning, match="noise is as large as what is known of"):
        coordinator_of(sites_of(X, y), noise=Noise(2.0, norm=2.0)).fit()


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (CoxLassoCV(random_state=0), {}, "CoxLassoCCD and LogisticCCD, not CoxLassoCV"),
        (CoxLassoCCD(alpha=0.1), {}, "nothing is selected"),
        (CoxLassoCCD(alpha=0, ties="efron"), {}, "there is no 'ties'"),
        (LogisticCCD(alpha=0, fit_intercept=False), {}, "there is no 'fit_intercept'"),
        (COX, {"then": [("wald", {})]}, "nothing follows the fit"),
        (COX, {"level": "full"}, "nothing follows the fit"),
        (COX, {"grid": None}, "`grid` has 0 times"),
        (CoxLassoCCD(alpha=-1, l1_ratio=0), {}, "`alpha` is -1"),
        (LOGISTIC, {"grid": [1, 2]}, "`grid` has 2 times"),
    ],
)
def test_what_is_not_with_noise_is_refused(estimator, options, message):
    options = {"grid": GRID if estimator is COX else None} | options
    with pytest.raises(ValueError, match=message):
        Coordinator(estimator, NAMES, noise=EXACT, **options)


def test_rows_that_are_not_with_noise_are_refused_by_their_columns():
    X, y = rows_of("cox", 90)
    late = surv(y["event"], y["time"], start=np.zeros(90))
    cases = [({"y": late}, "'start'"), ({"y": y, "strata": np.ones(90)}, "'strata'")]
    cases += [({"y": y["time"]}, "no times"), ({"y": y, "sample_weight": np.ones(90)}, "'sample_w")]
    for arguments, message in cases:
        sites = sites_of(X, y) | {"B": site_of("B", X, **arguments)}
        with pytest.raises(RefusedError, match=message):
            coordinator_of(sites).fit()
    sites = sites_of(X, np.array(["no", "yes"])[y["event"].astype(int)])
    with pytest.raises(RefusedError, match="zeros and ones"):
        coordinator_of(sites, LOGISTIC).fit()


def test_sites_say_how_much_noise_they_ask_for_and_who_shares_it():
    """Little noise would be a way around all rules, and sites that nobody knows add none."""
    X, y = rows_of("cox", 300)
    with pytest.raises(RefusedError, match="ask it to set `max_epsilon`"):
        coordinator_of(sites_of(X, y, rules=None)).fit()
    with pytest.raises(RefusedError, match="could make up some"):
        coordinator_of(sites_of(X, y, peers=None)).fit()
    sites = sites_of(X, y, peers=None, rules=Rules(max_epsilon=1e7, min_sites=2))
    del sites["C"]
    assert coordinator_of(sites).fit().n_rows == pytest.approx(200, abs=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "`epsilon` is 0.0, must be a number above 0"),
        ({"norm": np.inf}, "`norm` is inf"),
        ({"delta": 0.5}, "`delta` is 0.5"),
        ({"effect": 50.0}, "`effect` is 50"),
        ({"steps": 0}, "`steps` is 0"),
        ({"steps": 99}, "`steps` is 99"),
    ],
)
def test_noise_has_its_limits(given, message):
    with pytest.raises(ValueError, match=message):
        Noise(**({"epsilon": 1.0, "norm": 1.0} | given))


@pytest.mark.parametrize(
    "text", ["{}", "[1]", "x", "null", '{"epsilon": NaN, "norm": 1}', '{"epsilon": 1, "n": 1}']
)
def test_a_text_that_is_no_noise_is_refused(text):
    with pytest.raises(ValueError, match="its noise cannot be read"):
        Noise.read(text)


def test_a_programme_says_its_noise():
    plain, noisy = (replace(programme_of(EXACT), noise=text) for text in ("", EXACT.text))
    assert plain.digest != noisy.digest
    for words in ("exp(1e+06)", "norm of 3", "at most 4 in size", "rounded up to 20"):
        assert words in str(noisy)
    assert Noise.read(noisy.noise) == EXACT
    assert json.loads(EXACT.text)["steps"] == 6
    with pytest.raises(TypeError, match=r"must be Noise\(...\)"):
        Coordinator(COX, NAMES, grid=GRID, noise=1.0)
    with pytest.raises(ValueError, match="`max_epsilon` is -1"):
        Rules(max_epsilon=-1)
    assert SLACK > 1
