"""Results show what they are: in words, and in a table of their first rows."""

import importlib
import pkgutil
from dataclasses import dataclass, fields, is_dataclass, replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import sksurvgpu
from sksurvgpu import (
    CoxLassoCCD,
    Posterior,
    bootstrap,
    curve_intervals,
    fit_path,
    screen,
    wald,
)
from sksurvgpu._tables import MOST_OF_A_FIT, MOST_ROWS, Result, as_text
from sksurvgpu._versioned import Versioned
from sksurvgpu.data.design.columns import Design
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.inference.wald import WaldResult

VOID = {"br", "hr", "img"}
N_MANY = 100_000


class Reader(HTMLParser):
    """Cells of the tables, and whether all that was opened is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.rows, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "style", "link")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)
        elif data.strip():
            self.texts.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


def result_classes():
    """Dataclasses of the package that functions are said to return."""
    found = set()
    # Folders for devices are entered only where their packages are installed.
    entered = pkgutil.walk_packages(sksurvgpu.__path__, "sksurvgpu.", onerror=lambda name: None)
    for module in entered:
        if "cuda" in module.name or module.name.endswith("__main__"):
            continue
        for thing in vars(importlib.import_module(module.name)).values():
            is_ours = isinstance(thing, type) and is_dataclass(thing)
            if is_ours and thing.__module__.startswith("sksurvgpu."):
                found.add(thing)
    is_made = ["; made by `" in (cls.__doc__ or "") or issubclass(cls, Versioned) for cls in found]
    return {cls for cls, made in zip(found, is_made, strict=True) if made} - {Design}


def fitted(n_columns=14, **columns):
    data = simulate_cox(300, n_columns, density=0.3, random_state=0)
    X = pd.DataFrame(data.X.toarray()).rename(columns=lambda j: columns.get(f"x{j}", f"x{j}"))
    return CoxLassoCCD(alpha=0.0).fit(X, data.y), X, data.y


def many(n=N_MANY, n_replicates=4):
    """A result of many coefficients."""
    data = simulate_cox(100, 3, random_state=0)
    result = bootstrap(CoxLassoCCD(), data.X, data.y, n_replicates=n_replicates, random_state=0)
    coefs = np.random.default_rng(0).standard_normal((n, n_replicates))
    names = np.array([f"c{j}" for j in range(n)])
    return replace(
        result, coef=coefs[:, 0], coefs=coefs, feature_names=names, infinite=np.zeros(n, bool)
    )


def test_every_result_shows_itself():
    classes = result_classes()
    assert len(classes) >= 25 and {WaldResult, Posterior} <= classes
    others = [cls.__name__ for cls in classes if not issubclass(cls, Result)]
    assert not others, f"derive these from `_tables.Result`: {others}"
    for cls in classes:
        assert cls._title is not Result._title, f"{cls.__name__} has no _title"
        assert "__repr__" not in vars(cls) or cls.__name__.endswith("Report"), cls.__name__
        assert cls._repr_html_ is Result._repr_html_


def test_text_and_table_say_the_same():
    model, X, y = fitted(44)
    result = wald(model, X, y, level=0.9)
    lines = repr(result).splitlines()
    assert lines[0] == "<WaldResult of 44 coefficients, 90% intervals>"
    assert lines[1].split()[:2] == ["coef", "standard_error"] and lines[2].split()[0] == "x0"
    assert lines[-1] == "and 4 more rows" and len(lines) == MOST_OF_A_FIT + 3
    page = read(result._repr_html_())
    assert page.texts == [lines[0][1:-1], lines[-1]]
    assert len(page.rows) == MOST_OF_A_FIT + 1
    for row, line in zip(page.rows, lines[1:-1], strict=True):
        assert row[-6:] == line.split()[-6:]
    ratio = result.summary()["hazard_ratio"].iloc[3]
    assert page.rows[4][-3] == f"{ratio:.4g}" and page.rows[0][-3] == "hazard_ratio"


def test_curves_of_few_times_show_several_rows():
    model, X, y = fitted(4)
    of_one_time = repr(curve_intervals(model, X, y, X[:3], times=[5.0])).splitlines()
    assert [line.split()[0] for line in of_one_time[3:]] == ["0", "1", "2"]
    of_three = repr(curve_intervals(model, X, y, X[:5], times=[4.0, 5.0, 6.0])).splitlines()
    assert of_three[-1] == "and 5 more rows" and len(of_three) == MOST_ROWS + 4
    assert [line.split()[0] for line in of_three[3:-1:3]] == ["0", "1", "2", "3"]


def test_short_results_have_no_rest():
    model, X, y = fitted(4)
    assert "more row" not in repr(wald(model, X, y)) + wald(model, X, y)._repr_html_()
    test = wald(model, X, y).test()
    assert read(test._repr_html_()).texts == [repr(test)[1:-1]] and "\n" not in repr(test)


def test_names_are_escaped_and_cut():
    evil, long = "<script>alert('x')</script>&", "n" * 500
    model, X, y = fitted(3, x0=evil, x1=long)
    X.columns = [evil, long, "a\nb"]
    result = wald(model.fit(X, y), X, y)
    html = result._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html
    assert evil in "".join("".join(row) for row in read(html).rows)
    assert long not in repr(result) and "nnn…" in repr(result) and "a b" in repr(result)
    assert len(repr(result).splitlines()) == 5


@pytest.mark.parametrize("what", [repr, lambda result: result._repr_html_()])
def test_only_rows_that_are_shown_are_made(what, monkeypatch):
    result = many()
    seen = []
    summary = type(result).summary
    monkeypatch.setattr(
        type(result), "summary", lambda self: seen.append(len(self.coef)) or summary(self)
    )
    assert f"and {N_MANY - MOST_ROWS:,} more rows" in what(result)
    assert seen == [MOST_ROWS]
    assert what(result).count("c9") == 1 and "c10" not in what(result)


def test_draws_of_other_parameters_are_not_read(monkeypatch):
    draws = np.random.default_rng(0).standard_normal((2, 50, 400))
    posterior = Posterior.from_draws({"coef": draws, "sigma2": draws[:, :, 0]})
    posterior.doubts()
    seen = []
    quantile = Posterior.quantile
    monkeypatch.setattr(
        Posterior,
        "quantile",
        lambda self, *a: seen.append(self.shapes["coef"]) or quantile(self, *a),
    )
    text = repr(posterior)
    assert set(seen) == {(MOST_ROWS,)} and text.endswith("and 391 more rows")
    assert text.splitlines()[-2].split()[0] == "coef[9]"
    assert f"{draws[:, :, 9].mean():.4g}" in text.splitlines()[-2]


def test_doubts_are_told_in_both():
    stuck = Posterior.from_draws({"coef": np.zeros((2, 50, 3))})
    for doubt in stuck.doubts():
        assert doubt in repr(stuck) and doubt in read(stuck._repr_html_()).texts
    assert stuck.doubts()


def test_a_path_and_a_screen():
    data = simulate_cox(300, 12, density=0.3, random_state=0)
    path = fit_path(CoxLassoCCD(), data.X, data.y, n_alphas=30)
    assert repr(path).endswith("and 20 more rows")
    assert repr(path).splitlines()[2].split()[1] == "0"
    found = screen(data.X, data.y)
    first = [line.split()[0] for line in repr(found).splitlines()[2:-1]]
    assert first == found.largest(MOST_ROWS).index.tolist()


def test_kinds_of_values():
    @dataclass(frozen=True, eq=False, repr=False)
    class Some(Result):
        frame: pd.DataFrame

        def _title(self):
            return "Some <values>"

        def _head(self, n):
            return self.frame.head(n), len(self.frame)

    frame = pd.DataFrame({"n": [1_000_000, 2], "x": [np.nan, 1e-12], "flag": [True, False]})
    frame["day"] = pd.to_datetime(["2020-01-01", None])
    frame["kind"] = pd.Categorical(["<a>", "b"])
    some = Some(frame.set_index([["u", "v"], [1, 2]]).rename_axis(["site", "row"]))
    page = read(some._repr_html_())
    cells = "|".join("|".join(row) for row in page.rows)
    assert "1,000,000|nan|True|2020-01-01 00:00:00|<a>" in cells and "1e-12" in cells
    assert page.texts == ["Some <values>"] and "site" in repr(some)
    assert [field.name for field in fields(some)] == ["frame"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (180_700.0, "180,700"),
        (12_345.4, "12,345"),
        (0.00012345, "0.0001234"),
        (9999.6, "10,000"),
        (1e20, "1e+20"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1_234, "1,234"),
    ],
)
def test_large_numbers_have_all_their_digits(value, text):
    assert as_text(pd.DataFrame({"a": [value]})).iloc[0, 0] == text


def test_rows_are_called_what_they_are():
    assert as_text(pd.DataFrame({"a": [1.0]}, index=[123_456])).index[0] == "123456"
