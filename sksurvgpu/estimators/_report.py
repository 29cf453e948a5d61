"""A fit in words: its table of coefficients, its card in notebooks, that it is empty."""

import sys
from html import escape

import numpy as np
from pandas import DataFrame, Index, Series

from ..data.options import first_of
from .fitted import fitted_of
from .models.base import model_of

MOST_NAMES = 5  # in a warning

# Coefficients of a fit and of a result that differ by more, in widths of their interval, belong to
# different fits; refits of one model differ by what the solver's tolerance allows.
SAME_FIT = 1e-2
MOST_COEFFICIENTS = 5
YES_NO = {True: "yes", False: "no"}
# (name, attribute, how it is written); an estimator that chooses alpha has it with an underscore.
SHOWN = (
    ("alpha", "alpha", "{:.4g}".format),
    ("alpha (chosen)", "alpha_", "{:.4g}".format),
    ("log-likelihood", "log_likelihood_", "{:,.4f}".format),
    ("KKT residual", "kkt_", "{:.2g}".format),
    ("iterations", "n_iter_", "{:,}".format),
    ("converged", "converged_", lambda value: YES_NO[value]),
    ("backend", "backend_", str),
    ("exchanges with partitions", "n_exchanges_", "{:,}".format),
)
CELL = "padding: .25em .7em"
# The classes are scikit-learn's: its sheet sets their colours, in light and in dark.
CARD = (
    '<div class="estimator-table"><details open><summary>{title}</summary>'
    '<table class="parameters-table"><tbody>{rows}</tbody></table></details></div>'
)


def _add_intervals(table, result, penalized) -> None:
    """Add the bounds of a result to a table of coefficients, some of which have a penalty.

    A result whose class says `frees_penalty` has penalized coefficients as they are without it,
    which are not those of the fit. One that left out collinear columns has the coefficients of the
    same fit without them, and those of the fit in ``_fitted``.
    """
    bounds = getattr(result, "intervals", None)
    if bounds is None or not {"coef", "lower", "upper"} <= set(bounds):
        raise TypeError(
            f"`intervals` is of type {type(result).__name__}, which has no table `intervals` with "
            "columns coef, lower and upper; pass what wald, bootstrap or profile_likelihood "
            "returns."
        )
    bounds = bounds.set_axis([str(name) for name in bounds.index])
    unknown = [name for name in bounds.index if name not in table.index]
    if unknown:
        raise ValueError(
            f"`intervals` has the feature {unknown[0]!r}, which is no coefficient of this fit; "
            "pass a result for the same columns."
        )
    own = table["coef"].reindex(bounds.index)
    found, fitted = bounds["coef"], getattr(result, "_fitted", None)
    if fitted is not None and found.isna().any():
        found = Series(fitted, bounds.index)
        table["coef"] = bounds["coef"].reindex(table.index)
    width = (bounds["upper"] - bounds["lower"]).to_numpy()
    unit = np.where(np.isfinite(width) & (width > 0), width, np.abs(own))
    is_far = ~(np.abs(own - found) <= SAME_FIT * unit)
    if getattr(result, "frees_penalty", False):
        is_far &= ~own.index.isin(table.index[penalized])
    if is_far.any():
        name = bounds.index[int(np.argmax(is_far))]
        raise ValueError(
            f"`intervals` belongs to another fit: its coefficient of {name!r} is "
            f"{found[name]:.4g}, the one here {own[name]:.4g}; fit both with the same "
            "options to the same rows."
        )
    for column in ("lower", "upper"):
        table[column] = bounds[column].reindex(table.index)


def fit_card(estimator) -> str:
    """HTML tables of a fit and of its largest coefficients."""
    coef, params = estimator.coef_, estimator.get_params()
    rows = [("nonzero coefficients", f"{np.count_nonzero(coef):,} of {coef.size:,}")]
    rows += [
        (name, form(getattr(estimator, attribute)))
        for name, attribute, form in SHOWN
        if attribute in params or (attribute.endswith("_") and hasattr(estimator, attribute))
    ]
    return _table("Fit", rows) + _largest(estimator)


def _largest(estimator) -> str:
    table = estimator.summary()
    table = table[table["coef"] != 0]
    if not len(table):
        return ""
    order = np.argsort(-np.abs(table["coef"].to_numpy()), kind="stable")[:MOST_COEFFICIENTS]
    head = ("feature", *(str(column).replace("_", " ") for column in table.columns))
    rows = [
        (name, *(YES_NO[v] if isinstance(v, bool) else f"{v:.4g}" for v in values))
        for name, *values in table.iloc[order].itertuples(name=None)
    ]
    return _table("Largest coefficients", rows, head)


def _table(title, rows, head=()) -> str:
    cells = "".join(f'<th style="{CELL}">{escape(name)}</th>' for name in head)
    lines = [f'<tr class="default">{cells}</tr>'] if head else []
    for name, *values in rows:
        cells = f'<td class="param" style="{CELL}">{escape(name)}</td>'
        cells += "".join(f'<td style="{CELL}">{escape(value)}</td>' for value in values)
        lines.append(f'<tr class="default">{cells}</tr>')
    return CARD.format(title=escape(title), rows="".join(lines))


def doubts_of(model, prepared, solution) -> list[str]:
    """Say why the fit of a model, which was found from checked input, may not be trusted."""
    doubts = [] if solution.converged else [explain_failure(model, solution)]
    return doubts + name_infinite(model) + prepared.doubts_of(solution)


def explain_empty(model) -> str:
    """Say that a fit selects nothing, where its penalty is larger than that takes.

    Where `alpha_max_` is 0 no penalty would select anything, and the penalty is not to blame.
    """
    if not model.alpha > model.alpha_max_ > 0:
        return ""
    # scikit-learn's searches try large penalties, as our own paths do, and reset before each fold
    # what has been warned of, so that even one text would come in every fold
    if is_called_by("sklearn.model_selection._validation"):
        return ""
    penalized = fitted_of(model).penalized
    if not len(penalized) or model.coef_[penalized].any():
        return ""
    of = "" if len(penalized) == len(model.coef_) else "penalized "
    return (
        f"{type(model).__name__}(alpha={model.alpha:g}) selects nothing: from "
        f"alpha_max_={model.alpha_max_:.3g} on, all {of}coefficients are 0; take a smaller "
        "alpha, or choose it by cross-validation."
    )


def is_called_by(module) -> bool:
    """Whether some function of a module, given by name, is among the callers."""
    frame = sys._getframe()
    while frame and frame.f_globals.get("__name__") != module:
        frame = frame.f_back
    return frame is not None


def name_infinite(model) -> list[str]:
    """Name coefficients without a finite estimate: a fit of them ends anywhere."""
    found = np.flatnonzero(model.infinite_)
    if not len(found):
        return []
    names, penalized = fitted_of(model).names, fitted_of(model).penalized
    listed = first_of([f"`{names[k]}` ({model.coef_[k]:.3g})" for k in found], MOST_NAMES)
    whose, remedy = "unpenalized columns", "penalize them (alpha, penalty_factor)"
    if np.isin(found, penalized).any():  # beyond the end of MCP, say
        whose, remedy = "columns that the penalty has let go", "take a penalty without an end"
    return [
        f"Coefficients of {whose} are infinite, because the columns separate the "
        f"events: {listed}, with what was reached when the fit stopped; "
        f"{remedy}, merge them with others, or leave them out."
    ]


def explain_failure(model, solution) -> str:
    """Say how far a fit is from its optimum, and what to try."""
    residual = solution.kkt / fitted_of(model).total_weight
    if solution.n_iter < model.max_iter:
        remedy = (
            "the residual stopped falling, at the accuracy of floating point or, where columns "
            f"or offsets span many orders of magnitude, before it: raise tol={model.tol:g} or "
            "rescale them"
        )
    else:
        remedy = f"raise max_iter={model.max_iter:,}"
    return (
        f"{type(model).__name__}(alpha={model.alpha:g}) did not converge in "
        f"{solution.n_iter:,} iteration(s): the largest violation of the optimality conditions "
        f"is {solution.score:.3g} standard errors (kkt_se_), where tol={model.tol:g} allows "
        f"{solution.allowed:.3g}, or {residual:.3g} in units of "
        f"alpha (kkt_), of which 1 % is allowed; {remedy}."
    )


def table_of(model, intervals):
    """Table of the coefficients of a fit; see `PenalizedModel.summary`."""
    fitted = fitted_of(model)
    effect = model_of(model).effect
    table = DataFrame({"coef": model.coef_}, index=Index(fitted.names, name="feature"))
    if intervals is not None:
        _add_intervals(table, intervals, fitted.penalized)
    if effect is not None:
        with np.errstate(over="ignore"):
            for column in list(table.columns):
                suffix = "" if column == "coef" else f"_{column}"
                table[effect + suffix] = np.exp(table[column])
    if model.infinite_.any():
        table["is_infinite"] = model.infinite_
    return table
