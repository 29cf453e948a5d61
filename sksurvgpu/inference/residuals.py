"""Residuals of fits."""

from collections.abc import Callable

import numpy as np

from ..data import options
from ..estimators.competing import FineGrayCCD
from ..estimators.survival import CoxLassoCCD
from ..information.inverse import Inverse
from ..information.views import View, view_of
from ..patterns.risk_sets.information import RiskSetView
from ..patterns.subsets.information import SubsetView
from ._covariance import invert_information
from ._row_residuals import KINDS_OF_ROWS, deviance_of
from ._rows import documented, open_fit, open_rows, require_unpenalized

OF_APPROXIMATIONS = (
    ", whose exact likelihood has no terms for parts of a set. The others are those of fits with "
    'ties="efron" or "breslow", which is the same model where each set has one case'
)


@documented
def residuals(estimator, X, y, kind=None, **fit_params) -> np.ndarray:
    """Residuals of a fit.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        Fitted estimator.
    <<rows_of_fit>>
    kind : str, optional
        Of Cox and Fine-Gray models, and of conditional logistic ones with approximate ties:
        "martingale" (the default), "deviance", "score", "schoenfeld", "scaled_schoenfeld" or
        "dfbeta"; of exact ones the first two. Of logistic, Poisson and linear models, conditional
        Poisson models and case series: "deviance" (the default), "pearson", "response",
        "working", "score" or "dfbeta". "scaled_schoenfeld" and "dfbeta" only for fits without a
        penalty.
    <<more_of_fit>>

    Returns
    -------
    residuals : ndarray
        A number a row, but for score residuals and dfbeta a row of n_coef numbers, in the order of
        the rows of X; NaN for rows of weight 0. Schoenfeld residuals have a row for each event (of
        interest) of positive weight, in the order of strata and time; events that are tied, in the
        order of X.

    Notes
    -----
    The conventions are those of R's ``residuals.coxph`` and ``residuals.glm``: of models of events,
    residuals do not count the row's own weight, except for dfbeta, the approximate change of the
    coefficients when the row is left out; of models without time, Pearson and deviance residuals
    are in units of the row's standard deviation, with its weight, and dfbeta is one step of
    Newton's method, which in a linear model is the change itself. Those of a Fine-Gray fit are the
    sums over a person's rows in the expanded data of R's ``survival::finegray``, those of counts
    within groups, of a Poisson model with an intercept for each group.

    With coefficients that change over time, only martingale and deviance residuals exist: those
    of a row over all of its time.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, residuals
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> martingale = residuals(model, data.X, data.y)
    >>> bool(abs(martingale.sum()) < 1e-6)
    True
    >>> residuals(model, data.X, data.y, kind="dfbeta").shape
    (1000, 4)
    """
    estimator, X = open_fit(estimator, X)
    if kind is not None and not isinstance(kind, str):
        raise TypeError(f'`kind` is {kind!r}; pass one string, such as "deviance", or None.')
    if kind in _UNPENALIZED:
        require_unpenalized(estimator, f'kind="{kind}"', 'Take kind="score", or another.')
    rows = open_rows(estimator, X, y, fit_params)
    view = view_of(rows)
    compute, needs_inverse = _find_kind(view, kind)
    if rows.plan.n_pieces > 1 and compute not in (_martingale, _deviance):
        raise ValueError(
            f'kind="{kind}" has no meaning for coefficients that change over time '
            '(time_varying); take kind="martingale" or "deviance".'
        )
    return compute(view, invert_information(view)) if needs_inverse else compute(view)


def _find_kind(view: View, kind) -> tuple[Callable[..., np.ndarray], bool]:
    """Function of a kind, and whether it takes the inverse of the information."""
    kinds = KINDS_OF_ROWS
    if isinstance(view, RiskSetView):
        kinds = _KINDS
    elif isinstance(view, SubsetView):
        kinds = _KINDS_OF_SUBSETS
    kind = next(iter(kinds)) if kind is None else kind
    hint = f". {_NAMES_IN_R[kind].removesuffix('.')}" if kind in _NAMES_IN_R else ""
    if kinds is _KINDS_OF_SUBSETS and kind in _KINDS:
        hint = OF_APPROXIMATIONS
    options.choice(kind, "kind", kinds, f" for a {type(view.rows.estimator).__name__}{hint}")
    return kinds[kind]


def open_survival_fit(estimator, what, *tables) -> tuple:
    """The fitted model of survival that a pipeline ends in, and tables as it takes them."""
    opened = open_fit(estimator, *tables)
    if not isinstance(opened[0], CoxLassoCCD | FineGrayCCD):
        raise TypeError(
            f"`estimator` is a {type(opened[0]).__name__}, which has no {what}; pass a fitted "
            "CoxLassoCCD or FineGrayCCD."
        )
    return opened


def _martingale(view: RiskSetView) -> np.ndarray:
    observed = view.state.event - view.expected(view.atoms.weight)
    observed[view.rows.weight == 0] = np.nan
    return view.rows.per_row(observed)


def _deviance(view: RiskSetView) -> np.ndarray:
    return deviance_of(_martingale(view), view.rows.per_row(view.state.event.astype(np.float64)))


def _excess(view: SubsetView) -> np.ndarray:
    """Whether a row is a case, less its probability."""
    rows = view.rows
    return rows.per_row(rows.session.u / np.where(rows.weight > 0, rows.weight, np.nan))


def _deviance_of_subsets(view: SubsetView) -> np.ndarray:
    return deviance_of(_excess(view), view.rows.per_row(view.rows.plan.value))


def _scores(view: RiskSetView) -> np.ndarray:
    rows = view.rows
    out = np.empty((rows.plan.n_rows, rows.n_coef))
    for columns in rows.blocks(4 * rows.plan.n_rows):
        out[:, columns] = view.unit_scores(view.centred(columns))
    out[rows.weight == 0] = np.nan
    return rows.per_row(out)


def _dfbeta(view: RiskSetView, inverse: Inverse) -> np.ndarray:
    weight = view.rows.given_weight
    change = _scores(view) @ inverse.matrix
    change[:, ~inverse.identified] = np.nan
    return change if weight is None else change * weight[:, None]


def schoenfeld_of(view: RiskSetView) -> np.ndarray:
    """Schoenfeld residuals of all columns."""
    rows, n_events = view.rows, np.count_nonzero(view.state.event)
    out = np.empty((n_events, rows.n_coef))
    for columns in rows.blocks(3 * rows.plan.n_rows):
        out[:, columns] = view.schoenfeld(view.centred(columns))
    return out


def scale_schoenfeld(schoenfeld, inverse: Inverse, coef) -> np.ndarray:
    """Scale Schoenfeld residuals so that their mean over time is the coefficient."""
    scaled = schoenfeld @ (len(schoenfeld) * inverse.matrix)
    scaled += inverse.move(coef)
    scaled[:, ~inverse.identified] = np.nan
    return scaled


def _scaled_schoenfeld(view: RiskSetView, inverse: Inverse) -> np.ndarray:
    return scale_schoenfeld(schoenfeld_of(view), inverse, view.rows.estimator.coef_)


# Kind -> (its function, whether it takes the inverse of the information).
_KINDS: dict[str, tuple[Callable[..., np.ndarray], bool]] = {
    "martingale": (_martingale, False),
    "deviance": (_deviance, False),
    "score": (_scores, False),
    "schoenfeld": (schoenfeld_of, False),
    "scaled_schoenfeld": (_scaled_schoenfeld, True),
    "dfbeta": (_dfbeta, True),
}
_KINDS_OF_SUBSETS: dict[str, tuple[Callable[..., np.ndarray], bool]] = {
    "martingale": (_excess, False),
    "deviance": (_deviance_of_subsets, False),
}
_UNPENALIZED = ("scaled_schoenfeld", "dfbeta")
_NAMES_IN_R = {
    "scaledsch": "What R calls 'scaledsch' is 'scaled_schoenfeld' here.",
    "dfbetas": "What R calls 'dfbetas' is 'dfbeta' divided by the standard errors of `wald`.",
}
