"""Shared by the items: their list, the record of a run, problems, timed fits, judged answers.

An item is a function that says its columns (`Run.show`), adds rows (`Run.add`) and draws
(`Run.figure`).
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba.core import event

import sksurvgpu
from sksurvgpu import datasets

from ..cases import ESTIMATORS
from ..judge import Certificate
from ..problems import Data, dense_columns
from ..processes import timed as timed_both
from ..report import columns, machine, write
from .figures import PUBLISHED, SOURCES, panels, save_figure

GAMMA = 2.0**0.5  # the papers' penalty on the sum scale, a prior variance of 1
TOLERANCE = 1e-6  # ours and the exact algorithm's
SEED = 20_240
ENOUGH = 2.0  # seconds of repeated fits
FEW_ROWS = 4_000  # of the fit that loads kernels
BUSY = 0.7  # load a core beyond which a run is not called idle

ITEMS = {}


class Item(NamedTuple):
    """A table or figure of a paper."""

    name: str
    paper: str
    title: str
    measure: object

    @property
    def published(self):
        return PUBLISHED.get(self.name, [])


def item(paper, title):
    """Put a function on the list, under its own name."""

    def put(function):
        ITEMS[function.__name__] = Item(function.__name__, paper, title, function)
        return function

    return put


@dataclass
class Run:
    """A run of an item: its options, and the tables, notes and figures that it leaves."""

    item: Item
    options: object
    tables: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    figures: list = field(default_factory=list)
    begin: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=lambda: sum(os.times()[:4]))
    whole: bool = False  # once the item has come to its end

    @property
    def backend(self):
        return self.options.backend

    @property
    def threads(self):
        return self.options.threads

    @property
    def how(self):
        """Parameters of all of our estimators."""
        return {"n_jobs": self.threads, "backend": self.backend}

    def pick(self, tiny, default, full):
        """One of three sizes."""
        return {"tiny": tiny, "default": default, "full": full}[self.options.scale]

    @property
    def rows(self):
        """Of the latest table."""
        return self.tables[-1]["rows"]

    def show(self, text, title=""):
        """Begin a table with columns "header=key:format | ..."."""
        self.tables.append({"title": title, "columns": list(map(list, columns(text))), "rows": []})

    def add(self, **row):
        """Keep a row of the latest table, tell about it, and write what there is."""
        self.rows.append(row)
        shown = self.tables[-1]["columns"]
        said = ", ".join(f"{row[key]}" for _, key, form in shown if not form and key in row)
        print(f"{self.item.name}: {said}", file=sys.stderr, flush=True)
        self.write()

    def note(self, text):
        """Say something once below the table."""
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def figure(self, n=1, **size):
        """Axes of panels beside each other, saved as the item's figure in the end."""
        figure, axes = panels(n, **size)
        yield axes
        self.figures.append(f"{self.item.name}.png")
        save_figure(figure, self.options.output / self.figures[-1])

    def write(self):
        """JSON of the item."""
        write(self.options.output / f"{self.item.name}.json", self.record())

    def record(self):
        """The content of the item's file."""
        paper, options = self.item.paper, self.options
        known = {"paper": paper, "source": SOURCES.get(paper)}
        load, most = os.getloadavg()[0], BUSY * (os.cpu_count() or 1)
        return {
            "item": self.item.name,
            "paper": paper,
            "title": self.item.title,
            "scale": options.scale,
            "backend": self.backend,
            "threads": self.threads,
            "machine": machine(),
            "load_before": options.load,  # before the first item: later ones see our own
            "load_after": load,
            "idle": max(options.load, load - self.threads) <= most,
            "whole": self.whole,
            "seconds": time.perf_counter() - self.begin,
            "cpu_seconds": sum(os.times()[:4]) - self.cpu,
            "published": [{**known, **figure._asdict()} for figure in self.item.published],
            "tables": self.tables,
            "notes": self.notes,
            "figures": self.figures,
        }


SEARCHES = {
    "cox": "CoxLassoCV",
    "fine-gray": "FineGrayCV",
    "case-series": "CaseSeriesCV",
    "logistic": "LogisticCV",
}


@dataclass(eq=False)
class Problem:
    """X, y and a penalty on the sum scale; `more` is what else ``fit`` takes."""

    model: str
    X: object
    y: object
    penalty: float = GAMMA
    more: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)  # of the estimator
    factor: object = 1.0  # of the penalty, one for each column

    @property
    def n(self):
        return self.X.shape[0]

    @property
    def size(self):
        return f"{self.X.shape[0]:,} x {self.X.shape[1]:,}"

    def head(self, n):
        """The first rows."""
        more = {name: value[:n] for name, value in self.more.items()}
        return replace(self, X=self.X[:n], y=self.y[:n], more=more)

    def estimator(self, **parameters):
        kind = getattr(sksurvgpu, ESTIMATORS[self.model])
        return kind(alpha=self.penalty / self.n, **(self.parameters | parameters))

    def fit(self, model, X=None):
        return model.fit(self.X if X is None else X, self.y, **self.more)

    @cached_property
    def judge(self):
        """Certificate of answers, which shares no code with the package."""
        return Certificate(self.data)

    @cached_property
    def data(self):
        """X and y in the form that R and the judge take."""
        if isinstance(self.X, np.ndarray):
            _, *arrays = dense_columns(self.X)
        else:
            X = self.X.tocsc()
            values = None if np.all(X.data == 1.0) else np.asarray(X.data, float)
            arrays = [X.indptr, X.indices.astype(np.int32), values]
        intercept = self.model == "logistic" and self.parameters.get("fit_intercept", True)
        ties = "exact" if self.model == "matched" else "breslow"
        return Data(self.X.shape, *arrays, self._outcome(), self.model, intercept, ties)

    def _outcome(self):
        y = self.y
        match self.model:
            case "cox" | "fine-gray":
                outcome = {"time": y["time"], "event": y["event"].astype(np.int32)}
                return outcome | {"stratum": self.more.get("strata")}
            case "case-series":
                outcome = {"y": y["count"].astype(float), "exposure": y["length"].astype(float)}
                return outcome | {"group": y["subject"].astype(np.int32)}
            case "matched":
                return {"y": y["case"].astype(float), "group": y["stratum"].astype(np.int32)}
        return {"y": np.asarray(y, float)}


def cox(n, p, n_strata=1, **design):
    """The papers' survival times."""
    data = datasets.simulate_cox(n, p, n_strata=n_strata, random_state=SEED, **design)
    return Problem("cox", data.X, data.y, more={} if n_strata == 1 else {"strata": data.strata})


def fine_gray(n, p):
    """The papers' competing risks."""
    data = datasets.simulate_fine_gray(n, p, random_state=SEED)
    return Problem("fine-gray", data.X, data.y)


def logistic(n, p):
    """The slides' labels, without an intercept as they were drawn."""
    data = datasets.simulate_logistic(n, p, random_state=SEED)
    return Problem("logistic", data.X, data.y.astype(int))


def measure_ours(run_, problem, algorithm="majorized", n_threads=None, X=None, **parameters):
    """Seconds of ``fit`` with loaded kernels, and what the judge says of the answer.

    `X` replaces the problem's where it is the same matrix in another form.
    """
    n_threads = n_threads or (run_.threads if algorithm == "majorized" else 1)
    how = {"algorithm": algorithm, "n_jobs": n_threads, "tol": TOLERANCE, "max_iter": 10_000}
    how |= {"backend": run_.backend, **parameters}
    few = problem.head(min(problem.n, FEW_ROWS))
    few.fit(few.estimator(**how), None if X is None else X[: few.n])
    with event.install_recorder("numba:compile") as compiled:
        times, model = repeat(lambda: problem.fit(problem.estimator(**how), X))
    name = name_of(algorithm, n_threads, model)
    found = {"solver": name, **times, "iterations": int(model.n_iter_)}
    if compiled.buffer:
        run_.note(f"{problem.size}, {name}: COMPILED in the timed call; repeat with a warm cache")
    intercept = float(getattr(model, "intercept_", 0.0))
    return found | judged(problem, model.coef_, intercept) | {"coef": model.coef_}


def name_of(algorithm, n_threads, model=None):
    """As solvers are named."""
    name = {"majorized": "ours", "exact": "exact"}[algorithm]
    if getattr(model, "backend_", "cpu") == "cuda":
        return f"{name}, CUDA"
    return f"{name}, {n_threads} thread{'s' if n_threads > 1 else ''}"


def search(run_, problem, algorithm="majorized", n_threads=None, few=None, **options):
    """A cross-validation, and what it took and found; `few` rows load the kernels before."""
    n_threads = n_threads or (run_.threads if algorithm == "majorized" else 1)
    kind = getattr(sksurvgpu, SEARCHES[problem.model])
    how = {"cv": 10, "random_state": SEED, "algorithm": algorithm, "max_iter": 10_000}
    how |= {"n_jobs": n_threads, "backend": run_.backend, **problem.parameters, **options}
    cv = kind(**how)
    if few:
        loaded = {k: v for k, v in how.items() if k not in SEARCHED}
        problem.head(few).fit(kind(**loaded, alphas=[0.1, 0.05]))
    _, times = timed_both(lambda: problem.fit(cv))
    best, fits = cv.cv_results_.loc[cv.best_index_], cv.n_splits_ * len(cv.cv_results_)
    found = {"solver": name_of(algorithm, n_threads), "size": problem.size, **times}
    found |= {"tried": len(cv.cv_results_), "fits": fits, "ms": 1e3 * times["seconds"] / fits}
    found |= {"variance": float(best["variance"]), "score": float(best["mean_score"])}
    return cv, found | {"selected": int((cv.coef_ != 0).sum()), "kkt": residual(cv)}


SEARCHED = ("alphas", "search", "start_variance", "n_alphas", "alpha_min_ratio", "early_stopping")


def timed(call, *args, **kwargs):
    """Seconds of a call, and its result."""
    begin = time.perf_counter()
    result = call(*args, **kwargs)
    return time.perf_counter() - begin, result


def repeat(call):
    """Least times of a call that is repeated while that takes little time, and its result."""
    found = []
    while not found or (sum(one["seconds"] for one in found) < ENOUGH and len(found) < 5):
        result, one = timed_both(call)
        found.append(one)
    return {name: min(one[name] for one in found) for name in found[0]}, result


def residual(model):
    """KKT residual that a fitted model states, over the largest penalty of use."""
    return float(model.kkt_ / model.alpha_max_)


def judged(problem, coef, intercept=0.0):
    """KKT residual over the largest penalty of use, and nonzeros."""
    penalty = problem.penalty * np.ones(len(coef)) * problem.factor
    said = problem.judge.judge(np.asarray(coef, float), penalty, intercept)
    return {"kkt": said["kkt"], "nonzeros": said["nonzeros"]}
