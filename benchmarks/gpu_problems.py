"""Large problems drawn fast: sparse indicators on all cores, outcomes by the published designs."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from sksurvgpu.data.design.columns import INDICATOR, Design, build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.data.plans.carried import plan_competing
from sksurvgpu.data.plans.rows import plan_rows
from sksurvgpu.datasets import simulate_ehr
from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.solver.problem import Problem

DENSITY, ZERO_SHARE = 0.05, 0.8
RATE, CENSORING = 0.02, 500.0
COLUMNS_A_TASK = 16


def n_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


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


def cox_problem(n, p, n_strata=1, seed=0):
    """The papers' design: exponential times, uniform censoring, ties broken."""
    design, eta = draw_design(n, p, seed)
    rng = np.random.default_rng([seed, 1])
    time = 1.0 + np.round(rng.exponential(size=n) * np.exp(-eta) / RATE)
    censored = 1.0 + np.round(rng.uniform(0.0, CENSORING, n))
    event = time < censored
    time = np.minimum(time, censored) + 0.001 * rng.normal(size=n)
    stratum = None if n_strata == 1 else _labels(rng, n, n_strata)
    return _build(design, plan_rows(Outcome(event, time, None, stratum)), "cox")


def _labels(rng, n, n_strata):
    """Numbers of strata, without gaps."""
    labels = rng.integers(n_strata, size=n)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def fine_gray_problem(n, p, seed=0):
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
    outcome = Outcome(status == 1, np.minimum(time, censored), status=status)
    return _build(design, plan_competing(outcome), "fine_gray")


def ehr_problem(n, p, seed=0):
    """Health records: clustered, near-duplicated indicators."""
    data = simulate_ehr(n, p, random_state=seed)
    plan = plan_rows(Outcome(data.y["event"], data.y["time"]))
    return _build(build_design(data.X), plan, "cox")


def _build(design, plan, likelihood):
    return Problem.build(design, plan, LIKELIHOODS[likelihood](), n_threads=n_cores())


def describe(problem):
    plan = problem.plan
    return {
        "rows": int(plan.n_rows),
        "columns": int(problem.n_columns),
        "nonzeros": len(problem.design.indices),
        "cells": int(plan.n_cells),
        "strata": int(plan.n_strata),
    }
