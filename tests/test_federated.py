"""Sites that run one fit together: whose fit it is, what follows it, and what a site keeps."""

import json
from dataclasses import replace
from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
from federation import (
    COX,
    CUTS,
    GRID,
    LASSO,
    NAMES,
    OPEN,
    Exact,
    begun,
    draw_cox,
    fit_over,
    keep_what_is_told,
    parts,
    pooled,
    refusal,
    send_to,
    sites_of,
    survival,
    table,
)
from sklearn.base import clone

from sksurvgpu import (
    CaseSeriesCCD,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    profile_likelihood,
    wald,
)
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.federated import Coordinator, RefusedError, Site, wire
from sksurvgpu.federated import grid as grids
from sksurvgpu.federated.keys import Identity
from sksurvgpu.federated.ledger import Ledger
from sksurvgpu.federated.times import candidates, choose_times, flags_of

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")


CASES = {
    "breslow": (CoxLassoCCD(alpha=0.003), "plain"),
    "efron": (CoxLassoCCD(alpha=0.003, ties="efron"), "plain"),
    "efron, delayed entry": (CoxLassoCCD(alpha=0.003, ties="efron"), "delayed"),
    "delayed entry": (CoxLassoCCD(alpha=0.003), "delayed"),
    "strata": (CoxLassoCCD(alpha=0.003), "strata"),
    "pieces": (CoxLassoCCD(alpha=0.003, time_varying={2: [300.0]}), "plain"),
    "competing": (FineGrayCCD(alpha=0.003), "competing"),
    "logistic": (LogisticCCD(alpha=0.003), "classes"),
    "poisson": (PoissonCCD(alpha=0.003), "counts"),
    "linear": (LinearCCD(alpha=0.003), "numbers"),
    "case series": (CaseSeriesCCD(alpha=0.003), "persons"),
}


def outcome(rng, X, kind):
    eta = X[:, :4] @ np.array([0.5, -0.4, 0.5, 0.3]) - 0.5
    if kind == "classes":
        return (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int)
    if kind == "counts":
        return rng.poisson(np.exp(eta))
    if kind == "numbers":
        return eta + rng.normal(size=len(X))
    if kind == "persons":
        length = rng.uniform(10, 60, len(X))
        return case_series(rng.poisson(0.02 * length * np.exp(eta)), length, np.arange(len(X)) // 4)
    return survival(rng, X, kind)


@pytest.mark.parametrize("case", CASES)
def test_fit_is_that_of_all_rows_at_the_agreed_times_and_every_site_has_it(case):
    model, kind = CASES[case]
    rng = np.random.default_rng(1)
    X = table(rng)
    y = outcome(rng, X, kind)
    sites = sites_of(X, y)
    coordinator = fit_over(sites, model, GRID if isinstance(model, COX) else None)
    far = coordinator.estimator
    here = clone(model).fit(*pooled(X, y, coordinator, sites))
    assert far.objective_ == pytest.approx(here.objective_, rel=1e-10)
    assert far.coef_ == pytest.approx(here.coef_, abs=2e-4)
    assert far.kkt_ <= 1.0 and np.flatnonzero(far.coef_).size > 3
    assert [site.absent_ for site in sites.values()] == [("11",), ("10", "11"), ()]
    assert (coordinator.absent_, coordinator.n_left_out_) == ({"10": 1, "11": 2}, 0)
    for site in sites.values():
        assert site.model_.coef_.tobytes() == far.coef_.tobytes()
        assert site.n_exchanges_ == coordinator.n_exchanges_ - 3


@pytest.fixture(scope="module")
def cox():
    return draw_cox()


@pytest.fixture
def told(monkeypatch):
    return keep_what_is_told(monkeypatch)


def followed(rng, n, has_entries, has_units):
    """Rows of a site: outcome and persons."""
    time = np.minimum(rng.exponential(rng.choice([8.0, 25.0]), n), rng.uniform(0, 50, n)) + 0.1
    start = np.where(rng.random(n) < 0.5, np.floor(time * rng.random(n)), 0.0)
    whole = Outcome(
        rng.random(n) < 0.6, time, start if has_entries else None, rng.integers(0, 2, n),
        np.array(["a", "b"]),
    )  # fmt: skip
    return whole, rng.integers(0, n // 2, n) if has_units else None


def persons_by_time(outcome, unit):
    """Persons of every kind, stratum and time, one row after the other."""
    for kind, at in (("exits", "time"), ("deaths", "time"), ("entries", "start")):
        persons = {}
        for i, who in enumerate(np.arange(outcome.n_rows) if unit is None else unit):
            when = None if getattr(outcome, at) is None else getattr(outcome, at)[i]
            if when and (kind != "deaths" or outcome.event[i]):
                persons.setdefault((kind, outcome.stratum[i], when), set()).add(who)
        yield from persons.values()


@pytest.mark.parametrize("seed", range(6))
def test_agreed_times_have_enough_rows_of_every_kind_or_none(seed):
    """... for sites whose follow-up and rows have little in common; and there are many of them."""
    rng = np.random.default_rng(seed)
    grid, labels, least = np.arange(1.0, 40.0), np.array(["a", "b"]), (10, 14)[seed % 2]
    held, found = {}, []
    every = np.array([(a, b) for b in range(len(grid) + 1) for a in range(b)])
    spans = candidates(len(grid))
    for name in NAMES:
        whole, unit = followed(rng, int(rng.integers(150, 600)), seed % 2, seed % 3 == 0)
        ended, begins = grids.end_follow_up(whole, grid[-1])
        begins &= ~np.isin(whole.stratum, grids.rare_strata(ended, unit, least))
        held[name] = ended.take(begins), None if unit is None else unit[begins]
        if begins.any():
            proposed = grids.propose(*held[name], grid, 10)
            found.append([flags_of(proposed, least, labels, some) for some in (spans, every)])
    some, all_ = (np.all(flags, axis=0) for flags in zip(*found, strict=True))
    times, best = choose_times(labels, grid, spans, some), choose_times(labels, grid, every, all_)
    assert len(best.times) >= len(times.times) >= max(2, 0.8 * len(best.times) - 1)
    assert set(times.times) <= set(grid) and times.times[-1] == grid[-1]
    for coarse, unit in held.values():
        coarse, keeps = grids.coarsen(coarse, times, unit)
        counts = [
            len(persons)
            for persons in persons_by_time(
                coarse.take(keeps), None if unit is None else unit[keeps]
            )
        ]
        assert min(counts, default=least) >= least
        assert not grids.find_few(coarse.take(keeps), None if unit is None else unit[keeps], least)


@pytest.mark.parametrize("seed", range(5))
def test_times_are_the_most_that_sites_agree_on(seed):
    rng, n = np.random.default_rng(seed), 7
    spans = candidates(n)
    assert {(0, n), (n - 1, n), (0, 1)} <= set(map(tuple, spans))
    agree = rng.random((2, len(spans))) < 0.5

    def most(chosen, begin=0):
        """Largest number of spans side by side from a time to the end, by trying all."""
        if begin == n:
            return 0
        tried = [1 + most(chosen, b) for a, b in chosen if a == begin]
        return max(tried, default=-np.inf)

    times = choose_times(np.arange(2), np.arange(1.0, n + 1), spans, agree)
    for label, is_agreed in enumerate(agree):
        ends = [0, *(times.of(label).astype(int))]
        assert len(ends) - 1 == max(0, most(spans[is_agreed].tolist()))
        assert set(pairwise(ends)) <= set(map(tuple, spans[is_agreed]))


def test_sites_with_one_ledger_count_together(tmp_path):
    first, second = (Ledger(tmp_path / "ledger") for _ in range(2))
    assert first.count("noise", "one", 1.0, 1.5) and not second.count("noise", "two", 1.0, 1.5)
    assert first.settle("sites", ["A", "B"]) and not second.settle("sites", ["A", "C"])
    assert first.secret(b"1") == second.secret(b"2") == b"1"


def test_a_site_waits_while_another_one_counts_in_the_same_ledger(tmp_path, monkeypatch):
    first, second = (Ledger(tmp_path / "ledger") for _ in range(2))
    told, write = [], Ledger._write
    other = Thread(target=lambda: told.append(second.count("noise", "two", 1.0, 1.5)))

    def write_while_another_counts(ledger):
        if ledger is first:
            other.start()
            other.join(0.05)  # which it would be enough for
        write(ledger)

    monkeypatch.setattr(Ledger, "_write", write_while_another_counts)
    assert first.count("noise", "one", 1.0, 1.5)
    other.join()
    assert told == [False] and second.total("noise") == 1.0


def test_ledgers_survive_a_start_anew(cox, tmp_path):
    X, y = cox
    rules, grid = Exact(max_exchanges=40, max_models=2), GRID[::2]

    def again(**more):
        ledgers = {n: {"ledger": tmp_path / n, "key": tmp_path / f"{n}.key"} for n in NAMES}
        pieces = zip(NAMES, parts(X), parts(y), strict=True)
        return {name: Site(a, b, rules=rules, **ledgers[name], **more) for name, a, b in pieces}

    first = fit_over(again(), LASSO, grid)
    told = first.n_exchanges_ - 3
    assert 12 < told < 40 and again()["A"].n_exchanges_ == told
    with pytest.raises(RefusedError, match="other times were agreed or proposed before"):
        fit_over(again(), LASSO, GRID)
    sites = again()
    with pytest.raises(RefusedError, match="it has taken part in fits of other sites"):
        fit_over({"A": sites["A"], "B": sites["B"], "D": sites["C"]}, LASSO, grid)
    for knot, reason in ((300.0, "the 40 exchanges"), (400.0, r"read for 2 models \(`max_m")):
        with pytest.raises(RefusedError, match=reason):
            fit_over(again(), CoxLassoCCD(alpha=0.003, time_varying={2: [knot]}), grid)
    (tmp_path / "A").write_text("{}")
    with pytest.raises(ValueError, match=r"`ledger` .* is none of a site, or damaged"):
        again()


def test_programmes_are_shown_in_words_and_logged(cox, tmp_path):
    sites, shown = sites_of(*cox, log=tmp_path / "log"), []
    own = {"key": Identity.new()}
    sites["B"] = Site(*(part[1] for part in map(parts, cox)), log=tmp_path / "B", **own)

    def approve(programme):
        shown.append(str(programme))
        return len(shown) < 2

    send = send_to(sites) | {"B": lambda message: sites["B"].answer(message, approve)}
    then = [("profile_likelihood", {"columns": [0]})]
    options = {"grid": GRID, "then": then, "level": "full"}
    for reason in ("at 0 points", "site 'B' refused: the programme was not approved at the site"):
        with pytest.raises(RefusedError, match=reason):
            Coordinator(CoxLassoCCD(alpha=0.02, time_varying={2: [300]}), send, **options).fit()
    assert shown[1].splitlines() == [
        "Fit CoxLassoCCD(alpha=0.02, time_varying={2: [300]}) over the rows of 3 sites: A, B, C.",
        "Times are told apart at 60 points from 20 to 1200 at most, and only where each site has "
        "30 rows of each kind, or as many as its rules ask for.",
        "Then profile_likelihood(columns=[0]).",
        "The sum of the sites' matrices of columns by columns is told.",
    ]
    sample = begun(NAMES, level="sample", matrix_of="C").programme
    assert str(sample).endswith("A matrix of columns by columns is told, that of site C alone.")
    fit_over({**sites, "B": Site(*(part[1] for part in map(parts, cox)), **own)}, LASSO)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["decision"][:8] for line in lines} == {"answered", "refused:"}
    assert {line["operation"] for line in lines} == {"Begin", "Seal", "Start", "Add"}
    assert all(len(line["message"]) == len(line["answer"]) == 64 for line in lines)
    [*_, last] = (line for line in lines if line["operation"] == "Begin")
    assert last["programme"].startswith("Fit CoxLassoCCD(alpha=0.003) over") and last["rules"]
    assert any(line.get("told", "").startswith("Slopes: gradient 12, ") for line in lines)
    logged = [json.loads(line) for line in (tmp_path / "B").read_text().splitlines()]
    assert logged[-1]["decision"] == "refused: the programme was not approved at the site"
    assert sites["B"].ledger.total("models") == 1  # of the first alone


def test_sites_know_the_keys_of_their_peers(cox):
    X, y = cox
    own = {name: Identity.new() for name in NAMES}
    peers = {name: identity.fingerprint for name, identity in own.items()}

    def sites(given, peers):
        pieces = zip(NAMES, parts(X), parts(y), strict=True)
        return {n: Site(a, b, key=given[n], peers=peers) for n, a, b in pieces}

    assert fit_over(sites(own, peers), LASSO).estimator.converged_
    other = own | {"C": Identity.new()}
    with pytest.raises(RefusedError, match=r"the key of 'C' has the fingerprint .* \(`peers`\)"):
        fit_over(sites(other, peers), LASSO)
    with pytest.raises(RefusedError, match="this site knows none"):
        fit_over(sites(own, {"A": peers["A"], "B": peers["B"]}), LASSO)


@pytest.mark.parametrize("options", [{"level": "full"}, {"level": "sample", "matrix_of": "B"}])
def test_matrices_change_the_way_and_not_the_fit(cox, options, told):
    X, y = cox
    alone = options.get("matrix_of", "")
    rules = {name: Exact(max_matrices=50 * (alone in ("", name))) for name in NAMES}
    sites = sites_of(X, y)
    for name, site in sites.items():
        site.rules = rules[name]
    other = fit_over(sites, LASSO, **options)
    matrices = {name: [t["gram"] for _, t in told[name] if "gram" in t] for name in NAMES}
    for name, found in matrices.items():
        assert found and any(gram.any() for gram in found) == (alone in ("", name))
    diagonal = fit_over(sites_of(X, y), LASSO)
    assert other.estimator.objective_ == pytest.approx(diagonal.estimator.objective_, rel=1e-10)


def test_inference_follows_in_the_same_programme(cox):
    """Standard errors and intervals are those of all rows at the agreed times."""
    (X, y), model = cox, CoxLassoCCD(alpha=0.0)
    sites = sites_of(X[:, :6], y, OPEN)
    coordinator = fit_over(
        sites, model, then=[("wald", {}), ("profile_likelihood", {"columns": [0, 2]})]
    )
    rows = pooled(X[:, :6], y, coordinator, sites)
    here = clone(model).fit(*rows)
    covariance, profile = coordinator.results_[0].covariance, coordinator.results_[1]
    np.testing.assert_allclose(covariance, wald(here, *rows).covariance, rtol=1e-5, atol=1e-9)
    near = profile_likelihood(here, *rows, columns=[0, 2])
    np.testing.assert_allclose(profile.intervals, near.intervals, atol=1e-3)
    for site in sites.values():
        assert site._session.results[0].covariance.tobytes() == covariance.tobytes()


def test_standard_errors_need_all_pairs_of_columns(cox):
    """A matrix that lacks pairs is a way to a fit, and no variance."""
    X = cox[0][:, :6].copy()
    y, model = (cox[1]["time"] > 300).astype(float), LogisticCCD(alpha=0.0)
    options, rules = {"grid": None, "then": [("wald", {})]}, Exact(max_matrices=99)
    here = wald(clone(model).fit(X, y), X, y).standard_errors
    for level in ("diagonal", "full"):
        told = fit_over(sites_of(X, y, rules), model, level=level, **options).results_[0]
        np.testing.assert_allclose(told.standard_errors, here, rtol=1e-4)
    with pytest.raises(ValueError, match="`wald` needs the matrix of all sites"):
        Coordinator(model, NAMES, level="sample", matrix_of="A", **options)
    asked = begun(sites_of(X, y), model, **options)
    alone = replace(asked.programme, level="sample", matrix_of="A")
    site = next(iter(sites_of(X, y, name="A").values()))
    assert "needs the matrix of all" in refusal(site, wire.Begin(alone))
    rare = np.flatnonzero(X[:700, 2])  # at A, of whom 3 shall have column 5
    X[rare, 5] = 0.0
    X[rare[:3], 5] = 1.0
    for level in ("diagonal", "full"):
        with pytest.raises(RefusedError, match="'A' refused: fewer than 10 rows have both of"):
            fit_over(sites_of(X, y, rules), model, level=level, **options)
    fit_over(sites_of(X, y, rules), model, level="full", grid=None)


def test_folds_are_dealt_at_sites_by_a_secret(cox, told):
    X, y = (values[: CUTS[1]] for values in cox)
    secrets = {"A": 16 * b"1", "B": 16 * b"1", "C": 16 * b"2"}  # of the same rows
    sites = {name: Site(X[:, :10], y, secret=secret) for name, secret in secrets.items()}
    model = CoxLassoCV(n_alphas=4, cv=2, random_state=0)
    fit = fit_over(sites, model, rows_per_time=80).estimator
    assert fit.converged_ and fit.alpha_ < fit.alpha_max_ and np.count_nonzero(fit.coef_) > 3
    deaths = {
        (name, r.weight.kind, r.weight.number): tables["deaths"]
        for name in NAMES for r, tables in told[name] if isinstance(r, m.Weigh)
    }  # fmt: skip
    for name, site in sites.items():
        assert site.model_.coef_.tobytes() == fit.coef_.tobytes()
        assert site.model_.alpha_ == fit.alpha_
        every, *train = deaths[name, "given", 0], *(deaths[name, "train", k] for k in range(2))
        np.testing.assert_array_equal(train[0] + train[1], every)
        assert abs(train[0] / every - 0.5).max() < 0.3 and (train[0] != train[1]).any()
        is_same = [np.array_equal(deaths["A", "train", k], train[k]) for k in range(2)]
        assert is_same == [name != "C"] * 2
    with pytest.raises(ValueError, match="`random_state` of CoxLassoCV is None; pass a number"):
        Coordinator(CoxLassoCV(random_state=None), NAMES)
