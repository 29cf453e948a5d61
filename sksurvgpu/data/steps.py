"""Steps of numeric columns at thresholds, of which a code a row is stored."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import options
from .additive import AdditiveColumns
from .design.codes import CodedColumns, StepBasis
from .prepare import documented, input_names


@documented
class StepColumns(AdditiveColumns):
    """Steps of numeric columns: for each threshold a column of ones where the number is above it.

    A model of these columns is a sum of step functions, and the lasso chooses where they step: its
    penalty is on their total variation, so that few steps remain, and columns without steps are
    out. Steps are not stored: a numeric column costs a byte or two per row, for any number of
    steps.

    Parameters
    ----------
    columns : sequence of str or int, optional
        Columns that become steps, by name or position; by default those of more than two values.
        Others stay as they are.
    n_steps : int or None, default=100
        Thresholds of a column at most, at quantiles of its values. With None there is one at each
        of its values but the largest.

    Attributes
    ----------
    thresholds_ : dict of ndarray
        Of every column that became steps, by its name: a step is where the value is above.
    variables_ : ndarray
        Positions of these.
    groups_ : ndarray
        Of every column that is made, the name of the one it comes from.
    <<header>>

    See Also
    --------
    SplineColumns : Smooth functions in place of steps.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, StepColumns, make_pipeline, surv
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 90, 2000).round()
    >>> time = rng.exponential(np.where(age > 65, 0.25, 1.0))
    >>> model = make_pipeline(StepColumns(n_steps=None), CoxLassoCCD(alpha=0.05))
    >>> model = model.fit(age[:, None], surv(np.full(2000, True), time))
    >>> model[0].transform(age[:, None])
    <Design of 2,000 rows and 70 columns (70 computed) with 0 sparse entries>
    >>> effects = model[0].effects(model[1].coef_)
    >>> float(effects["value"][effects["effect"].diff().idxmax()])
    65.0
    """

    def __init__(self, *, columns=None, n_steps=100):
        self.columns = columns
        self.n_steps = n_steps

    @property
    def thresholds_(self):
        """Thresholds by name."""
        check_is_fitted(self)
        names = input_names(self)
        return {names[j]: t for j, t in zip(self.variables_, self._learned, strict=True)}

    def _check(self):
        if self.n_steps is not None:
            options.whole(self.n_steps, "n_steps", 1, "must be an integer from 1 on, or None")

    def _learn(self, values, name):
        values = np.sort(values)
        below = values[:-1][np.diff(values) > 0.0]
        if not len(below):
            raise ValueError(f"`X` column {name!r} has one value, and no step; leave it out.")
        if self.n_steps is None or len(below) <= self.n_steps:
            return below
        places = np.arange(1, self.n_steps + 1) * len(values) // (self.n_steps + 1)
        found = np.unique(values[places])
        found = found[found < values[-1]]
        return found if len(found) else below[-1:]

    def _labels(self, name, known):
        for digits in (6, 17):
            labels = [f"{name}>{threshold:.{digits}g}" for threshold in known]
            if len(set(labels)) == len(labels):
                break
        return labels

    def _blocks(self, values):
        dtype = np.min_scalar_type(max(map(len, self._learned)))
        codes = np.empty((len(values), len(values[0])), dtype)
        for v, (own, thresholds) in enumerate(zip(values, self._learned, strict=True)):
            codes[v] = np.searchsorted(thresholds, own)
        return [CodedColumns(codes, tuple(StepBasis(len(known) + 1) for known in self._learned))]

    def _curve(self, known, table, reference):
        value = np.append(-np.inf, known[table.any(axis=1)])
        return value, self._at(known, np.nextafter(value, np.inf), table)

    def _at(self, known, values, table):
        above = np.cumsum(np.vstack([np.zeros(table.shape[1]), table]), axis=0)
        return above[np.searchsorted(known, values)]
