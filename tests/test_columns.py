"""Columns that are all of one kind: their own, shorter code has the results of that for any."""

import numpy as np
import pytest

from sksurvgpu import CoxLassoCCD, datasets
from sksurvgpu.backends.cpu import products
from sksurvgpu.backends.cpu.columns import Columns, DenseColumns, IndicatorColumns
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads


def open_session(form, time_varying):
    data = datasets.simulate_cox(300, 5, density=0.2, random_state=0)
    X = data.X
    if form is not IndicatorColumns:
        X = X.toarray() + np.random.default_rng(0).random(X.shape)
    if form is Columns:
        X[:, ::2] = X[:, ::2] > 1.0
    varying = {0: [float(np.median(data.y["time"]))]} if time_varying else None
    problem = CoxLassoCCD(time_varying=varying)._prepare(X, data.y).problem
    return Session(problem, None, None, Threads(1))


@pytest.mark.parametrize("time_varying", [False, True])
@pytest.mark.parametrize("form", [IndicatorColumns, DenseColumns, Columns])
def test_narrow_columns_have_the_results_of_all(form, time_varying):
    session = open_session(form, time_varying)
    narrow, columns = session.columns, np.arange(session.n_columns)
    assert type(narrow) is form
    results = []
    for X in (narrow, Columns(*narrow)):
        out, eta = np.empty((2, len(columns))), np.zeros(len(session.eta))
        u = np.random.default_rng(1).standard_normal(len(eta))
        products.gradient_of_columns(X, columns, u, out[0])
        products.absolute_products(X, columns, abs(u), out[1])
        products.add_product(X, columns, 1.0 + columns, 20, X.n_base - 30, eta)
        results.append(np.concatenate([*out, eta]))
    assert np.array_equal(*results) and results[0].any()
