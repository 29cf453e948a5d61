"""Large problems drawn fast, and contexts under which the backend is built another way.

Sparse indicators are drawn on all cores, outcomes by the published designs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sksurvgpu import competing_risks, surv
from sksurvgpu.data.design.columns import INDICATOR, Design, build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.datasets import simulate_ehr
from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.patterns.carried.plan import plan_competing
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.solver.problem import Problem

DENSITY, ZERO_SHARE = 0.05, 0.8
RATE, CENSORING = 0.02, 500.0
COLUMNS_A_TASK = 16


def n_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class Data(NamedTuple):
    """A sparse matrix of ones and an outcome, as users have them and as the solver takes them."""

    X: sp.csc_array
    y: np.ndarray
    design: Design
    outcome: Outcome


@lru_cache(maxsize=1)
def draw_design(n, p, seed=0):
    """Independent indicators, and the predictor of coefficients of which four in five are zero."""
    starts = range(0, p, COLUMNS_A_TASK)

    def draw(start):
        rng = np.random.default_rng([seed, start])
        return [_draw_rows(rng, n) for _ in range(start, min(start + COLUMNS_A_TASK, p))]

    with ThreadPoolExecutor(n_cores()) as pool:
        columns = [rows for part in pool.map(draw, starts) for rows in part]
    indptr = np.concatenate([[0], np.cumsum([len(rows) for rows in columns])])
    nothing = np.zeros(p, np.int64)
    indices = np.concatenate(columns)
    design = Design(n, np.full(p, INDICATOR, np.uint8), indptr, indices, np.empty(0), nothing)
    rng = np.random.default_rng([seed, p])
    coef = rng.normal(size=p)
    coef[rng.permutation(p)[: round(ZERO_SHARE * p)]] = 0.0
    return design, design.dot(coef)


def _draw_rows(rng, n):
    """Sorted rows of a column's ones, by their gaps."""
    expected = n * DENSITY
    gaps = rng.geometric(DENSITY, int(expected + 6.0 * np.sqrt(expected) + 10.0))
    rows = np.cumsum(gaps) - 1
    return rows[: np.searchsorted(rows, n)].astype(np.int32)


def _matrix(design):
    ones = np.ones(len(design.indices), np.bool_)
    shape = design.n_rows, design.n_columns
    return sp.csc_array((ones, design.indices, design.indptr.astype(np.int32)), shape=shape)


def cox_data(n, p, n_strata=1, seed=0):
    """The papers' design: exponential times, uniform censoring, ties broken."""
    design, eta = draw_design(n, p, seed)
    rng = np.random.default_rng([seed, 1])
    time = 1.0 + np.round(rng.exponential(size=n) * np.exp(-eta) / RATE)
    censored = 1.0 + np.round(rng.uniform(0.0, CENSORING, n))
    event = time < censored
    time = np.minimum(time, censored) + 0.001 * rng.normal(size=n)
    stratum = None if n_strata == 1 else rng.integers(n_strata, size=n)
    if stratum is not None:  # numbers without gaps
        stratum = np.unique(stratum, return_inverse=True)[1].astype(np.int64)
    y = surv(event, time, stratum=stratum)
    return Data(_matrix(design), y, design, Outcome(event, time, None, stratum))


def fine_gray_data(n, p, seed=0):
    """Fine and Gray's subdistribution, with a competing event of opposite effects."""
    design, eta = draw_design(n, p, seed)
    rng = np.random.default_rng([seed, 2])
    first = rng.exponential(size=n) * np.exp(-eta)
    second = rng.exponential(size=n) * np.exp(eta)
    is_first = first < np.log(2.0)  # an incidence of one half
    share = np.minimum(-2.0 * np.expm1(-first), 1.0 - 1e-12)
    time = np.where(is_first, -np.log1p(-np.where(is_first, share, 0.0)), second)
    censored = rng.random(n)
    status = np.where(time <= censored, np.where(is_first, 1, 2), 0).astype(np.uint8)
    time = np.minimum(time, censored)
    outcome = Outcome(status == 1, time, status=status)
    return Data(_matrix(design), competing_risks(status, time), design, outcome)


def cox_problem(n, p, n_strata=1, seed=0):
    data = cox_data(n, p, n_strata, seed)
    return _build(data.design, plan_rows(data.outcome), "cox")


def fine_gray_problem(n, p, seed=0):
    data = fine_gray_data(n, p, seed)
    return _build(data.design, plan_competing(data.outcome), "fine_gray")


def ehr_problem(n, p, seed=0):
    """Health records: clustered, near-duplicated indicators."""
    data = simulate_ehr(n, p, random_state=seed)
    plan = plan_rows(Outcome(data.y["event"], data.y["time"]))
    return _build(build_design(data.X), plan, "cox")


def _build(design, plan, likelihood):
    return Problem.build(design, plan, LIKELIHOODS[likelihood](), n_threads=n_cores())


def problem_of(name, sizes):
    """Problem by a name such as "cox 1e6 x 1000", "strata 50, 1e6 x 1000", and its penalty.

    `sizes` shrinks it; None: more nonzeros than they allow.
    """
    what, n, p = read_name(name, sizes)
    if n * p * DENSITY > sizes.most_nonzeros:
        return None
    if what.startswith("strata"):
        return cox_problem(n, p, min(int(what.split()[1]), n // 2))
    makers = {"fine-gray": fine_gray_problem, "ehr": ehr_problem}
    return makers.get(what, cox_problem)(n, p)


def read_name(name, sizes):
    """Kind, rows and columns of a problem's name."""
    what, _, size = name.rpartition(", ") if ", " in name else name.partition(" ")
    n, p = (int(float(part)) for part in size.split(" x "))
    return what, max(n // sizes.shrink, 60), sizes.width or p


def describe(problem):
    plan = problem.plan
    counts = {"rows": plan.n_rows, "cells": plan.n_cells, "strata": plan.n_strata}
    counts |= {"columns": problem.n_columns, "nonzeros": len(problem.given.indices)}
    return {name: int(count) for name, count in counts.items()}


def bytes_of(problem):
    """Of X once, and of an evaluation: every number of a row and of an event time once.

    Row: eta, weight, outcome, u (8 each), cell (4), live and flag (1 each).  Cell: deaths, their
    weight, risk sum, jump and hazard (8 each), a flag.
    """
    plan, entries = problem.plan, len(problem.given.indices)
    return {"X": 2 * entries, "evaluation": 38 * plan.n_rows + 41 * plan.n_cells}


class AbsentError(Exception):
    """This version of the package has no such choice."""


@contextmanager
def setting(module, **values):
    """Constants of a module, given other values."""
    try:
        found = import_module(f"sksurvgpu.{module}")
        own = {name: getattr(found, name) for name in values}
    except (ImportError, AttributeError) as error:
        raise AbsentError(str(error)) from error
    vars(found).update(values)
    try:
        yield
    finally:
        vars(found).update(own)


@contextmanager
def layout_of(**given):
    """Layouts with other threads of a block or rows of a range."""
    from sksurvgpu.backends import cuda
    from sksurvgpu.backends.cuda.layout import Layout

    own = cuda.Layout
    cuda.Layout = partial(Layout, **given)
    try:
        yield
    finally:
        cuda.Layout = own


@contextmanager
def no_matrices():
    """Fits have none, on any backend: a diagonal and what they learn."""
    from sksurvgpu.solver import costs

    own, costs.most_columns = costs.most_columns, lambda room: 0
    try:
        yield
    finally:
        costs.most_columns = own


@contextmanager
def only_matrices():
    """Fits on a device have a matrix from the beginning."""
    from sksurvgpu.backends.cuda.session import Session

    own = Session.room
    Session.room = lambda self, fits: [
        one._replace(bases=("matrix",), counts=False) for one in own(self, fits)
    ]
    try:
        yield
    finally:
        Session.room = own
