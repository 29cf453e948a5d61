"""Hazards of all transitions between states, and the probabilities of states that follow."""

import numpy as np
from pandas import DataFrame, MultiIndex
from sklearn.utils import check_random_state

from .._warnings import warn
from ..data.checks import check_horizons
from ..data.options import choice, whole
from ..data.outcomes.fields import pack
from ..data.outcomes.states import ROUNDING, durations_in_states, read_states
from ..data.partitioned import check_in_memory, require_in_memory
from ..data.vectors import check_labels, check_order, check_row_values
from ._docs import documented
from ._hazards import HazardModels
from ._occupation import Course, draw, follow
from .joint_baseline import ENORMOUS

SLACK = 1.0 + ROUNDING  # sums of durations may be off
NOTICEABLE = 1e-3  # probability of a state whose follow-up has ended


@documented
class MultiStateCox(HazardModels):
    r"""Cox models of all transitions between states, and probabilities of states over time.

    Each transition has a Cox model with separate coefficients, of the persons in its state of
    origin. Probabilities of states are products over the times at which transitions happen, with G
    the matrix of the hazards' increments :math:`dA_{ij}` and minus their sums on the diagonal,

    .. math:: P(s, t) = \prod_{s < u \le t} e^{G(u)} .

    Parameters
    ----------
    estimator : CoxLassoCCD, CoxLassoCV, pipeline, dict or None, default=None
        Copies of it are fitted, one for each transition; `CoxLassoCCD` by default. With a
        dictionary ``{(origin, destination): estimator}`` every transition has one of its own.
    <<shared_coefficients>>
    clock : {"forward", "reset"}, default="forward"
        Time that hazards depend on: that since time zero, or since the state was entered, or first
        seen (a semi-Markov model).
    n_paths : int, default=1000
        Paths that are drawn for each row, where the clock is reset.
    random_state : int, RandomState instance or None, default=0
        Seed of these. All rows of a call have the same random numbers.

    Attributes
    ----------
    states_ : list of int or str
        Labels of the states.
    transitions_ : list of tuple
        Origin and destination of the transitions that were made.
    estimators_ : dict
        Fitted models by transition.
    <<joint>>

    See Also
    --------
    sksurvgpu.multi_state : Builds the outcome.
    CauseSpecificCox : One state that is left once, for several others.

    Notes
    -----
    Equal to ``survfit`` of a multi-state ``coxph(..., ties="breslow")`` of R's survival, where the
    clock goes forward.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, MultiStateCox, multi_state
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(0, 2, 500)
    >>> ill, dead = rng.exponential(3 - x), rng.exponential(5, 500)
    >>> is_ill = ill < dead
    >>> y = multi_state(
    ...     origin=np.repeat(["well", "ill"], [500, is_ill.sum()]),
    ...     destination=np.append(np.where(is_ill, "ill", "dead"), ["dead"] * is_ill.sum()),
    ...     start=np.append(np.zeros(500), ill[is_ill]),
    ...     time=np.append(np.minimum(ill, dead), dead[is_ill]),
    ...     subject=np.append(np.arange(500), np.flatnonzero(is_ill)),
    ...     allowed={"well": ["ill", "dead"], "ill": ["dead"]},
    ... )
    >>> X = np.append(x, x[is_ill])[:, None]
    >>> model = MultiStateCox(CoxLassoCCD(alpha=0)).fit(X, y)
    >>> model.transitions_
    [('well', 'ill'), ('well', 'dead'), ('ill', 'dead')]
    >>> model.predict_state_probabilities([[0], [1]], 2.0).round(2)
    state  well   ill  dead
    time    2.0   2.0   2.0
    0      0.33  0.34  0.33
    1      0.28  0.41  0.31
    """

    __metadata_request__fit = {"sample_weight": True, "strata": True, "offset": True}  # noqa: RUF012
    _levels = ("origin", "destination")

    def __init__(
        self,
        estimator=None,
        *,
        shared=None,
        between=None,
        fused=None,
        clock="forward",
        n_paths=1000,
        random_state=0,
    ):
        self.estimator = estimator
        self.shared = shared
        self.between = between
        self.fused = fused
        self.clock = clock
        self.n_paths = n_paths
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None, strata=None, offset=None):
        """Fit a model to each transition.

        Parameters
        ----------
        <<X_here>>
        y : structured ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.multi_state`.
        <<sample_weight, strata, offset>>

        <<itself>>
        """
        require_in_memory(X)
        choice(self.clock, "clock", ["forward", "reset"])
        whole(self.n_paths, "n_paths", 1)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        items, labels = read_states(y, n_rows=n_rows, strata=strata)
        hazards = _at_risk(items, labels, self.clock == "reset")
        given = {"sample_weight": sample_weight, "offset": offset}
        check_in_memory(X, strata=strata, **given)
        for name in [name for name in given if given[name] is not None]:
            given[name] = check_row_values(given[name], name, n_rows)
        self._learn(hazards, {name: name for name in hazards}, X, y, given, "transition")
        self.states_ = list(labels.values())
        return self

    def _hazards(self, y, strata=None):
        """Rows at risk of every transition, and their outcomes."""
        items, labels = read_states(y, strata=strata)
        return _at_risk(items, labels, self.clock == "reset")

    def _ends(self, state, of):
        """Places of the states of transitions, of rows' state, and of the one asked for."""
        if self.clock == "reset":
            raise ValueError(
                'the clock is reset (clock="reset"), and probabilities of states are drawn: they '
                "have no intervals."
            )
        if np.ndim(state) != 0:
            raise ValueError(f"`state` is {state!r}, must be one state, of all rows.")
        if of not in self.states_:
            raise ValueError(f"`of` is {of!r}, must be one of {self.states_}.")
        [place] = self._places(state, 1)
        ends = [tuple(map(self.states_.index, names)) for names in self.transitions_]
        return ends, int(place), self.states_.index(of)

    def _probability(self, X, times, of, *, state, start, strata, is_time):
        """Probability of one state, or the time there, (n_samples, n_times)."""
        return self._predict(X, times, state, start, strata)[is_time][of].to_numpy()

    def predict_state_probabilities(self, X, times, *, state=None, start=None, strata=None):
        """Probability of being in each state at each horizon, for every row.

        Parameters
        ----------
        <<X_here, times>>
        state : int, str or array-like of shape (n_samples,), optional
            State of all rows, or of each, at `start`; the one that no transition enters by
            default.
        start : float or array-like of shape (n_samples,), optional
            Time at which rows are in `state`, 0 by default. Where the clock is reset, that since
            they entered it, as are `times`.
        <<strata_of_fit>>

        Returns
        -------
        probability : pandas.DataFrame of shape (n_samples, n_states * n_times)
            Columns by ``state`` and ``time``: ``probability["ill"]`` is a table with a column for
            each horizon. NaN, with a warning, beyond the last time of the fit's rows.
        """
        return self._predict(X, times, state, start, strata)[0]

    def predict_expected_time(self, X, times, *, state=None, start=None, strata=None):
        """Expected time in each state from the start until each horizon, for every row.

        Parameters
        ----------
        <<X_here, times>>
        state : int, str or array-like of shape (n_samples,), optional
            State of all rows, or of each, at `start`.
        start : float or array-like of shape (n_samples,), optional
            Time at which rows are in `state`, 0 by default.
        <<strata_of_fit>>

        Returns
        -------
        expected : pandas.DataFrame of shape (n_samples, n_states * n_times)
            Columns by ``state`` and ``time``; those of a time sum to it, less the start.
        """
        return self._predict(X, times, state, start, strata)[1]

    @property
    def transitions_(self):
        """Transitions that were made."""
        return self._names()

    def _predict(self, X, times, state, start, strata):
        horizons = check_horizons(times)
        baseline, predictors, codes, start = self._open(X, strata, start)
        check_order(X=X, state=state)
        state = self._places(state, len(predictors))
        states = self.states_
        pairs = [[*map(states.index, ends)] for ends in self.transitions_]
        origin, destination = np.array(pairs, order="F").T
        since = np.zeros(len(state)) if start is None else start
        ends = _ends(baseline, origin, len(states))[:, codes].T
        # probabilities, times, and what of the probabilities is not known
        found = np.zeros((3, len(state), len(horizons), len(states)))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        steps = baseline.at_steps(horizons[-1] * (SLACK if self.clock == "reset" else 1.0))
        gone = start if self.clock == "forward" else None
        for own, rows, hazards in steps.blocks(predictors, codes, gone):
            times = steps.timeline.times[own]
            course = Course(np.minimum(hazards, ENORMOUS), times, origin, destination)
            if self.clock == "forward":
                of_block = np.empty((3, len(rows), *found.shape[2:]))
                follow(course, state[rows], since[rows], horizons, ends[rows], of_block)
                found[:, rows] = of_block
                continue
            for i, row in enumerate(rows):
                random = np.random.default_rng(seed)
                after, until, last = (of * SLACK for of in (since[row], horizons, ends[row]))
                found[:, row] = draw(
                    course, i, state[row], after, until, last, random, self.n_paths
                )
        if self.clock == "forward":
            found[:, horizons > baseline.timeline.last_times()[codes][:, None]] = np.nan
            baseline.timeline.warn_of_unknown(found[0, :, :, 0], horizons, codes)
        self._warn_of_ends(found[2], horizons, ends)
        index = X.index if isinstance(X, DataFrame) else None
        columns = MultiIndex.from_product([states, horizons], names=["state", "time"])
        tables = np.swapaxes(found[:2], 2, 3).reshape(2, len(state), -1)
        return [DataFrame(table, index=index, columns=columns) for table in tables]

    def _places(self, state, n_rows):
        """Number of each row's state."""
        state = first_state(self) if state is None else state
        given = np.full(n_rows, state) if np.ndim(state) == 0 else state
        given = check_labels(given, "state", n_rows).tolist()
        for row, label in enumerate(given):
            if label not in self.states_:
                raise ValueError(f"`state` is {label!r} in row {row:,}, must be of {self.states_}.")
        return np.array([*map(self.states_.index, given)], np.int64)

    def _warn_of_ends(self, unknown, horizons, ends):
        """Warn of states whose follow-up ends before somebody may leave them."""
        for place, state in enumerate(self.states_):
            is_open = unknown[:, :, place] > NOTICEABLE
            if is_open.any():
                row, horizon = np.unravel_index(int(np.argmax(is_open)), is_open.shape)
                warn(
                    f"row {row:,} may be in state {state!r} at {horizons[horizon]:g}, for longer "
                    f"than any of the fit's rows, which end at {ends[row, place]:g}: who is in it "
                    "then is taken to stay; take earlier horizons."
                )


def first_state(model):
    """Label of the state that no transition enters."""
    entered = {destination for _, destination in model.transitions_}
    first = [state for state in model.states_ if state not in entered]
    if len(first) != 1:
        raise ValueError(
            f"`state` is missing: {len(first)} states are entered from no other one, so none is "
            f"the first; pass one of {model.states_}."
        )
    return first[0]


def _ends(baseline, origin, n_states):
    """Last time that is known of each state in each stratum, (n_states, n_strata)."""
    last, found = baseline.last_times(), np.full((n_states, baseline.timeline.n_strata), np.inf)
    for place in np.unique(origin):
        found[place] = np.nan_to_num(np.fmax.reduce(last[origin == place]), nan=0.0)
    return found


def _at_risk(items, labels, is_reset):
    """Rows at risk of each transition and their outcome, {(origin, destination): ...}."""
    origin, destination = items["origin"], items["destination"]
    if not destination.any():
        raise ValueError("`y` has no transition: nobody leaves a state for another one.")
    fields = durations_in_states(items) if is_reset else {k: items[k] for k in ("time", "start")}
    fields |= {"stratum": items["stratum"], "subject": items["subject"]}
    found = {}
    for i in np.unique(origin[destination > 0]).tolist():
        rows = np.flatnonzero(origin == i)
        own = {name: values[rows] for name, values in fields.items() if values is not None}
        if not own["start"].any():
            del own["start"]
        entered = destination[rows]
        for j in np.unique(entered[entered > 0]).tolist():
            found[labels[i], labels[j]] = (rows, pack({"event": entered == j, **own}))
    return found
