"""A multinomial model before it is sampled: priors as users give them, the mode, labels."""

import numpy as np
from scipy.sparse import hstack, issparse

from ..backends.cpu.threads import one_blas_thread
from ..backends.random import LARGEST_COUNT
from ..bayes.softmax import CategoriesPrior, NoModeError, SoftmaxTarget, find_mode
from ..data.options import is_flag

ROUNDING = 1e-10  # of a matrix, relative to its largest entry


def read_prior(mean, precision, intercept_precision, shape, fit_intercept) -> CategoriesPrior:
    """Check means and precisions; the prior of coefficients, with the intercepts' last.

    `shape` are the numbers m of categories but the reference and p of columns. Means are one, (p,)
    or (m, p); precisions, too, or matrices (1, p, p) or (m, p, p); those of intercepts one or (m,).
    """
    n_categories, n_columns = shape
    mean = _numbers(mean, "prior_mean")
    mean = _spread(mean, "prior_mean", shape, _forms(shape))
    precision = _numbers(precision, "prior_precision")
    if precision.ndim == 3:
        forms = [
            *_forms(shape),
            f"shape {(1, n_columns, n_columns)}",
            f"shape {(*shape, n_columns)}",
        ]
        precision = _spread(precision, "prior_precision", (*shape, n_columns), forms)
        _check_matrices(precision)
    else:
        precision = _spread(precision, "prior_precision", shape, _forms(shape))
        _check_not_negative(precision, "prior_precision")
    if not fit_intercept:
        return CategoriesPrior(mean, precision)
    of_intercept = _numbers(intercept_precision, "intercept_precision")
    forms = ["a number", f"shape ({n_categories},)"]
    of_intercept = _spread(of_intercept, "intercept_precision", (n_categories,), forms)
    _check_not_negative(of_intercept, "intercept_precision")
    return CategoriesPrior(
        np.column_stack([mean, np.zeros(n_categories)]), _bordered(precision, of_intercept)
    )


def _bordered(precision, of_intercept):
    """Precisions with those of the intercepts as last column, or as last row and column."""
    if precision.ndim == 2:
        return np.column_stack([precision, of_intercept])
    out = np.zeros((len(precision), precision.shape[1] + 1, precision.shape[1] + 1))
    out[:, :-1, :-1] = precision
    out[:, -1, -1] = of_intercept
    return out


def _forms(shape):
    return ["a number", f"shape ({shape[1]},)", f"shape {shape}"]


def _numbers(values, name):
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{name}` is {values!r}; pass a number or an array of numbers.") from error
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` has NaN or infinite values; pass finite numbers.")
    return array


def _spread(array, name, shape, forms):
    """Array of the full shape, from one of the shapes that stand for it."""
    fits = array.ndim == 0 or array.shape == shape or array.shape == shape[1:]
    if array.ndim == len(shape) == 3:
        fits = array.shape[1:] == shape[1:] and array.shape[0] in (1, shape[0])
    if not fits or (array.ndim == 0 and len(shape) == 3):
        raise ValueError(
            f"`{name}` has shape {array.shape}, must be {', '.join(forms[:-1])} or {forms[-1]}, "
            "for the classes but the reference."
        )
    return np.array(np.broadcast_to(array, shape))


def _check_not_negative(array, name):
    if (array < 0).any():
        raise ValueError(f"`{name}` has {array.min():g}, must be at least 0 everywhere.")


def _check_matrices(matrices):
    for j, matrix in enumerate(matrices):
        size = abs(matrix).max(initial=0.0)
        if abs(matrix - matrix.T).max(initial=0.0) > ROUNDING * size:
            raise ValueError(
                f"`prior_precision` has a matrix {j} that is not symmetric; pass symmetric ones."
            )
        if size and np.linalg.eigvalsh(matrix)[0] < -ROUNDING * size:
            raise ValueError(
                f"`prior_precision` has a matrix {j} with a negative eigenvalue, "
                f"{np.linalg.eigvalsh(matrix)[0]:.3g}; pass positive semidefinite ones."
            )


def order_classes(labels, reference):
    """Positions of the classes with the reference, by default the last, at the end."""
    place = len(labels) - 1
    if reference is not None:
        found = [code for code, label in enumerate(labels.tolist()) if _is_same(label, reference)]
        if not found:
            shown = ", ".join(map(repr, labels.tolist()[:10])) + ", ..." * (len(labels) > 10)
            raise ValueError(f"`reference` is {reference!r}, must be one of the classes {shown}.")
        [place] = found
    return np.append(np.delete(np.arange(len(labels)), place), place)


def _is_same(label, reference):
    """Whether two labels are equal; 1 is not True, and an array is no label."""
    return is_flag(label) == is_flag(reference) and np.ndim(reference) == 0 and label == reference


def locate(sampling, rows, prior, labels, names):
    """Mode and curvature of a posterior, from one chain's rows; one that has none is refused.

    `labels` are the classes, the reference last, and `names` those of columns but the intercept's.
    """
    if not prior.is_proper():
        _check_flat(rows, prior)
    with one_blas_thread():
        try:
            return find_mode(sampling, SoftmaxTarget(rows.put(sampling), prior))
        except NoModeError as error:
            raise ValueError(_explain(error, rows, labels, names)) from error


def _explain(error, rows, labels, names):
    """Sentence that says why a posterior is improper, and what to do about it."""
    movement = abs(error.direction)
    if not error.is_collinear:
        movement = movement * np.ravel(_largest(rows.X))
    j, column = np.unravel_index(np.argmax(movement), movement.shape)
    total = np.append(rows.y[0].sum(axis=1), rows.count.sum() - rows.y[0].sum())
    absent = [labels[k] for k in (j, -1) if total[k] == 0]
    if absent:
        return (
            f"class {absent[0]!r} has no observations, and the prior is flat in some direction, "
            "so that the posterior is improper; leave the class out, or pass a positive "
            "`prior_precision` and `intercept_precision`."
        )
    places = [*(f"coefficient of column {name!r}" for name in names), "intercept"]
    place = f"{places[column]} of class {labels[j]!r}"
    remedy = "pass a positive `prior_precision` and `intercept_precision`, or leave columns out."
    if error.is_collinear:
        return (
            "the posterior is improper with this prior: as far as digits tell, the likelihood does "
            f"not change with the {place}, because columns are constant or collinear; {remedy} "
            "Columns that hardly vary about a large mean must be centred."
        )
    return (
        "the posterior is improper with this prior: the likelihood rises for ever with the "
        f"{place}, because columns separate the class from others; {remedy}"
    )


def _largest(X):
    """Largest absolute value of each column."""
    return abs(X).max(axis=0).toarray() if issparse(X) else abs(X).max(axis=0)


def with_intercept(X):
    """X with a last column of ones."""
    ones = np.ones((X.shape[0], 1))
    return hstack([X, ones], format="csr") if issparse(X) else np.hstack([X, ones])


def label_parameters(names, labels):
    """Labels of the parameters, by class."""
    classes = [str(label) for label in labels]
    return {
        "coef": [f"{label}, {name}" for label in classes for name in names],
        "intercept": classes,
    }


def check_size(X):
    with np.errstate(over="ignore"):
        square = (X.data if issparse(X) else X) ** 2
    if not np.isfinite(square).all():
        raise ValueError("the squares of `X` are infinite; rescale it.")


def check_trials(rows):
    """Refuse counts that Polya-Gamma variables are not drawn for."""
    most = int(rows.count.max(initial=0))
    if most > LARGEST_COUNT:
        raise ValueError(
            f"rows of `X` that are alike have counts that sum to {most:,}, and "
            f'sampler="gibbs" draws a variable for each, {LARGEST_COUNT:,} a row at most; take '
            'sampler="hmc", whose cost does not depend on them.'
        )


def _check_flat(rows, prior):
    """Refuse what no flat prior goes with, before the mode is looked for."""
    n_flat = int((prior.diagonal() == 0).sum(axis=1).max())
    if n_flat > len(rows.count):
        raise ValueError(
            f"the prior is flat for {n_flat:,} columns, the intercept's included, and `X` has "
            f"{len(rows.count):,} different rows; pass a positive `prior_precision`, or fewer "
            "columns."
        )
