"""Fine and Gray's model straight from the definition of its weighted risk sets.

Status 0 is censored, 1 the event of interest, 2 a competing event.  At an event time t a row
counts fully while t <= time_i; after a competing event it stays with weight G(t-) / G(time_i-),
where G is the Kaplan-Meier curve of censoring (of the row's censoring group).  The rest is Cox's
partial likelihood with Breslow ties (atoms, u: see reference_likelihoods).

Two conventions for a censoring and an event at one time s, with c_s censorings:

- km_ties="together": the factor of G at s is 1 - c_s / #{T >= s}  (R: cmprsk, fastcmprsk, Cyclops)
- km_ties="events_first": events leave the risk set before it  (R: survival::finegray)

Without such ties they agree.  G is weighted like the rows, so that a weight of 2 is the row twice;
weighted_km=False counts every row once in G (R: survival::finegray(weights=)).
"""

import numpy as np

from oracles.reference_likelihoods import Atom, Evaluation, case_weights, codes


def censoring_km(time, status, at, weights=None, ties="together"):
    """G(t-), the Kaplan-Meier curve of censoring just before the given times."""
    at, c = np.asarray(at), case_weights(len(time), weights)
    curve = np.ones(len(at))
    for s in np.unique(time[(status == 0) & (c > 0)]):
        at_risk = time >= s
        if ties == "events_first":
            at_risk &= (time > s) | (status == 0)
        censored = c[(time == s) & (status == 0)].sum()
        # Not 1 - censored / at risk: the last factor is zero exactly.
        curve[at > s] *= (c[at_risk].sum() - censored) / c[at_risk].sum()
    return curve


def finegray_direct(
    eta,
    time,
    status,
    strata=None,
    weights=None,
    censor_groups=None,
    km_ties="together",
    weighted_km=True,
):
    """Evaluate at eta; G is pooled over the strata unless censor_groups says otherwise."""
    n = len(time)
    c, stratum, censor_group = case_weights(n, weights), codes(n, strata), codes(n, censor_groups)
    time, status = np.asarray(time, float), np.asarray(status)
    event, competing = (status == 1) & (c > 0), (status == 2) & (c > 0)
    event_times = np.unique(time[event])
    # G of every row's own group: just before its own time, and before every event time.
    own, later = np.ones(n), np.ones((len(event_times), n))
    for q in np.unique(censor_group):
        rows = censor_group == q
        km = (time[rows], status[rows])
        options = {"weights": c[rows] if weighted_km else None, "ties": km_ties}
        own[rows] = censoring_km(*km, time[rows], **options)
        later[:, rows] = censoring_km(*km, event_times, **options)[:, None]

    loglik, h, atoms, jumps = 0.0, np.zeros(n, eta.dtype), [], []
    for g in range(stratum.max() + 1):
        for k, t in enumerate(event_times):
            tied = event & (stratum == g) & (time == t)
            if not tied.any():
                continue
            stays = competing & (time < t)
            share = np.where(time >= t, 1.0, 0.0)
            share[stays] = later[k, stays] / own[stays]
            share[(stratum != g) | (c == 0)] = 0.0
            top = eta[share > 0].max()
            w = c * share * np.exp(np.where(share > 0, eta - top, 0.0))
            d, p = c[tied].sum(), w / w.sum()
            loglik += c[tied] @ eta[tied] - d * (np.log(w.sum()) + top)
            h += d * p
            atoms.append(Atom(d, p, g, t))
            jumps.append((g, t, np.log(d / w.sum()) - top))
    return Evaluation(loglik, np.where(event, c, 0.0) - h, h, stratum, atoms, jumps)
