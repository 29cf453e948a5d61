"""Writes large_strata.json: matched sets of up to 5,000 rows in 60 digits (about a minute).

Run:  python make_large_strata.py [large_strata.json]

Layout: the predictors of the rows of one set are every entry of `eta` repeated as `counts` says;
`cases` of the rows are cases.  `log_b` is log B, the logarithm of the sum over all sets of `cases`
rows of e^(sum of their eta), so that loglik = (sum of eta over the cases) - log_b.  `pi` is the
probability of being a case, by entry of `eta`.  See clogit_extended in reference_conditional.py.
"""

import sys
from decimal import localcontext
from pathlib import Path
from statistics import NormalDist

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from oracles.published.certify import write
from oracles.reference_conditional import clogit_extended

# Rows, cases and standard deviation of eta.
STRATA = [
    (200, 1, 2.0),
    (200, 100, 1.0),
    (200, 199, 3.0),
    (1000, 30, 2.0),
    (1000, 970, 5.0),
    (1000, 500, 0.0),
    (3000, 1500, 4.0),
    (5000, 2500, 1.0),
    (5000, 2500, 15.0),
    (5000, 60, 0.5),
]
N_VALUES = 200


def stratum(n_rows, n_cases, spread):
    quantiles = [NormalDist().inv_cdf((k + 0.5) / N_VALUES) for k in range(N_VALUES)]
    eta = np.round(64 * spread * np.array(quantiles)) / 64
    counts = np.full(N_VALUES, n_rows // N_VALUES)
    if counts[0] > 2:
        counts += (np.arange(N_VALUES) * 77) % 5 - 2  # sums to zero
    rows = np.repeat(eta, counts)
    extended = clogit_extended(rows, n_cases)
    with localcontext() as context:
        context.prec = 60
        assert abs(sum(extended.pi) - n_cases) < 1e-40
    return {
        "name": f"{n_rows} rows, {n_cases} cases, spread {spread:g}",
        "cases": n_cases,
        "eta": eta.tolist(),
        "counts": counts.tolist(),
        "log_b": float(extended.log_b),
        "pi": extended.pi[np.cumsum(counts) - 1].astype(float).tolist(),
    }


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "large_strata.json")
    origin = "Decimal arithmetic of 60 digits; written by make_large_strata.py"
    write({"origin": origin, "strata": [stratum(*shape) for shape in STRATA]}, path)
