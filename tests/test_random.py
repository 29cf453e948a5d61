"""The counter-based generator and the variables made of it.

Statistical tests have fixed seeds; their bounds are such that a correct sampler fails a test under
another seed with probability 1e-4 at most.
"""

import math
from itertools import combinations, product
from types import FunctionType

import numpy as np
import pytest
from grids import thin
from scipy import stats
from scipy.special import log_ndtr

from sksurvgpu.backends import polya_gamma
from sksurvgpu.backends import random as formulas
from sksurvgpu.backends.cpu.random import Random

WORDS = 2**32 - 1
SIZE = 50_000


def words(*values):
    return tuple(np.uint64(value) for value in values)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        # Known answers of Random123 1.14 (kat_vectors, philox4x32 with 10 rounds).
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (WORDS, WORDS, WORDS, WORDS),
            (WORDS, WORDS),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter, key, expected):
    assert formulas.philox(*words(*counter), *words(*key)) == expected


def test_uniforms_are_inside_the_interval():
    assert formulas.open_uniform(*words(0, 0)) == 2.0**-53
    assert formulas.open_uniform(*words(WORDS, WORDS)) == 1 - 2.0**-53
    # Both words count, in order; the lowest bits of the second are not used.
    assert formulas.open_uniform(*words(1, 0)) == 2.0**-32 + 2.0**-53
    assert formulas.open_uniform(*words(0, 2**12)) == 1.5 * 2.0**-52
    assert formulas.open_uniform(*words(0, 2**12 - 1)) == 2.0**-53


def test_uniform_distribution():
    u = Random(1, [0, 1]).uniform(0, SIZE)
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-4


ADDRESS = {"seed": 3, "chain": 1, "iteration": 2, "site": 4, "block": 0}


def uniforms_at(size=20_000, **fields):
    """The two uniforms of items 0, 1, ... at an address."""
    seed, chain, iteration, site, block = {**ADDRESS, **fields}.values()
    key = words(seed, chain)
    return np.array(
        [
            formulas.two_uniforms(formulas.Address(*key, *words(item, iteration, site)), block)
            for item in range(size)
        ]
    )


@pytest.mark.thorough(but=r"item|chain|seed")
@pytest.mark.parametrize("field", [*ADDRESS, "item"])
def test_addresses_are_independent(field):
    """Neighbours in one field: two uniforms of either address, in all pairs, by a 2-D chi-square.

    12 statistics a field, each beyond its bound with a probability of 1e-6.
    """
    here = uniforms_at()
    is_item = field == "item"
    there = np.roll(here, 1, axis=0) if is_item else uniforms_at(**{field: ADDRESS[field] + 1})
    columns = np.column_stack([here, there])
    for a, b in combinations(range(4), 2):
        table, _, _ = np.histogram2d(columns[:, a], columns[:, b], bins=16, range=[[0, 1]] * 2)
        assert stats.chisquare(table.ravel()).pvalue > 1e-6
        assert abs(np.corrcoef(columns[:, a], columns[:, b])[0, 1]) < 5.0 / math.sqrt(len(columns))


def test_no_address_is_used_twice():
    """Every combination of three values of every field: no two add up to the same."""
    seen = set()
    for *address, block in product(range(3), repeat=6):
        seen.update(formulas.two_uniforms(formulas.Address(*words(*address)), block))
    assert len(seen) == 2 * 3**6


def test_where_fields_and_words_are():
    """Stored results can be reproduced only while this stays as it is."""
    r0, r1, r2, r3 = formulas.philox(*words(6, 3, 4, 5), *words(1, 2))
    found = formulas.two_uniforms(formulas.Address(*words(1, 2, 3, 4, 5)), 6)
    assert found == (formulas.open_uniform(r0, r1), formulas.open_uniform(r2, r3))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("normal", ()),
        ("gamma", (1.0,)),
        ("gamma", (0.3,)),
        ("inverse_gaussian", (2.0, 1.0)),
        ("polya_gamma", (4, 2.0)),
        ("polya_gamma", (4, 9.0)),
    ],
)
def test_a_draw_reads_every_block_once(name, arguments):
    """Attempts and terms of a sum share no block: 0, 1, 2, ... are read, in order."""
    read = []

    def two_uniforms(address, block):
        read.append(block)
        return formulas.two_uniforms(address, block)

    plain = as_python([formulas, polya_gamma], two_uniforms=two_uniforms)
    lengths = set()
    for item in range(200):
        read.clear()
        plain[name](formulas.Address(*words(1, 2, item, 3, 4)), *arguments)
        assert read == list(range(len(read)))
        lengths.add(len(read))
    # Where attempts can fail, some did.
    assert (len(lengths) > 1) == (name in ("gamma", "polya_gamma"))


def as_python(modules, **replaced):
    """Formulas of some modules as functions of Python that call one another, some replaced."""
    space = {}
    for module in modules:
        for name, value in vars(module).items():
            plain = getattr(value, "py_func", None)
            space[name] = value if plain is None else FunctionType(plain.__code__, space, name)
            if plain is not None:
                space[name].__defaults__ = plain.__defaults__
    space.update(replaced)
    return space


def draws_of(random, size=50):
    """One array of every kind."""
    rows = len(random.chains)
    shape = np.full((rows, size), 0.7)
    return {
        "normal": random.normal(1, size),
        "uniform": random.uniform(2, size),
        "gamma": random.gamma(3, shape),
        "log_gamma": random.log_gamma(4, shape),
        "inverse_gaussian": random.inverse_gaussian(5, 2 * shape, shape),
        "polya_gamma": random.polya_gamma(6, np.arange(size) % 4, 3 * shape),
    }


def test_draws_depend_on_their_address_only():
    """Any batch of chains, any number of items, in any order, gives the same numbers."""
    together = Random(8, [0, 5, WORDS])
    together.iteration = 7
    batch = draws_of(together)
    for row, chain in enumerate([0, 5, WORDS]):
        alone = Random(8, [chain])
        alone.iteration = 7
        for name, found in reversed(draws_of(alone, size=20).items()):
            assert np.array_equal(found[0], batch[name][row, :20]), name


def test_every_draw_differs():
    """No two chains, iterations, seeds or sites share a number."""
    seen = []
    for seed in (0, 1):
        random = Random(seed, [0, 1, 2])
        for iteration in (0, 1, 2):
            random.iteration = iteration
            seen.extend(random.normal(site, 30).ravel() for site in (0, 1, 2**16))
    seen = np.concatenate(seen)
    assert np.unique(seen).size == seen.size


@pytest.mark.parametrize(
    ("arguments", "iteration", "site", "error", "words"),
    [
        ((-1, [0]), 0, 0, ValueError, "`seed` is -1, must be from 0 to 4,294,967,295"),
        ((2**32, [0]), 0, 0, ValueError, "`seed` is 4,294,967,296, must be from 0"),
        ((1.5, [0]), 0, 0, TypeError, "`seed` is of dtype float64; pass integers"),
        ((0, [0, 2**32]), 0, 0, ValueError, "`chains` is 4,294,967,296, must be from 0"),
        ((0, [-3]), 0, 0, ValueError, "`chains` is -3, must be from 0"),
        ((0, [0]), 2**32, 0, ValueError, "`iteration` is 4,294,967,296, must be from 0"),
        ((0, [0]), -1, 0, ValueError, "`iteration` is -1, must be from 0"),
        ((0, [0]), 0, 2**32, ValueError, "`site` is 4,294,967,296, must be from 0"),
        ((0, [0]), 0, 0.0, TypeError, "`site` is of dtype float64; pass integers"),
    ],
)
def test_bad_addresses(arguments, iteration, site, error, words):
    with pytest.raises(error, match=words):  # noqa: PT012 (either line may be the one)
        random = Random(*arguments)
        random.iteration = iteration
        random.normal(site, 2)


def test_too_many_items():
    with pytest.raises(ValueError, match="`size` is 4,294,967,297, must be from 0"):
        Random(0, np.zeros(0, int)).normal(0, 2**32 + 1)


def test_cosine_of_turns():
    turns = np.linspace(0, 1, 10_001)
    found = np.array([formulas.cos_turns(t) for t in turns])
    exact = np.cos(2 * np.pi * turns)
    assert np.abs(found - exact).max() < 1e-15
    # Near the zeros the relative error is as small: angles of a power of two times pi.
    for tiny in (2.0**-20, 2.0**-50):
        assert formulas.cos_turns(0.25 - tiny) == pytest.approx(2 * np.pi * tiny, rel=1e-10)
        assert formulas.cos_turns(0.75 - tiny) == pytest.approx(-2 * np.pi * tiny, rel=1e-10)


def test_normals():
    z = Random(2, [0]).normal(0, 1_000_000)[0]
    assert stats.kstest(z, "norm").pvalue > 2e-5
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - moment) < 4.7 * math.sqrt(variance / z.size)
    for bound in (3.0, 4.0):
        for tail in (np.count_nonzero(z > bound), np.count_nonzero(z < -bound)):
            assert stats.binomtest(tail, z.size, stats.norm.sf(bound)).pvalue > 5e-6


@pytest.mark.thorough(but=r"0\.001|\[3|0\.99")
@pytest.mark.parametrize("shape", thin(3, [1e-3, 0.1, 0.5, 1 - 1e-9, 1, 1.5, 3, 30, 1e4, 1e8]))
def test_gamma(shape):
    random = Random(4, [0])
    shapes = np.full((1, 30_000), shape)
    value = random.gamma(0, shapes)[0]
    # What would underflow is the smallest normal number; the others have their distribution.
    smallest = np.finfo(float).tiny
    assert np.all(value >= smallest)
    above = stats.gamma.sf(smallest, shape)
    kept = value[value > smallest]
    assert stats.binomtest(kept.size, value.size, min(above, 1.0)).pvalue > 1e-6
    assert stats.kstest(stats.gamma.sf(kept, shape) / above, "uniform").pvalue > 1e-6
    logarithm = random.log_gamma(0, shapes)[0]
    assert np.exp(logarithm[value > smallest]) == pytest.approx(kept, rel=1e-12)


def test_logarithm_of_tiny_gamma():
    """For a small shape, -shape * log of the variable is exponential, but for terms of shape**2."""
    shape = 1e-6
    logarithm = Random(4, [0]).log_gamma(0, np.full((1, SIZE), shape))[0]
    assert np.all(np.isfinite(logarithm))
    assert stats.kstest(-shape * logarithm, "expon").pvalue > 5e-5


def test_gamma_of_huge_shapes():
    shape = np.array([1e12, 1e16, 1e30, 1e100, 1e300])
    value = Random(4, [0]).gamma(0, np.repeat(shape, 1000)[None]).reshape(5, 1000)
    assert np.all(np.abs(value / shape[:, None] - 1) < 6 / np.sqrt(shape[:, None]) + 1e-15)
    z = (value[0] - shape[0]) / np.sqrt(shape[0])
    assert stats.kstest(z, "norm").pvalue > 5e-5


def test_what_is_no_distribution_gives_nan():
    random = Random(0, [0])
    bad = np.array([[0.0, -1.0, np.nan, np.inf, -np.inf]])
    assert np.isnan(random.gamma(0, bad)).all()
    assert np.isnan(random.log_gamma(0, bad)).all()
    ones = np.ones((1, 4))
    bad = np.array([[0.0, -1.0, np.nan, -np.inf]])
    assert np.isnan(random.inverse_gaussian(0, bad, ones)).all()
    assert np.isnan(random.inverse_gaussian(0, ones, bad)).all()


def inverse_gaussian_cdf(x, mean, shape):
    """In logarithms: the second term of the usual formula is a product of 0 and infinity."""
    root = np.sqrt(shape / x)
    second = 2 * shape / mean + log_ndtr(-root * (x / mean + 1))
    return np.exp(log_ndtr(root * (x / mean - 1))) + np.exp(second)


@pytest.mark.parametrize("mean", [1e-3, 1.0, 1e3, 1e6, 1e9, 1e12, np.inf])
def test_inverse_gaussian(mean):
    value = Random(6, [0]).inverse_gaussian(0, np.full((1, SIZE), mean), np.full((1, SIZE), 2.0))[0]
    assert np.all(value > 0)
    assert stats.kstest(inverse_gaussian_cdf(value, mean, 2.0), "uniform").pvalue > 1e-5


@pytest.mark.parametrize("shape", [1e-300, 1e-12, 1e-3, 1e3, 1e12])
def test_shapes_of_inverse_gaussian(shape):
    """Also scaled by its mean: mean times the variable of mean 1 and shape / mean."""
    for mean in (1.0, 1e5):
        value = Random(6, [0]).inverse_gaussian(
            0, np.full((1, SIZE // 2), mean), np.full((1, SIZE // 2), shape)
        )[0]
        assert np.all(value > 0)
        assert stats.kstest(inverse_gaussian_cdf(value, mean, shape), "uniform").pvalue > 1e-5


def test_inverse_gaussian_of_infinite_mean_is_shape_over_chi_square():
    """Of the same address: the limit of large means, draw for draw."""
    random, shape = Random(6, [0]), np.full((1, 1000), 3.0)
    limit = random.inverse_gaussian(0, np.full((1, 1000), np.inf), shape)
    assert random.inverse_gaussian(0, np.full((1, 1000), 1e200), shape) == pytest.approx(
        limit, rel=1e-12
    )
    assert stats.kstest(3.0 / limit[0], "chi2", (1,)).pvalue > 5e-5


def test_certain_inverse_gaussian():
    one = np.ones((1, 3))
    mean = np.array([[2.0, 1e-300, 1e300]])
    assert Random(0, [0]).inverse_gaussian(0, mean, np.inf * one) == pytest.approx(mean, rel=1e-12)
