"""Many outcomes of rows in partitions: the fits of all rows in memory."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from sksurvgpu import (
    CaseSeriesCCD,
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCCD,
    case_series,
    fit_outcomes,
    make_pipeline,
    open_partitions,
    surv,
    write_partitions,
)
from sksurvgpu.partitions.handles import from_lists

N = 600
CUTS = [0, 200, 200, 210, N]
RNG = np.random.default_rng(0)
X = pd.DataFrame((RNG.random((N, 5)) < 0.3).astype(float), columns=list("abcde"))
TIME = np.ceil(RNG.exponential(30.0, N) * np.exp(-0.5 * X["a"].to_numpy()))
STRATA = np.array(["n", "s", "w"], dtype=object)[RNG.integers(0, 3, N)]
OUTCOMES = {
    "often": surv(RNG.random(N) < 0.6, TIME),
    "rarely": surv(RNG.random(N) < 0.3, TIME),
    "never": surv(np.zeros(N, bool), TIME),
}
AT_RISK = {"often": RNG.random(N) < 0.8, "rarely": np.arange(0, N, 2)}


def parts(values):
    return [values[low:high] for low, high in pairwise(CUTS)]


def same(found, expected):
    """Whether tables agree, estimates to what two fits may differ by."""
    exact = ["n_at_risk", "n_events", "n_exposed", "n_events_exposed", "status", "message"]
    pd.testing.assert_frame_equal(found.table[exact], expected.table[exact])
    close = found.table.columns.drop(exact)
    pd.testing.assert_frame_equal(
        found.table[close], expected.table[close], rtol=1e-4, atol=2e-5, check_exact=False
    )


CASES = {
    "profile": (CoxLassoCCD(alpha=0.01), {}),
    "wald": (CoxLassoCCD(alpha=0.0), {"strata": STRATA, "intervals": "wald"}),
    "robust": (
        CoxLassoCCD(alpha=0.0),
        {"sample_weight": RNG.integers(1, 3, N), "intervals": "robust"},
    ),
    "chooses": (CoxLassoCV(cv=3, alphas=[0.01], random_state=0), {"intervals": None}),
}


@pytest.mark.parametrize("case", CASES)
def test_outcomes_beside_partitions(case):
    model, beside = CASES[case]
    given = {"columns": ["a", "b"], "at_risk": AT_RISK, **beside}
    far = from_lists({"X": parts(X)})["X"]
    found, expected = (fit_outcomes(model, table, OUTCOMES, **given) for table in (far, X))
    same(found, expected)
    assert (found.table.loc["often", "status"] == "ok").all()
    assert "no event" in found.failures["message"].iloc[0]


def test_arguments_in_the_partitions_are_those_of_memory():
    beside = {"X": parts(X), "risk": parts(AT_RISK["often"]), "strata": parts(STRATA)}
    far = from_lists(beside | {name: parts(y) for name, y in OUTCOMES.items()})
    given = {"columns": "a", "intervals": None}
    some = {name: far[name] for name in OUTCOMES}
    found = fit_outcomes(
        CoxLassoCCD(alpha=0.01),
        far["X"],
        some,
        at_risk={"often": far["risk"]},
        strata=far["strata"],
        **given,
    )
    at_risk = {"often": AT_RISK["often"]}
    expected = fit_outcomes(
        CoxLassoCCD(alpha=0.01), X, OUTCOMES, at_risk=at_risk, strata=STRATA, **given
    )
    same(found, expected)


def test_of_files_in_a_folder_that_is_gone_on_with(tmp_path):
    batches = ({"X": x, "y": y} for x, y in zip(parts(X), parts(OUTCOMES["often"]), strict=True))
    write_partitions(tmp_path / "rows", batches, rows=250)
    data = open_partitions(tmp_path / "rows")
    table = pd.concat([pd.DataFrame(data.X.load(k).to_scipy().toarray()) for k in range(3)])
    y = np.asarray(data.y.map(np.asarray))  # rows of files have an order of their own
    given = {"columns": [1], "intervals": "wald"}
    read = []

    class Outcomes(dict):
        def __getitem__(self, name):
            read.append(name)
            return super().__getitem__(name)

    outcomes = Outcomes(one=y, two=surv(~y["event"], y["time"]))
    model, folder = CoxLassoCCD(alpha=0.0), tmp_path / "outcomes"
    found = fit_outcomes(model, data.X, outcomes, folder=folder, **given)
    same(found, fit_outcomes(model, table.to_numpy(), outcomes, **given))
    again = fit_outcomes(model, data.X, outcomes, folder=folder, **given)
    pd.testing.assert_frame_equal(again.table, found.table)
    other = from_lists({"X": [table.to_numpy()[::-1]]})["X"]
    with pytest.raises(FileExistsError, match="X"):
        fit_outcomes(model, other, outcomes, folder=folder, **given)


def test_collections_of_dask():
    dd = pytest.importorskip("dask.dataframe")
    frame = X.assign(time=TIME, event=OUTCOMES["often"]["event"], ill=RNG.random(N) < 0.2)
    ddf = dd.from_pandas(frame, npartitions=3)
    outcomes = {
        "there": surv(ddf["event"], ddf["time"]),
        "here": OUTCOMES["rarely"],
    }
    given = {"columns": ["a"], "at_risk": AT_RISK["often"], "intervals": None}
    model = CoxLassoCCD(alpha=0.01)
    found = fit_outcomes(model, ddf[list("abcde")], outcomes, **given)
    same(found, fit_outcomes(model, X, outcomes | {"there": OUTCOMES["often"]}, **given))
    chunks = ddf[list("abcde")].to_dask_array(lengths=True)
    model, given = LogisticCCD(alpha=0.01), {"columns": [0], "intervals": None}
    found = fit_outcomes(model, chunks, {"ill": ddf["ill"]}, **given)
    same(found, fit_outcomes(model, X.to_numpy(), {"ill": frame["ill"]}, **given))


def test_an_outcome_that_partitions_cannot_have_fails_alone():
    far = from_lists({"X": parts(X)})["X"]
    short = {"short": OUTCOMES["often"][:-1], "fine": OUTCOMES["often"]}
    table = fit_outcomes(CoxLassoCCD(alpha=0.01), far, short, columns=0, intervals=None).table
    assert table["status"].tolist() == ["failed", "ok"]
    assert table["message"].iloc[0].startswith("`y` has 599 entries, `X` has 600 rows")


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (CoxLassoCCD(algorithm="exact"), {}, "moves one coefficient at a time"),
        (CoxLassoCCD(backend="cuda"), {}, "needs all rows on one device"),
        (CoxLassoCCD(), {"columns": "z"}, "`columns` names column 'z', which `X` does not have"),
        (CoxLassoCCD(), {"strata": STRATA[1:]}, "`strata` has 599 entries, `X` has 600 rows"),
        (make_pipeline(StandardScaler(), CoxLassoCCD()), {}, "`X` is in partitions"),
    ],
)
def test_what_is_refused_at_once(model, given, message):
    far = from_lists({"X": parts(X)})["X"]
    with pytest.raises(ValueError, match=message):
        fit_outcomes(model, far, OUTCOMES, **({"columns": "a"} | given))


def test_subjects_of_several_partitions_are_refused():
    y = case_series(RNG.poisson(1.0, N), np.ones(N), np.arange(N) // 4)
    far = from_lists({"X": parts(X)})["X"]
    found = fit_outcomes(CaseSeriesCCD(alpha=0.0), far, {"y": y}, columns=0, intervals=None)
    assert "group 52 has rows in partitions 2 and 3" in found.table["message"].iloc[0]
    whole = from_lists({"X": [X[:200], X[200:]]})["X"]
    given = {"columns": [0], "intervals": None}
    found = fit_outcomes(CaseSeriesCCD(alpha=0.0), whole, {"y": y}, **given)
    same(found, fit_outcomes(CaseSeriesCCD(alpha=0.0), X, {"y": y}, **given))
