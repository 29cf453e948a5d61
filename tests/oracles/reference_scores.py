"""Scores of Fine and Gray's model whose censoring curve is estimated, from the definition.

The score of a row is that of a Cox model with the weighted risk sets (eta in Fine and Gray 1999),
plus what its own censoring or survival says about the censoring curve (psi there). O(rows^2 *
times), plain NumPy; rows count with their weight.
"""

import numpy as np

from oracles.reference_competing import finegray_direct
from oracles.reference_likelihoods import case_weights, codes


def fine_gray_scores(X, eta, time, status, strata, weights, censor_groups, km_ties):
    """Scores at eta, (rows, columns); their sum is the gradient."""
    n = len(time)
    evaluation = finegray_direct(eta, time, status, strata, weights, censor_groups, km_ties)
    c, stratum, group = case_weights(n, weights), codes(n, strata), codes(n, censor_groups)
    event = (status == 1) & (c > 0)
    scores = np.zeros(X.shape)
    expected = []  # by atom: what every row is expected to add to the gradient
    for atom in evaluation.atoms:
        centred = X - atom.p @ X
        died = event & (stratum == atom.stratum) & (time == atom.time)
        scores[died] += c[died, None] * centred[died]
        expected.append(atom.weight * atom.p[:, None] * centred)
        scores -= expected[-1]
    for g in np.unique(group):
        member = (group == g) & (c > 0)
        for u in np.unique(time[member & (status == 0)]):
            at_risk = member & (time >= u)
            if km_ties == "events_first":
                at_risk &= (time > u) | (status == 0)
            lost = member & (time == u) & (status == 0)
            stays = member & (status == 2) & (time < u)
            q = np.zeros(X.shape[1])
            for atom, part in zip(evaluation.atoms, expected, strict=True):
                if atom.time >= u:
                    q += part[stays].sum(axis=0)
            total = c[at_risk].sum()
            scores += np.outer(c * lost, q / total)
            scores -= np.outer(c * at_risk, q * c[lost].sum() / total**2)
    return scores
