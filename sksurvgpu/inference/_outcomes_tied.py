"""Many outcomes whose coefficients are tied: one Cox fit to the rows of all, see `stacking`.

An outcome without an event, or one that cannot be read, takes no part. The effects of the others
are read from the fit of all, as those of one outcome are from its own.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from .._warnings import keep_warnings
from ..data.partitioned import refuse_partitions
from ..estimators._columns import Header
from ..estimators.models.base import model_of
from ..estimators.pipelines import refuse_type
from ..estimators.stacking import Hazard, Stack
from ..estimators.survival import CoxLassoCCD
from ._outcome import Effects, SharedInput, message_of


class Member(NamedTuple):
    """An outcome that takes part: rows at risk, and what there is of them."""

    hazard: Hazard
    weight: np.ndarray
    offset: np.ndarray
    varies: np.ndarray  # of the columns that are asked for, within these rows
    effects: Effects


def fit_tied(study, names, outcomes, sharing, folder) -> list[Effects]:
    """Effects on outcomes, in their order."""
    if type(study) is not SharedInput:
        refuse_partitions("outcomes with coefficients in common are rows one behind the other")
    if not isinstance(study.model, CoxLassoCCD):
        refuse_type(study.model, fitted="an")
    if folder is not None:
        raise ValueError(
            "`folder` keeps outcomes one by one, and with coefficients in common they are one fit; "
            "leave it out."
        )
    if study.intervals is not None and (sharing.between, sharing.fused) != (None, None):
        raise ValueError(
            f"`intervals` is {study.intervals!r}, and coefficients that `between` or `fused` pull "
            "have none; take intervals=None, or `shared` alone."
        )
    found = {name: Effects.none(len(study.features)) for name in names}
    members = []
    for name, effects in found.items():
        try:
            members.append(_read(study, effects, name, outcomes[name]))
        except Exception as error:  # of one outcome, which is not to end the others
            effects.message = [message_of(error)] * len(study.features)
    if members:
        _fit(study, members, sharing)
    return list(found.values())


def _read(study, effects, name, y):
    """An outcome as a hazard of the rows at risk."""
    given = study.read(name, y)
    y = given.pop("y")
    weight, offset = given.get("sample_weight", np.ones(len(y))), given.get("offset")
    counted = weight > 0
    effects.counts, _ = study.count(y, given, counted)
    if not effects.counts[0, 1]:
        raise ValueError("`y` has no event of a row at risk, and takes no part in the fit of all.")
    rows, strata = np.flatnonzero(counted), given.get("strata")
    y, offset = y[rows], np.zeros(len(rows)) if offset is None else offset[rows]
    own = y["stratum"] if "stratum" in y.dtype.names else strata if strata is None else strata[rows]
    hazard = Hazard(name, rows, y, own)
    return Member(hazard, weight[rows], offset, study.find_varying(effects, counted), effects)


def _fit(study, members, sharing):
    """Fit all outcomes, and give each its effects."""
    hazards, X = [member.hazard for member in members], study.X
    _check_alike(hazards)
    stack = Stack.of(hazards, Header(X.n_columns, X.names), sharing)
    stack.check_memory(X)
    tied, columns = copy(study), stack.columns(X)
    totals = np.array([member.weight.sum() for member in members])
    tied.model = stack.estimator(study.model, sharing, totals)
    weight, offset = (
        np.concatenate([getattr(member, name) for member in members])
        for name in ("weight", "offset")
    )
    rest = {"sample_weight": weight} if (weight != 1.0).any() else {}
    rest |= {"offset": offset} if offset.any() else {}
    terms = model_of(tied.model).outline(columns.n_columns, columns.names).terms
    places = np.array(stack.coefs(terms))[:, study.coefs]
    is_tied = stack.is_shared[study.columns]
    wanted = is_tied | np.array([member.varies for member in members])
    tied.coefs = np.unique(places[wanted])
    names = terms.names(columns.names.tolist())
    tied.features = [names[k] for k in tied.coefs]
    effects = Effects.none(len(tied.coefs))
    if len(tied.coefs):
        some = np.arange(len(tied.coefs))
        with keep_warnings() as warned:
            tied.estimate(effects, some, columns, stack.outcome(), rest, warned)
    for member, own, is_wanted in zip(members, places, wanted, strict=True):
        chosen = np.flatnonzero(is_wanted)
        _give(member.effects, chosen, effects, np.searchsorted(tied.coefs, own[chosen]))


def _check_alike(hazards):
    has = {"strata": [hazard.strata is not None for hazard in hazards]}
    has["subject"] = ["subject" in hazard.y.dtype.names for hazard in hazards]
    for name, there in has.items():
        if any(there) and not all(there):
            without = hazards[there.index(False)].label
            raise ValueError(
                f"`{name}` is of some outcomes, and not of {without!r}; with coefficients in "
                "common, give it for all or for none."
            )


def _give(found, chosen, effects, own):
    """Give the chosen features of an outcome their effects, those of numbers `own` in the fit."""
    found.estimates[chosen], found.alpha = effects.estimates[own], effects.alpha
    for k, number in zip(chosen, own, strict=True):
        found.status[k], found.message[k] = effects.status[number], effects.message[number]
    if len(effects.curve):
        feature = effects.curve[:, 0]
        curves = [effects.curve[feature == number] for number in own]
        for k, curve in zip(chosen, curves, strict=True):
            curve[:, 0] = k
        found.curve_names, found.curve = effects.curve_names, np.concatenate(curves)
