"""The engine as the tests call it: data, problem, one evaluation, one fit.

Only this file knows how a problem is put together and what a CPU session is made of.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from oracles.reference_likelihoods import cox_direct, kkt, penalty

from sksurvgpu.backends import cpu
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.likelihoods.cox import Cox
from sksurvgpu.patterns.risk_sets import plan as row_plans
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch, Problem


@dataclass(frozen=True)
class Data:
    """One survival data set; None where something takes no part."""

    X: object
    time: np.ndarray
    event: np.ndarray
    start: np.ndarray | None = None
    strata: np.ndarray | None = None
    weights: np.ndarray | None = None
    offset: np.ndarray | None = None

    @property
    def n(self):
        return len(self.time)

    def rows(self, keep):
        """The data set made of the given rows."""
        fields = ("X", "time", "event", "start", "strata", "weights", "offset")
        kept = {f: None if getattr(self, f) is None else getattr(self, f)[keep] for f in fields}
        return Data(**kept)

    def with_(self, **changes):
        return replace(self, **changes)

    @property
    def sample_weight(self):
        return np.ones(self.n) if self.weights is None else self.weights


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X, float)


def reference(data, eta, ties="breslow"):
    """The oracle's evaluation."""
    eta = np.asarray(eta)
    return cox_direct(eta, data.time, data.event, data.start, data.strata, data.weights, ties)


def reference_at(data, coef, ties="breslow"):
    """The oracle's evaluation at coefficients."""
    eta = dense(data.X) @ coef
    return reference(data, eta if data.offset is None else eta + data.offset, ties)


def outcome(data):
    stratum = None
    if data.strata is not None:
        stratum = np.unique(data.strata, return_inverse=True)[1].astype(np.int64)
    time = np.ascontiguousarray(data.time, dtype=float)
    start = None if data.start is None else np.ascontiguousarray(data.start, dtype=float)
    return Outcome(np.asarray(data.event).astype(bool), time, start, stratum)


def make_problem(data, ties="breslow", cuts=(), source=None, piece_ptr=None, n_threads=1):
    plan = plan_rows(outcome(data), cuts)
    return Problem.build(build_design(data.X), plan, Cox(ties), source, piece_ptr, n_threads)


def open_session(problem, data, coef, n_threads=1):
    """Session of one fit and the log-likelihood at coefficients (missing ones: 0)."""
    full = np.zeros(problem.n_columns)
    full[: len(coef)] = coef
    session = Session(problem, data.weights, data.offset, Threads(n_threads), ElasticNet.formulas)
    return session, session.start(full)


def open_rows(data, eta, ties="breslow", **kwargs):
    """Session whose columns are the rows themselves, evaluated at eta: (session, loglik).

    Its coefficients are the predictor and its gradient is u, both in the caller's order.
    """
    problem = make_problem(data.with_(X=sp.eye_array(data.n, format="csc")), ties, **kwargs)
    return open_session(problem, data, eta)


def gradient(session):
    """Gradient in all columns, at the last evaluation."""
    return session.gradient(np.arange(session.n_columns))


def curvature_by_row(data, eta, ties="breslow"):
    """h of the quadratic model in the caller's order."""
    session, _ = open_rows(data, np.broadcast_to(eta, data.n), ties)
    return session.curvature(np.arange(data.n))[0][:, 1]


BINS = ("every death", "few", "one a stratum")


def use_bins(kind, monkeypatch):
    """Have problems built from here on take bins of one kind, whatever their size."""
    limits = {
        "every death": {"SMALL_ROWS": 10**9, "SMALL_DEATHS": 10**9},
        "few": {"SMALL_ROWS": 0, "FEW_BINS": 10**9},
        "one a stratum": {"SMALL_ROWS": 0, "FEW_BINS": 0},
    }
    for name, value in limits[kind].items():
        monkeypatch.setattr(row_plans, name, value)


def column(values):
    return None if values is None else np.asarray(values)[:, None]


BASES = ("diagonal", "sample", "matrix")


def use_model(base, monkeypatch):
    """Have fits take one base of the quadratic model, whatever it costs."""
    kept = {"bases": (base,), "counts": False}
    room = Session.room
    monkeypatch.setattr(Session, "room", lambda session: room(session)._replace(**kept))


def make_batch(data, lam, l1_ratio=1.0, **kwargs):
    """Batch of one fit."""
    lambdas, rows = np.atleast_1d(np.asarray(lam, float))[:, None], (data.weights, data.offset)
    weight, offset = map(column, rows)
    kwargs.setdefault("penalty", ElasticNet(l1_ratio))
    return Batch(lambdas, weight=weight, offset=offset, **kwargs)


def fit_path(data, lam, ties="breslow", *, options=None, n_threads=1, problem=None, **kwargs):
    """Solutions of one fit, one a penalty; ``tol`` and the like by name."""
    batch_args = {k: kwargs.pop(k) for k in ("l1_ratio", "factor", "coef", "fixed") if k in kwargs}
    if problem is None:
        problem = make_problem(data, ties, n_threads=n_threads)
    batch = make_batch(data, lam, **batch_args)
    return Fits(problem, batch, cpu, options or Options(**kwargs), n_threads).solve()[0]


def fit(data, lam, ties="breslow", **kwargs):
    """One fit at one penalty."""
    return fit_path(data, lam, ties, **kwargs)[0]


def objective(data, coef, lam, ties="breslow", l1_ratio=1.0, factor=1.0):
    """The oracle's objective."""
    return penalty(coef, lam, l1_ratio, factor) - reference_at(data, coef, ties).loglik


def largest_gradient(data, ties="breslow"):
    """Largest entry of the gradient at zero: the unit of `tol` where no column is free."""
    return np.abs(dense(data.X).T @ reference_at(data, np.zeros(data.X.shape[1]), ties).u).max()


def violation(data, coef, lam, ties="breslow", l1_ratio=1.0, factor=1.0):
    """The oracle's KKT violation, per column."""
    u = reference_at(data, coef, ties).u
    return kkt(dense(data.X), u, coef, lam, l1_ratio, factor)


def draw_outcome(rng, n, *, n_times=None, start=False, n_strata=0, weights=False, offset=False):
    """Data without X: times on a grid of `n_times` where ties are wanted, some weights zero."""
    time = rng.exponential(size=n)
    if n_times is not None:
        time = 1.0 + np.floor(n_times * time / time.max() * 0.999)
    event = rng.random(n) < 0.6
    event[:2] = True
    begin = None
    if start:
        begin = time * rng.random(n) * 0.8
        if n_times is not None:
            begin = np.minimum(np.floor(begin), time - 1.0)  # entries coincide with event times
    weight = rng.choice([0.0, 0.5, 1.0, 3.3], size=n) if weights else None
    if weights:
        weight[:2] = 1.0
    return Data(
        X=None,
        time=time,
        event=event,
        start=begin,
        strata=rng.integers(0, n_strata, size=n) if n_strata else None,
        weights=weight,
        offset=rng.normal(size=n) if offset else None,
    )


def draw_design(rng, n, p, kind):
    """X of one kind of columns, or of all of them."""
    if kind == "indicator":
        return sp.csc_array((rng.random((n, p)) < 0.15).astype(float))
    if kind == "valued":
        return sp.csc_array(rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.2))
    if kind == "dense":
        return rng.normal(size=(n, p))
    mixed = rng.normal(size=(n, p))
    mixed[:, ::3] = rng.random((n, len(range(0, p, 3)))) < 0.15
    mixed[:, 1::3] *= rng.random((n, len(range(1, p, 3)))) < 0.2
    return mixed
