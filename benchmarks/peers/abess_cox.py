"""abess' best subset for Cox models: another problem, whose objective is the likelihood alone.

Usage: abess_cox.py PROBLEM_DIR OUT.json TOLERANCE, of its Newton steps (its default is 1e-8)

It looks for the best ten columns, without shrinkage: objective and KKT residual of the lasso say
nothing of it.
"""

import numpy as np
from peer_problem import Answer, quietly, require, skip, timed_run, tolerance

abess = require("abess")
TOLERANCE, N_COLUMNS = tolerance(1e-8), 10
LARGEST_DENSE_BYTES = 4e9


def prepare(problem):
    if 8.0 * np.prod(problem.shape) > LARGEST_DENSE_BYTES:
        skip("the dense X that this peer needs is too large")
    return problem.matrix.toarray(), np.column_stack([problem["time"], problem["event"]])


def fit(problem, prepared):
    size = min(N_COLUMNS, problem.shape[1])
    model = abess.CoxPHSurvivalAnalysis(
        support_size=[size], primary_model_fit_epsilon=TOLERANCE, thread=1
    )
    _, warned = quietly(lambda: model.fit(*prepared, is_normal=False))
    note = f"OTHER OBJECTIVE: the best {size} columns"
    return Answer(model.coef_, "; ".join([note, *warned]))


timed_run("abess", abess.__version__, prepare, fit)
