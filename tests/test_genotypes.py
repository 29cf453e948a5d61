"""Genotypes of .bed files: fits on them are those on the same numbers, and files are checked."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LogisticCCD,
    competing_risks,
    fit_path,
    read_bed,
    surv,
    wald,
)

N, P = 203, 30  # persons do not fill the last byte
TEXT = {0: "11", 1: "01", 2: "00", -1: "10"}  # bits of a genotype as PLINK's documents show them


def write(stem, copies, ids=None, alleles="AG"):
    """Write files by the documents of PLINK: every byte is a text of bits, read from its end."""
    content = bytearray.fromhex("6c1b01")
    for of_variant in copies.T:
        for first in range(0, len(copies), 4):
            bits = "".join(TEXT[int(x)][::-1] for x in of_variant[first : first + 4][::-1])
            content.append(int(bits, 2))
    Path(f"{stem}.bed").write_bytes(content)
    persons = [f"f{i} 0{i} 0 0 {1 + i % 2} -9\n" for i in range(len(copies))]
    Path(f"{stem}.fam").write_text("".join(persons))
    ids = [f"rs{j}" for j in range(copies.shape[1])] if ids is None else ids
    a1, a2 = alleles
    lines = [f"{1 + j % 3}\t{ids[j]}\t0.5\t{100 + j}\t{a1}\t{a2}\n" for j in range(len(ids))]
    Path(f"{stem}.bim").write_text("".join(lines))
    return stem


def draw(seed=0, n=N, p=P):
    rng = np.random.default_rng(seed)
    copies = rng.binomial(2, rng.uniform(0.02, 0.5, p), (n, p))
    copies[rng.random((n, p)) < 0.05] = -1
    copies[:, 1] = np.abs(copies[:, 1])  # without missing ones
    return copies


def filled(copies):
    known = np.where(copies < 0, np.nan, copies)
    return np.where(copies < 0, np.nanmean(known, axis=0), known)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    copies = draw()
    return read_bed(write(tmp_path_factory.mktemp("bed") / "a.b", copies)), filled(copies)


@pytest.fixture(scope="module")
def outcome(given):
    rng, signal = np.random.default_rng(1), given[1][:, :4].sum(axis=1)
    time = np.ceil(20 * rng.exponential(np.exp(-0.5 * signal)) / np.exp(-signal.mean()))
    return rng.integers(0, 3, N), time


def test_columns(given):
    genotypes, expected = given
    X = genotypes.X
    np.testing.assert_allclose(X.to_scipy().toarray(), expected, rtol=1e-15)
    np.testing.assert_allclose(X.dot(np.arange(P)), expected @ np.arange(P), rtol=1e-13)
    assert X.names[:2].tolist() == ["rs0_A", "rs1_A"]
    assert genotypes.persons["iid"][7] == "07"
    assert genotypes.persons["sex"].dtype.kind == "i"
    table = X.stored().describe()
    np.testing.assert_allclose(genotypes.variants["mean"], table["mean"], rtol=1e-13)
    np.testing.assert_allclose(genotypes.variants["sd"], table["sd"], rtol=1e-12)
    assert genotypes.variants["missing"][1] == 0 < genotypes.variants["missing"][0]
    assert repr(genotypes).startswith("<Genotypes of 203 persons and 30 variants>\n")


def test_the_other_allele_and_other_means(given, tmp_path):
    copies = draw(3)
    stem = write(tmp_path / "a", copies)
    other = read_bed(f"{stem}.bed", count="A2", n_threads=2)
    np.testing.assert_allclose(other.X.to_scipy().toarray(), 2 - filled(copies), atol=1e-15)
    assert other.X.names[0] == "rs0_G"
    X = read_bed(stem, missing=given[0].variants["mean"]).X.to_scipy().toarray()
    at = np.argwhere(copies == -1)[0]
    assert X[tuple(at)] == given[0].variants["mean"][at[1]]


@pytest.mark.parametrize("rows", [np.arange(N), [5, 5, 2, 201, 7, 5], np.arange(N) % 3 > 0])
def test_rows(given, rows):
    X, expected = given[0].X[rows], given[1][rows]
    np.testing.assert_array_equal(
        X.to_scipy().toarray(), given[0].X.stored()[rows].to_scipy().toarray()
    )
    np.testing.assert_allclose(X[::2].to_scipy().toarray(), expected[::2], rtol=1e-15)
    np.testing.assert_allclose(X.dot(np.ones(P)), expected.sum(axis=1), rtol=1e-13)
    weight = np.random.default_rng(2).normal(size=len(expected))
    label = np.arange(len(expected), dtype=np.uint16) % 3
    block, columns, form = X.blocks[0], np.array([0, 2, 9]), 2
    one = (expected[:, columns] ** 2).T @ weight
    np.testing.assert_allclose(block.sums(columns, weight, form)[:, 0], one, rtol=1e-12, atol=1e-12)
    by_label = block.sums(columns, weight, form, label, 3)
    three = (expected[:, columns] ** 2).T @ (weight[:, None] * (label[:, None] == np.arange(3)))
    np.testing.assert_allclose(by_label, three, rtol=1e-12, atol=1e-12)


MODELS = {
    "cox": (CoxLassoCCD(alpha=0.02), lambda cause, time: surv(cause > 0, time)),
    "logistic": (LogisticCCD(alpha=0.01), lambda cause, time: cause == 1),
    "fine-gray": (FineGrayCCD(alpha=0.01), competing_risks),
}


@pytest.mark.parametrize("name", MODELS)
def test_fits(name, given, outcome):
    model, of = MODELS[name]
    X, y = given[0].X, of(*outcome)
    computed, stored = model.fit(X, y).coef_.copy(), model.fit(X.stored(), y)
    assert np.count_nonzero(computed) > 3
    np.testing.assert_allclose(computed, stored.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(stored.predict(X), stored.predict(X.stored()), rtol=0, atol=1e-10)


def test_inference_paths_and_cross_validation(given, outcome):
    X, y = given[0].X, surv(outcome[0] > 0, outcome[1])
    errors = [wald(CoxLassoCCD(alpha=0.0).fit(Z[:, :6], y), Z[:, :6], y) for Z in (X, X.stored())]
    np.testing.assert_allclose(errors[0].standard_errors, errors[1].standard_errors, rtol=1e-10)
    paths = [fit_path(CoxLassoCCD(alpha=0.1), Z, y, n_alphas=5) for Z in (X, X.stored())]
    np.testing.assert_allclose(paths[0].coefs, paths[1].coefs, rtol=0, atol=1e-10)
    chosen = [CoxLassoCV(n_alphas=4, cv=3).fit(Z, y) for Z in (X, X.stored())]
    assert chosen[0].alpha_ == pytest.approx(chosen[1].alpha_)
    np.testing.assert_allclose(chosen[0].coef_, chosen[1].coef_, rtol=0, atol=1e-10)


def test_pickles_name_the_file(given, outcome):
    X, y = given[0].X, surv(outcome[0] > 0, outcome[1])
    content = pickle.dumps(X)
    assert b"a.b.bed" in content
    same = pickle.loads(content)
    np.testing.assert_array_equal(same.to_scipy().toarray(), X.to_scipy().toarray())
    search = GridSearchCV(CoxLassoCCD(), {"alpha": [0.02, 0.1]}, cv=2).fit(X, y)
    again = GridSearchCV(CoxLassoCCD(), {"alpha": [0.02, 0.1]}, cv=2).fit(same.stored(), y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"], rtol=1e-10
    )


def test_names(tmp_path):
    stem = write(tmp_path / "a", draw(p=4), ids=["rs1", ".", "rs1", "rs2"])
    assert read_bed(stem).X.names.tolist() == ["1:100:A:G_A", "2:101:A:G_A", "3:102:A:G_A", "rs2_A"]
    table = "1 . 0 5 A G\n" * 2 + "1 . 0 5 T G\n1 NA 0 6 A G\n"
    stem.with_suffix(".bim").write_text(table)
    found = read_bed(stem, count="A2").X.names.tolist()
    assert found == ["1:5:A:G_G", "1:5:A:G_G:2", "1:5:T:G_G", "NA_G"]


def change(stem, suffix, function):
    path = stem.with_suffix(suffix)
    path.write_bytes(function(path.read_bytes()))


MISTAKES = {
    r"a\.bed has 106 bytes, 4 variants .* take 107: it was cut off": (".bed", lambda b: b[:-1]),
    r"a\.bed has 109 bytes, .* it is longer": (".bed", lambda b: b + b"\0\0"),
    r"a\.bed is no \.bed file": (".bed", lambda b: b"\x6c\x1c" + b[2:]),
    r"a\.bed is no \.bed file .* begin with 6c 1b": (".bed", lambda b: b""),
    r"a\.bed has its genotypes person by person": (".bed", lambda b: b[:2] + b"\0" + b[3:]),
    r"a\.bim has 4 columns, must have six: chromosome": (".bim", lambda b: b"1 rs 0 5\n" * 4),
    r"a\.fam is no table": (".fam", lambda b: b""),
    r"variant 2 \(rs2_A\) is missing in all 103 persons": (
        ".bed",
        lambda b: b[:55] + b"\x55" * 26 + b[81:],
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_in_files(message, tmp_path):
    stem = write(tmp_path / "a", draw(n=103, p=4))
    change(stem, *MISTAKES[message])
    with pytest.raises(ValueError, match=message):
        read_bed(stem)


@pytest.mark.parametrize("suffix", [".bed", ".bim", ".fam"])
def test_files_that_are_not_there(suffix, tmp_path):
    stem = write(tmp_path / "a", draw(n=9, p=4))
    stem.with_suffix(suffix).unlink()
    with pytest.raises(FileNotFoundError, match=rf"there is no .*a\{suffix};"):
        read_bed(stem)


def test_options(tmp_path):
    stem = write(tmp_path / "a", draw(n=9, p=4))
    with pytest.raises(ValueError, match="`count` is 'A3', must be one of"):
        read_bed(stem, count="A3")
    with pytest.raises(ValueError, match=r"`missing` is .zero., must be .* for each variant"):
        read_bed(stem, missing="zero")
    with pytest.raises(ValueError, match="`missing` has 2 numbers, the file has 4 variants"):
        read_bed(stem, missing=pd.Series([1.0, 2.0]))
