"""From the arguments of `fit` to the checked input of fits, wherever the rows are."""

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

from ..backends import choose, explain
from ..data.design.sums import find_scales
from ..data.design.units import check_magnitudes
from ..data.partitioned import check_in_memory, in_partitions
from ..penalties import Given
from ..routes import PLAIN
from ..solver.fits import Fits
from ..solver.problem import Batch, Problem
from ._columns import read_columns
from ._composition import batch_of, in_given_units, penalty_of, read_by_column, route_of
from ._partitioned import prepare_in_partitions
from ._prepared import Prepared, count_threads, options_of, start_of
from .fitted import Setting
from .models.base import model_of


@dataclass(frozen=True, eq=False)
class Assembled:
    """Rows and columns as a solver has them, without penalties of any strength."""

    outcome: Any  # of the rows as the caller has them
    problem: Problem
    batch: Batch
    given: Given  # by column
    of_setting: dict[str, Any]  # those fields of `Setting` that follow from the rows


def prepare(
    estimator, X, y, sample_weight=None, offset=None, n_fits=1, *, may_lack=False, **given
) -> Prepared:
    """Check the input of an estimator's `fit`; `n_fits` are how many will be asked for.

    Rows that `may_lack` what a fit needs of them, such as an event, pass.
    """
    estimator._check_caller(y)
    if in_partitions(X):
        return prepare_in_partitions(estimator, X, y, sample_weight, offset, given)
    check_in_memory(X, y=y, sample_weight=sample_weight, offset=offset, **given)
    n_threads = count_threads(estimator.n_jobs)
    open_backend(estimator, estimator.backend)  # what cannot run is an error before any work
    design, header = read_columns(X, may_lack)
    check_magnitudes(design)
    assembled = assemble(estimator, design, y, sample_weight, offset, given, may_lack)
    problem, by_column = assembled.problem, assembled.given
    work, may_leave = n_fits * design.n_entries, problem.likelihood.pattern.has("on_device")
    may_leave &= not design.blocks
    asked = explain(estimator.backend, work, devices_of(estimator), estimator.algorithm, may_leave)
    route, backend = route_of(estimator, by_column), open_backend(estimator, asked[0])
    batch = replace(assembled.batch, coef=start_of(estimator, problem.n_columns))
    prepared = Prepared(
        Fits(problem, batch, backend, options_of(estimator), n_threads),
        assembled.outcome,
        setting=Setting(header, backend=route.serves(asked), **assembled.of_setting),
        given=by_column,
        route=route,
        plain_route=in_given_units(PLAIN, by_column),
        gamma=estimator._gamma(),
    )
    return prepared.checked_by(penalty_of(estimator))


def assemble(estimator, design, y, sample_weight, offset, given, may_lack=False) -> Assembled:
    """Check what the rows of a design were given, and lay them out."""
    model = model_of(estimator, may_lack)
    outcome, weight, offset = model.read(y, design.n_rows, sample_weight, offset, given)
    outline = model.outline(design.n_columns, design.names, outcome)
    terms, n_threads = outline.terms, count_threads(estimator.n_jobs)
    plan = model.plan(outline, not design.keeps_order)
    problem = Problem.build(
        design, plan, outline.likelihood, terms.source, terms.piece_ptr, n_threads
    )
    of_setting = {"terms": terms} | model.keeps(plan, outcome, weight)
    scales = partial(find_scales, design, weight, n_threads)
    by_column = read_by_column(estimator, design.n_columns, design.names, problem.source, scales)
    weight, offset = (None if rows is None else rows[:, None] for rows in (weight, offset))
    batch = batch_of(estimator, by_column, weight=weight, offset=offset)
    return Assembled(outcome, problem, batch, by_column, of_setting)


def open_backend(estimator, name):
    """The backend of a name, on the devices and in the precision of an estimator."""
    return choose(name, estimator.precision, devices_of(estimator))


def devices_of(estimator):
    """Devices that an estimator names."""
    device = estimator.device
    return int(device) if isinstance(device, Integral) else device
