"""Fit, validate and report once, for every penalized model.

A model is a subclass that says how its outcome is read and its problem is built (`_read_outcome`,
`_build`), which arguments its ``fit`` takes, and what can be predicted from it. All other behaviour
is here. A fit goes

    _prepare (checks, Problem) -> Prepared.solve -> _adopt (fitted attributes)

and a path or a cross-validation calls the same three with more penalties or weights. The estimator
itself changes in the last step only, so that a fit that fails leaves the one before it whole.

Penalties, gradients and objectives are sums inside the solver; public ones are divided by the sum
of the weights.
"""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..backends import BACKENDS, choose, explain
from ..data.bounds import check_bounds
from ..data.by_column import check_l1_ratio, check_penalty_factor, check_prior_mean
from ..data.checks import check_offset, check_sample_weight, count_events, refuse_weightless
from ..data.design.columns import Design
from ..data.design.units import check_magnitudes
from ..exceptions import NothingSelectedWarning
from ..partitions.handles import check_near, is_far
from ..penalties import BY_NAME, Given, PenaltySpec
from ..routes import IN_ROWS, PLAIN, Shifted
from ..solver.fits import Fits, Options
from ..solver.problem import Batch, Problem
from ..solver.solve import Solution
from . import _pipelines  # noqa: F401 (pipelines learn to predict risks)
from ._by_parts import predict_here
from ._columns import check_columns, feature_names, read_columns
from ._composition import check_composition
from ._estimator import Estimator
from ._log_likelihood import check_arguments, log_likelihood_of
from ._outline import Outline
from ._prepared import Prepared, count_threads
from ._relaxed import check_share, require_refit
from ._report import (
    MOST_NAMES,
    explain_empty,
    explain_failure,
    fit_card,
    name_infinite,
    table_of,
)

__all__ = ["MOST_NAMES", "PenalizedModel", "around_means"]


class PenalizedModel(Estimator):
    """Base of the estimators; see `CoxLassoCCD` for the meaning of the parameters."""

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both"), dict, "array-like"],
        "penalty_factor": [dict, "array-like", None],
        "bounds": [dict, tuple, list, None],
        "prior_mean": [dict, "array-like", None],
        "penalty": [PenaltySpec, StrOptions(set(BY_NAME)), None],
        "relax": [Interval(Real, 0, 1, closed="both"), None],
        "algorithm": [StrOptions({"majorized", "exact"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "backend": [StrOptions(BACKENDS.keys())],
        "precision": [StrOptions({"float64", "float32"})],
        "device": [Interval(Integral, 0, None, closed="left"), list, StrOptions({"all"})],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    # What belongs to the rows of a model as its outcome does is requested unless a user says
    # otherwise; models with more of it than weights and offset say so.
    __metadata_request__fit = {"sample_weight": True, "offset": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012

    _effect: str | None = None  # what exp(coef) is called, where it is a ratio
    _has_dispersion = False  # whether the variance of the outcome is a parameter of its own
    _counts_rows = False  # whether a mean of scores is over rows, and not over events
    _clusters = "subject"  # what of the outcome names rows that are not independent, if it has it

    def __init__(
        self,
        *,
        alpha=0.01,
        l1_ratio=1.0,
        penalty_factor=None,
        bounds=None,
        prior_mean=None,
        penalty=None,
        relax=None,
        algorithm="majorized",
        tol=1e-6,
        max_iter=1000,
        warm_start=False,
        backend="auto",
        precision="float64",
        device=0,
        n_jobs=None,
        verbose=0,
    ):
        self._keep(locals())

    # -- what a model says about itself -------------------------------------------------------
    def _read_outcome(self, y, n_rows: int, **given) -> Any:
        """Check the outcome, and what else `fit` was given that belongs to it."""
        raise NotImplementedError

    def _check_weight(self, sample_weight, outcome) -> np.ndarray | None:
        """Check the row weights."""
        return check_sample_weight(sample_weight, outcome.n_rows, outcome.event)

    def _outline(self, n_columns: int, names, outcome=None) -> Outline:
        """What the problem is, apart from its rows."""
        raise NotImplementedError

    @classmethod
    def _reader(cls) -> type:
        """Class that reads rows elsewhere as this one does here."""
        return cls

    def _tell(self, outcome, weight) -> dict[str, np.ndarray]:
        """What a part of the rows tells of itself, for `_agree`."""
        return {"events": count_events(outcome.event, weight)}

    def _agree(self, told: list[dict[str, np.ndarray]], n_rows: int) -> dict[str, Any]:
        """What parts must know of each other, given what they tell; refuses what lacks a whole."""
        n_events, n_counted = np.sum([part["events"] for part in told], axis=0)
        if n_events and not n_counted:
            refuse_weightless(n_events)
        return {}

    def _of_parts(self, problem, terms, agreed, told) -> dict[str, Any]:
        """Attributes that predictions will need, as `_build` gives them of rows that are here."""
        return {}

    def _join(self, outcome, weight, agreed: dict[str, Any]) -> tuple[Any, np.ndarray | None]:
        """Outcome and weights of a part, given what the parts agreed on."""
        return outcome, weight

    def _build(self, design: Design, outcome, weight) -> tuple[Problem, dict[str, Any]]:
        """Build the problem, and the attributes that predictions will need."""
        raise NotImplementedError

    # -- fitting ------------------------------------------------------------------------------
    def _fit(self, X, y, sample_weight, offset, **given):
        """Body of every `fit`."""
        with closing(self._prepare(X, y, sample_weight, offset, **given)) as prepared:
            [solution] = prepared.solve([self.alpha])[0]
            require_refit(self, prepared, solution)
            self._adopt(prepared, solution)
            doubts = self._doubts(prepared, solution)
        self._warn(doubts)
        if not doubts:  # of a fit that can be trusted
            self._warn(explain_empty(self), category=NothingSelectedWarning)
        return self

    def _doubts(self, prepared: Prepared, solution: Solution) -> list[str]:
        """What to warn of after a fit that was adopted."""
        doubts = [] if solution.converged else [explain_failure(self, solution)]
        return doubts + name_infinite(self) + prepared.doubts_of(self, solution)

    def _warn(self, doubts: list[str], stacklevel=5, category=ConvergenceWarning):
        """Warn the caller of `fit`: its decorator, `_fit` and this lie between."""
        if doubts:
            warnings.warn(" ".join(doubts), category, stacklevel=stacklevel)

    def _prepare(self, X, y, sample_weight=None, offset=None, n_fits=1, **given) -> Prepared:
        """Check the input and build the problem; `n_fits` are how many will be asked for."""
        if is_far(X):
            from ._partitioned import prepare

            return prepare(self, X, y, sample_weight, offset, given)
        check_near(X, y=y, sample_weight=sample_weight, offset=offset, **given)
        n_threads = count_threads(self.n_jobs)
        self._choose_backend(self.backend)  # what cannot run is an error before any work
        design, columns = read_columns(self, X)
        work = n_fits * design.n_entries
        served_by = explain(self.backend, work, self._devices(), self.algorithm)
        check_magnitudes(design)
        assembled = self._assemble(design, y, sample_weight, offset, given)
        outcome, problem, batch, by_column, of_model = assembled
        route = self._route(by_column)
        batch = replace(batch, coef=self._start(problem.n_columns))
        backend = self._choose_backend(served_by[0])
        options = Options(float(self.tol), int(self.max_iter), self.algorithm, int(self.verbose))
        prepared = Prepared(
            Fits(problem, batch, backend, options, n_threads),
            outcome,
            served_by=route.serves(served_by),
            columns=columns,
            of_model=of_model,
            given=by_column,
            route=route,
            plain_route=around_means(PLAIN, by_column),
            gamma=self._gamma(),
        )
        self._spec().check(prepared)
        return prepared.with_null() if batch.penalty.needs_null else prepared

    def _assemble(self, design, y, sample_weight, offset, given):
        """Outcome, problem, batch without strengths, `Given`, and what predictions will need."""
        outcome = self._read_outcome(y, design.n_rows, **given)
        weight = self._check_weight(sample_weight, outcome)
        offset = check_offset(offset, design.n_rows)
        exposure = getattr(outcome, "offset", None)
        if exposure is not None:
            offset = exposure if offset is None else exposure + offset
        problem, of_model = self._build(design, outcome, weight)
        by_column = self._read_by_column(design, problem.source)
        batch = Batch(
            lambdas=np.empty((0, 1)),
            penalty=self._spec().family(by_column),
            factor=by_column.factor[problem.source],
            weight=None if weight is None else weight[:, None],
            offset=None if offset is None else offset[:, None],
        )
        return outcome, problem, batch, by_column, of_model

    def _read_by_column(self, design, source) -> Given:
        """Check what was given by column, and that the penalty goes with it."""
        check_composition(self)
        shape = design.n_columns, design.names
        mean = check_prior_mean(self.prior_mean, *shape)
        return Given(
            source=source,
            names=design.names,
            factor=check_penalty_factor(self.penalty_factor, *shape),
            l1_ratio=check_l1_ratio(self._l1_ratio(), *shape),
            bounds=check_bounds(self.bounds, *shape, mean),
            prior_mean=mean,
        )

    def _l1_ratio(self):
        return self.l1_ratio

    def _spec(self) -> PenaltySpec:
        if isinstance(self.penalty, str):
            return BY_NAME[self.penalty]()
        return PenaltySpec() if self.penalty is None else self.penalty

    def _route(self, given):
        """How fits are carried out."""
        return around_means(self._spec().route(given, IN_ROWS), given)

    def _gamma(self):
        """Share of the penalized fit in a relaxed one, or None."""
        return None if self.relax is None else check_share(self.relax)

    def _choose_backend(self, name):
        return choose(name, self.precision, self._devices())

    def _devices(self):
        return int(self.device) if isinstance(self.device, Integral) else self.device

    def _start(self, n_coef):
        """Coefficients of the previous fit, where they are wanted and fit."""
        previous = getattr(self, "coef_", None)
        if not self.warm_start or previous is None or len(previous) != n_coef:
            return None
        return previous[:, None]

    def _adopt(self, prepared: Prepared, solution: Solution) -> None:
        """Set all fitted attributes."""
        self._adopt_data(prepared)
        self._adopt_solution(solution)
        self._replace_attributes("_of_costs", prepared.costs())
        self.null_log_likelihood_ = prepared.null_log_likelihood(solution)
        is_free = np.isin(np.arange(len(self.coef_)), self._penalized(), invert=True)
        self.infinite_, n_constant = prepared.find_directions(is_free, solution.coef)
        self.infinite_ |= prepared.find_unheld(solution)
        if not len(self._penalized()):  # a likelihood-ratio test counts these
            self._n_constant = n_constant

    def _adopt_data(self, prepared: Prepared) -> None:
        """Set the attributes that depend on the data alone: a solution makes it a fit."""
        self._set_columns(prepared.columns)
        self.__dict__.update(prepared.of_model)
        self.backend_, self.backend_reason_ = prepared.served_by
        self._total_weight, self._n_rows = prepared.total_weight, prepared.n_weighted
        self._fingerprint = prepared.fingerprint
        self._factor: Any = prepared.batch.factor
        self._family: Any = prepared.batch.penalty

    def _adopt_solution(self, solution: Solution) -> None:
        """Set the attributes that depend on the penalty, on the mean scale."""
        scale = 1.0 / self._total_weight
        self._penalty = solution.lam * scale  # alpha, which may be set to another one later
        self.coef_ = solution.coef.copy()
        self.alpha_max_ = solution.lam_max * scale
        self.objective_ = solution.objective * scale
        self.log_likelihood_ = solution.loglik
        self.kkt_ = solution.kkt * scale
        self.kkt_se_ = solution.score
        self.kkt_se_bound_ = solution.allowed
        self.dual_gap_ = solution.gap * scale
        self.n_iter_ = solution.n_iter
        self.converged_ = bool(solution.converged)
        self._replace_attributes("_of_route", solution.of_route)

    def _replace_attributes(self, kept, values):
        """Set attributes in place of those of the fit before, whose names are `kept`."""
        for name in getattr(self, kept, ()):
            self.__dict__.pop(name, None)
        setattr(self, kept, tuple(values))
        self.__dict__.update(values)

    def _penalized(self) -> np.ndarray:
        """Coefficients that were penalized in the fit, whatever the parameters are now."""
        return np.flatnonzero(self._penalty * self._factor)

    # -- predicting ---------------------------------------------------------------------------
    def _read_features(self, X) -> Design:
        """Check the columns of X against those of the fit."""
        return check_columns(self, X)

    def log_likelihood(self, X, y, *, mean=False, **fit_params) -> float:
        """Log-likelihood of rows by themselves at the fitted coefficients; higher is better.

        Parameters
        ----------
        X : scipy sparse matrix, ndarray, DataFrame or Design, of shape (n_samples, n_features)
            Covariates.
        y : ndarray of shape (n_samples,)
            Outcome, as ``fit`` takes it. Subjects, strata and matched sets should be whole.
        mean : bool, default=False
            Divide it by the weighted number of events, or of rows in logistic and linear models.
        **fit_params : array-like of shape (n_samples,), optional
            What else ``fit`` takes for rows, such as `sample_weight`, `strata` or `offset`.

        Returns
        -------
        log_likelihood : float
            0 where no rows can be compared.
        """
        check_arguments(self, fit_params, "log_likelihood")
        total, size = log_likelihood_of(self, X, y, fit_params)
        return total / size if mean and size else total

    def _predict_linear(self, X) -> np.ndarray:
        if is_far(X):
            return predict_here(self, PenalizedModel._predict_linear, X)
        return self._read_features(X).dot(self.coef_)

    def _predictors_of(self, design: Design, coef) -> np.ndarray:
        """Linear predictor of every row in each piece of the time axis."""
        return design.dot(coef)[:, None]

    def summary(self, intervals=None):
        """Table of coefficients.

        Parameters
        ----------
        intervals : object with intervals, optional
            Result for this fit, of `wald`, `bootstrap` or `profile_likelihood`, whose bounds are
            added; NaN for coefficients that it does not have. The bounds of `profile_likelihood`
            are those of a coefficient without its penalty: where the fit penalizes it, ``coef`` is
            still the fit's, and may lie outside of them.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by the name of its column: ``coef``, ``lower`` and
            ``upper`` where there are intervals, and, where exp(coef) is a ratio of hazards, odds
            or rates, the same of that ratio. Where some coefficient is infinite, a last column
            ``is_infinite`` says which: their ``coef`` is what was reached when the fit stopped.
        """
        check_is_fitted(self)
        return table_of(self, intervals)

    def _get_fitted_attr_html(self, doc_link=""):
        """scikit-learn's table of fitted attributes (from 1.9 on, which calls this), below ours."""
        attributes = super()._get_fitted_attr_html(doc_link)
        table_of_sklearn = attributes._html_repr
        attributes._html_repr = lambda: fit_card(self) + table_of_sklearn()
        return attributes

    def _coef_names(self) -> list[str]:
        return [str(name) for name in self._feature_names()]

    def _feature_names(self) -> np.ndarray:
        return feature_names(self)


def around_means(route, given):
    """A route, or where there are prior means what leads to it around them."""
    return route if given.prior_mean is None else Shifted(route, given.prior_mean)
