"""What leaves sites that run one fit together, and what they refuse."""

import json
import re
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial, reduce
from inspect import signature

import numpy as np
import pytest
from federation import (
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
    sites_of,
    survival,
    table,
)
from scipy.sparse import csr_array
from sklearn.base import clone

import sksurvgpu
from sksurvgpu import CoxLassoCCD, CoxLassoCV, FineGrayCCD, LinearCCD, LogisticCCD, surv, wald
from sksurvgpu.backends.sums import messages as m
from sksurvgpu.exceptions import NothingSelectedWarning
from sksurvgpu.federated import Coordinator, RefusedError, Rules, Site, site, wire
from sksurvgpu.federated import words as arithmetic
from sksurvgpu.federated.keys import Circle, total_of

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")


@pytest.fixture(scope="module")
def cox():
    return draw_cox()


@pytest.fixture
def told(monkeypatch):
    return keep_what_is_told(monkeypatch)


@pytest.fixture
def covers(monkeypatch):
    """Words of each site's parts of sums, and what covers them: the site sends that."""
    found, cover = {name: [] for name in NAMES}, Circle.cover

    def keep(self, words, transcript):
        found[self.name].append((words, cover(self, words, transcript)))
        return found[self.name][-1][1]

    monkeypatch.setattr(Circle, "cover", keep)
    return found


def test_a_part_is_read_by_nobody_and_all_parts_add_up(cox, covers):
    sites = sites_of(*cox)
    sent = {name: [] for name in NAMES}

    def send(name, message):
        answer = sites[name].answer(message)
        content = wire.decode(answer)
        if isinstance(content, wire.Covered):
            sent[name].append(content.words)
        return answer

    Coordinator(clone(LASSO), {name: partial(send, name) for name in NAMES}, grid=GRID).fit()
    for name in NAMES:  # nothing else leaves
        assert len(sent[name]) == len(covers[name]) == sites[name].n_exchanges_
        for words, (_, covered) in zip(sent[name], covers[name], strict=True):
            np.testing.assert_array_equal(words, covered)
    for cells in zip(*covers.values(), strict=True):
        plain = [words for words, _ in cells]
        assert any(words.any() for words in plain)
        total = total_of([covered for _, covered in cells])[:-1]
        np.testing.assert_array_equal(total, reduce(arithmetic.add, plain))
        for some in ([0], [1], [2], [0, 1], [0, 2], [1, 2]):
            seen = total_of([cells[k][1] for k in some])[:-1]
            assert not (seen == reduce(arithmetic.add, [plain[k] for k in some])).any()
    for name in NAMES:
        words = np.concatenate(sent[name])
        assert len(words) > 800 and len(np.unique(words)) == len(words)
        bits = (words[:, None] >> np.arange(61, dtype=np.uint64)) & np.uint64(1)
        assert abs(bits.mean(axis=0) - 0.5).max() < 2.5 / np.sqrt(len(words))
    again = {name: [covered for _, covered in cells] for name, cells in covers.items()}
    for cells in covers.values():
        cells.clear()
    fit_over(sites, LASSO)  # of the same words
    for name in NAMES:
        for (_, covered), before in zip(covers[name], again[name], strict=True):
            assert not (covered == before).any()


def test_what_is_public_tells_no_number_of_rows(cox):
    """... but orders of size: of other rows of such a site it is the same, bit by bit."""
    X, y = cox
    said = []
    for rows in (slice(None), slice(None, None, 2)):
        sites = sites_of(X[rows], y[rows], cuts=(0, 350, 750, 1200) if rows.step else CUTS)
        answers = Coordinator(clone(LASSO), NAMES, grid=GRID).messages()
        found = {name: wire.decode(sites[name].answer(answers[name])) for name in NAMES}
        said.append({name: (joined.names, joined.facts) for name, joined in found.items()})
    for name in NAMES:
        (names, facts), (others, other) = said[0][name], said[1][name]
        assert names == others and set(facts) == set(other)
        for key in set(facts) - {"powers"}:
            np.testing.assert_array_equal(facts[key], other[key])
        assert facts["powers"].dtype.kind == "i" and abs(facts["powers"]).max() < 4


@pytest.mark.parametrize("kind", ["plain", "delayed", "strata", "competing"])
def test_no_part_is_of_few_rows(kind, told):
    """At coefficients of zero, tables by time are numbers of rows: none, or ten and more."""
    rng = np.random.default_rng(0)
    X = table(rng)
    model = FineGrayCCD(alpha=9.0) if kind == "competing" else CoxLassoCCD(alpha=9.0)
    sites = sites_of(X, survival(rng, X, kind))
    with warnings.catch_warnings(action="ignore"):  # numba's filters, where it compiles in threads
        fit_over(sites, model, rows_per_time=0)
    for cells in told.values():
        cells.clear()
    with pytest.warns(NothingSelectedWarning) as warned:
        fit_over(sites, model, rows_per_time=0)
    assert sum(w.category is NothingSelectedWarning for w in warned) == 1  # and not at sites
    for name in NAMES:
        seen = Counter()
        for request, tables in told[name]:
            shift = np.exp(getattr(request, "shift", 0.0))
            for of in set(tables) & {"risk", "deaths", "exits", "leaving", "lost", "failed"}:
                counts = np.atleast_2d(tables[of])[0]
                counts = np.round(abs(counts) * (shift if of == "risk" else 1.0))
                if of == "risk" and kind == "delayed":
                    continue  # exits less entries
                seen[of] += counts.any()
                assert not ((counts > 0) & (counts < 10)).any(), of
        assert seen["deaths"] == 2 and seen["exits"] == 1
        assert seen["leaving"] == 1 and (seen["lost"] > 0) == (kind == "competing")


def test_rare_columns_are_zero_in_every_part(cox, told):
    fit_over(sites_of(*cox), LASSO)
    for name, column in (("A", 11), ("B", 10), ("B", 11)):
        seen = Counter()
        for _, tables in told[name]:
            for what in {"sum", "square", "gradient", "size", "curvature"} & set(tables):
                seen[what] += 1
                assert np.any(tables[what][0]) and not np.any(tables[what][column])
        assert len(seen) == 5
    assert any(tables["gradient"][11] for _, tables in told["C"] if "gradient" in tables)


def test_sums_of_few_rows_are_withheld_from_models(cox, told):
    X, y = cox
    sites = sites_of(X, y, Exact(max_matrices=99))
    fit_over(sites, LASSO, level="full")
    rare_pairs = rare_loads = 0
    for name, rows in zip(NAMES, parts(X), strict=True):
        for request, tables in told[name]:
            if "gram" in tables:
                has = (rows[:, request.columns] != 0.0).astype(int)
                pairs = has.T @ has
                rare = (pairs > 0) & (pairs < 10) & ~np.eye(len(pairs), dtype=bool)
                assert not tables["gram"][rare].any()
                rare_pairs += rare.sum()
            if "loads" in tables and len(tables["loads"]) == X.shape[1]:
                rare_loads += np.sum(~tables["loads"].any(axis=1))
    assert rare_pairs and rare_loads


def test_a_matrix_and_curvatures_tell_no_more_at_once(cox, told):
    sites = sites_of(*cox, Exact(max_matrices=99))
    fit_over(sites, LASSO)
    local = sites["A"]._session.local
    slopes = next(r for r, _ in reversed(told["A"]) if isinstance(r, m.Slopes))

    def ask(*want):
        [found] = local.ask([replace(slopes, want=want, columns=np.array([0, 3, 10, 11]))])
        return found

    both, curvature, gram = ask("curvature", "gram"), ask("curvature"), ask("gram")
    assert set(both) == set(curvature) | set(gram)
    for name, found in (curvature | {"gram": gram["gram"]}).items():
        np.testing.assert_array_equal(both[name], found)
    np.testing.assert_array_equal(both["loads"][[0, 3, 10, 11]], gram["loads"])


REFUSED = {  # programme, rules and columns: the reason
    "its times are told in a grid only": (LASSO, {"grid": None}, {}),
    "`grid` has more times than the site has rows": (LASSO, {"grid": np.arange(1.0, 1100.0)}, {}),
    r"at 0 points \(`max_matrices`\); take level='diagonal'": (LASSO, {"level": "full"}, {}),
    "the 4 exchanges that it allows are used up": (LASSO, {}, {"max_exchanges": 4}),
    r"read for 0 models \(`max_models`\)": (LASSO, {}, {"max_models": 0}),
    r"is of 3 site\(s\), and sums hide this one among 4 or more \(`min_sites`\)":
        (LASSO, {}, {"min_sites": 4}),
    "weights of kind 'multinomial' are not allowed":
        (LASSO, {"then": [("bootstrap", {"n_replicates": 2, "random_state": 0})]}, {}),
    "few rows with an event, or clusters, would be nearly all of the squares of a column's":
        (CoxLassoCCD(alpha=0.0), {"then": [("wald", {"robust": True})]}, {"min_rows": 1}),
    "a sum by column and time, or what two differ by, would be of fewer than 10 rows; take":
        (CoxLassoCCD(alpha=0.0), {"then": [("wald", {})]}, {}),
    r"there are 2 to 10 folds \(`min_rows`\), not 11":
        (CoxLassoCV(n_alphas=2, cv=11, random_state=0), {}, {}),
    r"under 10 independent vectors of weights": (LASSO, {"then": [("bootstrap", {
        "n_replicates": 10, "kind": "exponential", "random_state": 0})]}, {}),
    r"a sum would be of fewer than 10 rows \(|a fold or a draw would have fewer than 10 rows of a":
        (CoxLassoCV(n_alphas=2, cv=9, random_state=0), {}, {}),
    "its outcome has no times; leave out `grid`": (LinearCCD(), {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_sites_refuse_programmes_that_would_tell_rows(cox, reason):
    model, options, rules = REFUSED[reason]
    X, y = cox
    y = y["time"] if isinstance(model, LinearCCD) else y
    sites = sites_of(X[:, :8], y, Exact(**rules))
    with pytest.raises(RefusedError, match=f"^site '[ABC]' refused: .*{reason}"):
        fit_over(sites, model, **{"grid": GRID, **options})


def test_sites_say_which_of_their_arguments_a_model_does_not_take(cox):
    X, y = cox
    sites = {name: Site(X, y["time"], strata=y["event"]) for name in NAMES}
    with pytest.raises(RefusedError, match="its rows have `strata`, which LinearCCD does not take"):
        fit_over(sites, LinearCCD())
    models = [getattr(sksurvgpu, name) for name in sksurvgpu.__all__ if name.endswith("CCD")]
    takes = {name for model in models for name in signature(model.fit).parameters}
    assert takes - {"self", "X", "y"} | {"cluster"} == site.OF_FIT


@pytest.mark.parametrize("n_ill", [0, 1, 9])
def test_a_class_that_no_row_has_is_one_of_few(cox, n_ill):
    """... or a refusal would tell that somebody is ill."""
    X, y = cox
    is_ill = y["event"].copy()
    is_ill[CUTS[1] + n_ill : CUTS[2]], is_ill[CUTS[1] : CUTS[1] + n_ill] = False, True
    sites = sites_of(X[:, :2], is_ill)
    reason = "site 'B' refused: it has fewer than 10 rows of a class"
    with pytest.raises(RefusedError, match=reason):
        fit_over(sites, LogisticCCD(), grid=None)


def test_sites_refuse_levels_of_few_rows(cox):
    X, y = cox
    level = np.arange(len(X)) % 4
    level[np.flatnonzero(level == 0)[9:]] = 1  # nine rows are of the level without a column
    levels = np.column_stack([X[:, 0], level == 1, level == 2, level == 3]).astype(float)
    with pytest.raises(RefusedError, match="fewer than 10 rows have none of the columns 1 to 3"):
        fit_over(sites_of(csr_array(levels), y), LASSO)


def test_centred_columns_of_measured_values_are_no_levels(cox):
    X, y = cox[0][:, [0, 2]].copy(), cox[1]
    few = [5, 900, 901, 1600]
    X[few, 0] = 0.0  # the very mean
    assert fit_over(sites_of(X, y), LASSO).estimator.converged_
    X[:, 0] = 1.0 + (np.arange(len(X)) % 3 == 0)  # sums and sums of squares tell apart 1 and 2
    X[few, 0] = 0.0
    with pytest.raises(RefusedError, match="fewer than 10 rows have none of the columns 0 to 0"):
        fit_over(sites_of(X, y, Exact(max_listed=0)), LASSO)


def test_fit_turns_away_from_points_that_a_site_refuses_or_says_that_it_cannot(cox):
    X, y = cox
    steep = sites_of(X * 4.0, y)  # the first step is too long along these
    assert fit_over(steep, LASSO).estimator.converged_
    sites = sites_of(X, y, Exact(largest_share=0.06))
    with pytest.raises(RefusedError, match=r"^some site refused points of this fit: one row"):
        fit_over(sites, CoxLassoCCD(alpha=0.003))
    assert max(site.n_exchanges_ for site in sites.values()) < 50  # and not all that are allowed
    reasons = {site._session.withheld[:37] for site in sites.values()}
    assert reasons - {""} == {"one row would be more than 6% of a su"}


def test_shares_of_a_few_deaths_matter_where_their_sums_are_told(cox, tmp_path):
    X, y = cox
    dies = y["event"] & (np.arange(len(y)) % 3 == 0)  # ten or more at a time, of many rows
    X, y, rules = X[:, :2] * [3.0, 1.0], surv(dies, y["time"]), Exact(largest_share=0.12)
    fit = partial(fit_over, sites_of(X, y, rules, log=tmp_path / "log"), rows_per_time=0)
    fit(CoxLassoCCD(alpha=0.0))
    assert "(deaths)" not in (tmp_path / "log").read_text()
    with pytest.raises(RefusedError, match="some site refused points of this fit"):
        fit(CoxLassoCCD(alpha=0.0, ties="efron"))
    said = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any("(deaths)" in line.get("withheld", "") for line in said)


def test_small_sites_and_strata_stand_aside(cox):
    X, y = cox
    with pytest.raises(RefusedError, match="'A' refused: it has fewer than 10 rows that could be"):
        fit_over(sites_of(X, y, cuts=(0, 9, 1000, 2400)), LASSO, GRID[9::10])
    n_times = [
        len(fit_over(sites_of(X, y, cuts=(0, n, 1000, 2400)), LASSO).grid_) for n in (99, 700)
    ]
    assert 0 < n_times[0] < n_times[1]  # that all sites have rows for
    stratum = np.where(np.arange(len(y)) % 700 < 12, "rare", "common")
    sites = sites_of(X, surv(y["event"], y["time"], stratum=stratum))
    coordinator = fit_over(sites, CoxLassoCCD(alpha=0.01))
    assert sites["A"].left_out_ == ("rare",)
    assert coordinator.n_left_out_ == 3 and list(coordinator.grid_) == ["common"]


def test_persons_count_once(cox):
    X, y = cox
    n_times = []
    for subject in (None, np.arange(len(y)) // 40):  # 18 at A
        sites = sites_of(X, surv(y["event"], y["time"], subject=subject))
        n_times.append(len(fit_over(sites, CoxLassoCCD(alpha=0.05), rows_per_time=0).grid_))
    assert n_times[0] > 5 and n_times[1] == 1


def cut_rows(rng, X, y):
    """Rows of persons whose follow-up is cut at up to three times, without any change."""
    persons, start, time, event = [], [], [], []
    for i, (seen, end) in enumerate(zip(y["event"], y["time"], strict=True)):
        at = [0.0, *np.sort(rng.uniform(0.0, end, rng.integers(0, 4))), end]
        persons += [i] * (len(at) - 1)
        start += at[:-1]
        time += at[1:]
        event += [False] * (len(at) - 2) + [seen]
    return X[persons], surv(event, time, start=start, subject=persons)


@pytest.mark.parametrize("rows_per_time", [10, 200])
def test_rows_that_are_cut_without_a_change_are_the_same_fit(cox, rows_per_time):
    (X, y), rng = (cox[0][:, :6], cox[1]), np.random.default_rng(7)
    pieces = [cut_rows(rng, *piece) for piece in zip(parts(X), parts(y), strict=True)]
    sites = {name: Site(*piece, rules=OPEN) for name, piece in zip(NAMES, pieces, strict=True)}
    coordinator = fit_over(sites, CoxLassoCCD(alpha=0.0), rows_per_time=rows_per_time)
    whole = CoxLassoCCD(alpha=0.0).fit(*pooled(X, y, coordinator, sites))
    np.testing.assert_allclose(coordinator.estimator.coef_, whole.coef_, atol=1e-5)
    for name, (X, y) in zip(NAMES, pieces, strict=True):
        sites[name] = Site(X, surv(y["event"], y["time"], start=y["start"]), rules=OPEN)
    with pytest.raises(RefusedError, match="say whose rows are whose"):
        fit_over(sites, CoxLassoCCD(alpha=0.0), rows_per_time=rows_per_time)


def test_pieces_of_time_in_which_a_column_has_few_rows(cox):
    X, y = cox[0].copy(), cox[1]
    X[np.flatnonzero(y["time"] > 700.0)[9:], 5] = 0.0
    sites = sites_of(X, y)
    fit_over(sites, CoxLassoCCD(alpha=0.003, time_varying={5: [700.0]}))
    assert "5" in sites["A"].absent_


def test_models_of_much_work_are_refused_before_rows_are_read(cox, monkeypatch):
    cuts = np.linspace(1.0, 1000.0, 50_000).tolist()
    [many, some] = (begun(NAMES, CoxLassoCCD(time_varying={0: cuts[:n]})) for n in (len(cuts), 17))
    monkeypatch.setattr("sksurvgpu.federated.reading.read_rows", None)
    site = Site(*cox, name="A")
    assert re.search(r"50,002 pieces of time .* `max_work` .* 1.0e\+10", refusal(site, many))
    site.rules = Exact(max_work=1e6)
    assert "19 pieces of time are work on" in refusal(site, some)
    assert site.ledger.total("models") == 0  # what is refused is not counted


def test_sites_may_lack_some_of_many_strata():
    rng = np.random.default_rng(0)
    stratum = np.concatenate([rng.integers(0, n, 10_000) for n in (100, 70, 60)])
    X, cuts = (rng.random((len(stratum), 4)) < 0.4).astype(float), (0, 10_000, 20_000, 30_000)
    time = 1.0 + (rng.exponential(np.exp(-X @ [0.5, -0.5, 0.2, 0.0])) > 0.5)
    y = surv(rng.random(len(X)) < 0.7, time, stratum=stratum)
    sites = sites_of(X, y, Exact(max_listed=0), cuts=cuts)
    model = CoxLassoCCD(alpha=0.001)
    coordinator = fit_over(sites, model, [1.0, 2.0], rows_per_time=10)
    here = clone(model).fit(*pooled(X, y, coordinator, sites, cuts))
    assert coordinator.estimator.objective_ == pytest.approx(here.objective_, rel=1e-10)
    assert np.count_nonzero(here.coef_) == 3 and coordinator.n_left_out_ == 0


def test_efrons_ties_need_no_rows_that_leave_before_the_end_of_follow_up():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=2400), rng.random((2400, 2)) < 0.5]).astype(float)
    time = rng.exponential(900.0 * np.exp(-X @ [0.5, -0.4, 0.3]))
    y = surv(time < 1200.0, np.minimum(time, 1200.0))
    grid, here = GRID[::6], CoxLassoCCD(alpha=0.0).fit(X, y)
    with pytest.warns(UserWarning, match=r"Breslow's ties .* about \d+%: take ties='efron'"):
        breslow = fit_over(sites_of(X, y), CoxLassoCCD(alpha=0.0), grid)
    efron = fit_over(sites_of(X, y), CoxLassoCCD(alpha=0.0, ties="efron"), grid)
    np.testing.assert_array_equal(efron.grid_, breslow.grid_)
    off = [abs(f.estimator.coef_ / here.coef_ - 1.0).max() for f in (breslow, efron)]
    assert off[0] > 0.05 > 0.03 > off[1]


def test_combinations_that_can_be_listed_have_enough_rows():
    rng = np.random.default_rng(0)
    X = (rng.random((2400, 2)) < 0.5).astype(float)
    y = survival(rng, np.hstack([X, np.zeros((2400, 4))]))
    reason = (
        r"columns have 4 combinations of values .*`max_listed`.* fewer than 10 rows at some time"
    )
    with pytest.raises(RefusedError, match=reason):
        fit_over(sites_of(X, y), LASSO)
    few_times = fit_over(sites_of(X, y), LASSO, GRID[[29, 59]], rows_per_time=200)
    assert few_times.estimator.converged_
    X[:, 1] = rng.normal(size=2400)  # most rows have a combination of their own
    assert fit_over(sites_of(X, y), LASSO).estimator.converged_


def test_blurred_sums_are_of_secret_weights_that_stay(cox, tmp_path):
    X, y = cox
    exact = fit_over(sites_of(X, y), CoxLassoCCD(alpha=0.0, max_iter=99))
    rules, secrets = Rules(blur=0.2), {name: 16 * name.encode() for name in NAMES}

    def blurred(**more):
        pieces = zip(NAMES, parts(X), parts(y), strict=True)
        return {
            name: Site(a, b, rules=rules, secret=secrets[name], **more) for name, a, b in pieces
        }

    found = [fit_over(blurred(), CoxLassoCCD(alpha=0.0, max_iter=99)) for _ in range(2)]
    assert found[0].estimator.coef_.tobytes() == found[1].estimator.coef_.tobytes()
    assert (exact.blur_, found[0].blur_) == (0.0, 0.2)
    here = CoxLassoCCD(alpha=0.0).fit(X, y)
    errors = wald(here, X, y).standard_errors
    off = (found[0].estimator.coef_ - exact.estimator.coef_)[:-2] / errors[:-2]
    assert 0.02 < np.sqrt(np.mean(off**2)) < 0.4  # of 0.2, about
    binary = (X[:, 2:5] != 0).astype(float)
    fit_over(sites_of(binary, y, rules), LASSO)  # of no whole numbers
    site_of = partial(Site, X, y, rules=rules, ledger=tmp_path / "ledger")
    site_of(secret=16 * b"1")
    with pytest.raises(ValueError, match="`secret` is another one than before"):
        site_of(secret=16 * b"2")
    kept = [Site(X, y, ledger=tmp_path / "other ledger").rows for _ in range(2)]
    assert kept[0] == kept[1]  # as are the weights
