"""Whether tests would notice a missing barrier or fence: remove each in turn and see.

A run is a function ``run(seed, without)`` that does a whole computation in simulations without the
given sites, as ``SimulatedDevice(seed=seed, without=without)`` or `simulate` does, and returns its
result.
"""

from __future__ import annotations

from .intrinsics import recorded_sites
from .memory import SimulationError


def removable_sites(run, seeds=(0,)):
    """Barriers and fences that a run meets: a set of `Site`."""
    with recorded_sites() as sites:
        for seed in seeds:
            run(seed, frozenset())
    return sites


def is_noticed(run, check, site, seeds):
    """Whether a removed site makes some seed fail: an error, or a result that `check` refuses."""
    for seed in seeds:
        try:
            result = run(seed, frozenset([site]))
        except SimulationError:
            return True
        if not check(result):
            return True
    return False


def survivors(run, check, seeds=range(20), sites=None):
    """Sites, of those given or met, whose removal goes unnoticed.

    `check` says whether a result is right; it must accept the untouched run with every seed.
    """
    for seed in seeds:
        if not check(run(seed, frozenset())):
            raise AssertionError(f"wrong with seed {seed} and nothing removed")
    sites = removable_sites(run) if sites is None else sites
    return [site for site in sorted(sites) if not is_noticed(run, check, site, seeds)]
