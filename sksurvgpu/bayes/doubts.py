"""Doubts about draws, as messages: limits of Vehtari et al. (2021)."""

import numpy as np

LARGEST_R_HAT = 1.01
FEWEST_EFFECTIVE = 100  # independent draws a chain that the bulk should be worth
ROUNDING = 1e-12  # of a mean, and so of the standard deviation of what never changes


def badness(table, n_chains):
    """How far diagnostics are beyond their limits, which are 1; minus infinity where unknown."""
    excess = (table["r_hat"].to_numpy() - 1.0) / (LARGEST_R_HAT - 1.0)
    lack = FEWEST_EFFECTIVE * n_chains / table["ess_bulk"].to_numpy()
    worse = np.fmax(excess, lack)
    return np.where(np.isnan(worse), -np.inf, worse)


def doubts_about(table, mean, sd, schedule, n_draws) -> list[str]:
    """Sentences about diagnostics beyond their limits, each with the worst parameter.

    Means and standard deviations are those of the rows of the table.
    """
    still = table["ess_bulk"].isna() & (sd <= ROUNDING * np.abs(mean))
    found = _without_end(table.index[~np.isfinite(mean)], len(table))
    found += _stillness(table.index[still], len(table))
    if not table["r_hat"].isna().all():
        return found + _disagreement(table, schedule) + _dependence(table, schedule, n_draws)
    return [
        *found,
        "no parameter has diagnostics: they need four draws a chain, not all the same, and "
        f"there are {n_draws:,}; raise n_draws={schedule.n_draws:,}.",
    ]


def _without_end(labels, n_parameters):
    if not len(labels):
        return []
    return [
        f"draws are NaN or infinite: of {len(labels):,} of {n_parameters:,} parameters, first of "
        f"{labels[0]}; rescale columns or outcome, or choose narrower priors."
    ]


def _stillness(labels, n_parameters):
    if not len(labels):
        return []
    return [
        f"no chain moves: all draws are the same of {len(labels):,} of {n_parameters:,} "
        f"parameters, first of {labels[0]}; rescale columns or outcome, or give a wider prior."
    ]


def _disagreement(table, schedule):
    n_beyond = np.count_nonzero(table["r_hat"] > LARGEST_R_HAT)
    if n_beyond == 0:
        return []
    return [
        f"the chains disagree: R-hat is above {LARGEST_R_HAT:g} for {n_beyond:,} of "
        f"{len(table):,} parameters, {table['r_hat'].max():.4g} for {table['r_hat'].idxmax()}; "
        f"raise n_tune={schedule.n_tune:,} and n_draws={schedule.n_draws:,}, or give a "
        "stronger prior."
    ]


def _dependence(table, schedule, n_draws):
    wanted = FEWEST_EFFECTIVE * schedule.n_chains
    n_below = np.count_nonzero(table["ess_bulk"] < wanted)
    if n_below == 0:
        return []
    return [
        f"the draws are worth too few independent ones: bulk ESS is below {wanted:,} for "
        f"{n_below:,} of {len(table):,} parameters, {table['ess_bulk'].min():.3g} of "
        f"{schedule.n_chains * n_draws:,} draws for {table['ess_bulk'].idxmin()}; raise "
        f"n_draws={schedule.n_draws:,}, with a larger thin={schedule.thin:,} if they take too "
        "much room, or give a stronger prior."
    ]


def doubts_of_divergence(samplers) -> list[str]:
    """A sentence on the trajectories of samplers that have diverged, if there are any."""
    found = {
        chain: n
        for sampler in samplers
        if hasattr(sampler, "n_divergent")
        for chain, n in zip(sampler.sampling.chains, sampler.n_divergent, strict=True)
        if n
    }
    if not found:
        return []
    n_divergent = sum(found.values())
    return [
        f"{n_divergent:,} {'trajectory' if n_divergent == 1 else 'trajectories'} after tuning "
        f"diverged, in {'chain' if len(found) == 1 else 'chains'} {', '.join(map(str, found))}: "
        "the posterior is far from normal, and draws may miss a part of it; a prior with a larger "
        "precision helps."
    ]
