"""Writes diagnostics.json: R-hat and effective sample sizes of arviz-stats.

Run, with arviz-stats 0.8.0 installed:  python make_diagnostics.py [diagnostics.json]

Its rank-normalized R-hat wants two chains; of one, it is made of the steps that arviz-stats makes
of several.  What it calls a warning and a missing number (constant draws) is not asked for.
"""

import sys
import warnings
from pathlib import Path

import arviz_stats
import numpy as np
import scipy
from arviz_stats.base import array_stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from oracles.chains import KINDS, N_PARAMETERS, make_draws
from oracles.published.certify import write


def r_hat(draws):
    if len(draws) > 1:
        return array_stats.rhat(draws, method="rank")
    halves = array_stats._split_chains(draws)
    folded = np.abs(halves - np.median(halves))
    return max(array_stats._rhat(array_stats._z_scale(part)) for part in (halves, folded))


def diagnose(name):
    draws = [make_draws(name)[:, :, k] for k in range(N_PARAMETERS)]
    return {
        "name": name,
        "r_hat": [float(r_hat(values)) for values in draws],
        "ess_bulk": [float(array_stats.ess(values, method="bulk")) for values in draws],
        "ess_tail": [
            float(array_stats.ess(values, method="tail", prob=(0.05, 0.95))) for values in draws
        ],
    }


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "diagnostics.json")
    origin = (
        f"arviz-stats {arviz_stats.__version__}, NumPy {np.__version__}, SciPy "
        f"{scipy.__version__}; written by make_diagnostics.py"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write({"origin": origin, "cases": [diagnose(name) for name in KINDS]}, path)
