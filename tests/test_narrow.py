"""Columns in the type that a matrix has: fits on them are those on the same numbers in float64."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LogisticCCD,
    competing_risks,
    fit_path,
    keep_types,
    surv,
    wald,
)
from sksurvgpu.data.design import narrow
from sksurvgpu.data.design.kernels import ONE, SIZE, SQUARE, VALUE

N, P = 301, 40
FORMS = {VALUE: np.array, SIZE: np.abs, SQUARE: np.square, ONE: lambda x: 1.0 * (x != 0)}


def matrix(kind, order="F", seed=0):
    values = 3 * np.random.default_rng(seed).normal(size=(N, P))
    values = np.abs(values) if kind.startswith("u") else values
    return np.array(values > 0 if kind == "bool" else values, kind, order=order)


@pytest.fixture(params=["int8 F", "float32 C"])
def given(request):
    kind, order = request.param.split()
    X = keep_types(matrix(kind, order))
    rng = np.random.default_rng(1)
    signal = X.stored().to_scipy()[:, [0, 7]].sum(axis=1)
    return X, rng.integers(0, 3, N), np.ceil(9 * rng.exponential(np.exp(-0.2 * signal)))


KINDS = ["bool F", "int8 F", "int8 C", "uint16 F", "float16 F", "float16 C", "float32 C"]


@pytest.mark.thorough(but=r"bool|float16 F|int8 F|float32 C")  # fits need the kernels of these two
@pytest.mark.parametrize("kind", KINDS)
def test_sums(kind):
    values = matrix(*kind.split())
    X, rng = values.astype(np.float64), np.random.default_rng(2)
    block, numbers, label = keep_types(values).blocks[0], rng.normal(size=N), rng.integers(0, 3, N)
    of_label = numbers[:, None] * (label[:, None] == np.arange(3))
    for columns in (np.arange(P), np.array([1, 30]), np.array([4])):
        for form, part in FORMS.items():
            x = part(X[:, columns])
            np.testing.assert_allclose(block.sums(columns, numbers, form)[:, 0], x.T @ numbers)
            by_label = block.sums(columns, numbers, form, label.astype(np.uint16), 3)
            np.testing.assert_allclose(by_label, x.T @ of_label)
            out, coef = numbers.copy(), rng.normal(size=len(columns))
            block.add(columns, coef, form, out)
            np.testing.assert_allclose(out, numbers + x @ coef)


def test_a_matrix_is_not_copied_and_keeps_its_type():
    values = matrix("int8")
    assert keep_types(values).blocks[0].nbytes == values.nbytes == N * P
    X = keep_types(values, names=[f"c{j}" for j in range(P)])
    values[3, 5] = 99
    assert X[:, 5].dot([1.0])[3] == 99.0
    assert X[[4, 4, 1]].blocks[0].nbytes == 3 * P
    assert X[[3, 3, 1]][:, 5].to_scipy().toarray().ravel().tolist() == [99, 99, values[1, 5]]
    np.testing.assert_array_equal(keep_types(values[::2]).to_scipy().toarray(), values[::2])


MODELS = {
    "cox": (CoxLassoCCD(alpha=0.02), lambda cause, time: surv(cause > 0, time)),
    "logistic": (LogisticCCD(alpha=0.01), lambda cause, time: cause == 1),
    "fine-gray": (FineGrayCCD(alpha=0.01), competing_risks),
}


@pytest.mark.parametrize("name", MODELS)
def test_fits(name, given):
    X, *outcome = given
    model, of = MODELS[name]
    y = of(*outcome)
    computed, stored = model.fit(X, y).coef_.copy(), model.fit(X.stored(), y)
    assert np.count_nonzero(computed) > 1
    np.testing.assert_allclose(computed, stored.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(stored.predict(X), stored.predict(X.stored()), rtol=0, atol=1e-10)


def test_inference_paths_and_cross_validation(given):
    X, cause, time = given
    y = surv(cause > 0, time)
    errors = [wald(CoxLassoCCD(alpha=0.0).fit(Z[:, :6], y), Z[:, :6], y) for Z in (X, X.stored())]
    np.testing.assert_allclose(errors[0].standard_errors, errors[1].standard_errors, rtol=1e-10)
    paths = [fit_path(CoxLassoCCD(alpha=0.1), Z, y, n_alphas=5) for Z in (X, X.stored())]
    np.testing.assert_allclose(paths[0].coefs, paths[1].coefs, rtol=0, atol=1e-10)
    chosen = [CoxLassoCV(n_alphas=4, cv=3).fit(Z, y) for Z in (X, X.stored())]
    np.testing.assert_allclose(chosen[0].coef_, chosen[1].coef_, rtol=0, atol=1e-10)


def test_a_matrix_may_lie_in_a_file(tmp_path):
    values = matrix("float32", "C")
    np.save(tmp_path / "values.npy", values)
    y = np.arange(N) % 3 == 0
    mapped, held = (
        LogisticCCD(alpha=0.01).fit(keep_types(given), y).coef_
        for given in (np.load(tmp_path / "values.npy", mmap_mode="r"), values)
    )
    np.testing.assert_array_equal(mapped, held)


def test_mistakes():
    values = matrix("float32", "C")
    values[5, 3], values[6, 3], values[7, 8] = np.nan, np.inf, np.nan
    with pytest.raises(
        ValueError, match=r"`values` has 2 NaN or infinite value\(s\) in column 3 \(and 1"
    ):
        keep_types(values)
    with pytest.raises(ValueError, match="`names` has 2 entries, `values` has 40 columns"):
        keep_types(matrix("int8"), names=["a", "b"])
    with pytest.raises(ValueError, match=r"`values` has shape \(3,\), must be two-dimensional"):
        keep_types(np.zeros(3, np.int8))
    with pytest.raises(TypeError, match="`values` has dtype int64, must have one of bool, int8"):
        keep_types(np.zeros((3, 2), np.int64))


def test_sums_do_not_depend_on_who_has_which_columns():
    numbers = np.random.default_rng(3).normal(size=N)
    for kind, order in (("float32", "C"), ("float16", "F"), ("int8", "F")):
        block = keep_types(matrix(kind, order)).blocks[0]
        every = block.sums(np.arange(P), numbers, VALUE)
        for some in (np.array([0, 37]), np.arange(5, 9), np.array([12])):
            assert block.sums(some, numbers, VALUE).tobytes() == every[some].tobytes()


def test_rows_beyond_a_tile_and_columns_beyond_a_turn():
    rng, n_rows, n_columns = np.random.default_rng(4), narrow.TILE + 1234, narrow.AT_ONCE + 3
    numbers, coef, every = rng.normal(size=n_rows), rng.normal(size=n_columns), np.arange(n_columns)
    for kind in ("int8", "float32"):
        values = np.asfortranarray(rng.normal(0.0, 9.0, (n_rows, n_columns)).astype(kind))
        block, X, out = keep_types(values).blocks[0], values.astype(np.float64), numbers.copy()
        found = block.sums(every, numbers, VALUE)[:, 0]
        np.testing.assert_allclose(found, X.T @ numbers, rtol=1e-12, atol=1e-9)
        block.add(every, coef, VALUE, out)
        np.testing.assert_allclose(out, numbers + X @ coef, rtol=1e-12, atol=1e-12)


def test_frames_and_masks_are_refused():
    frame = pd.DataFrame(matrix("uint8"))
    with pytest.raises(TypeError, match="`values` is of type DataFrame, must be an array"):
        keep_types(frame)
    with pytest.raises(ValueError, match="`values` is a masked array"):
        keep_types(np.ma.masked_greater(matrix("uint8"), 1))
    with pytest.raises(ValueError, match="several columns named 'a'"):
        keep_types(matrix("uint8"), names=["a"] * P)
