"""A programme: all that is asked of sites follows from it, and each of them works it out itself.

It names an estimator of this package with its parameters, what is done after its fit, and the
times that may be told apart.  Whoever has read and accepted it knows every message that comes.
"""

import inspect
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..estimators._base import PenalizedModel
from ..penalties.spec import PenaltySpec
from .forms import printable
from .noise import Noise

FUNCTIONS = ("bootstrap", "fit_path", "profile_likelihood", "wald")  # that may follow a fit
COUNTS = "n_alphas", "n_repeats", "n_points", "n_replicates", "cv", "alphas", "l1_ratios", "values"
MOST = 1000  # of each: tables of so many are made before a site is asked for anything
OF_THE_SITE = {"n_jobs": 1, "verbose": 0, "folder": None}  # what each party has its own of


@dataclass(frozen=True)
class Programme:
    """A fit over sites, as all parties are told it.

    session        drawn by the coordinator, so that no two are alike
    sites          names, ascending
    estimator      JSON, see `text_of`
    then           JSON: pairs of a function of this package and its options
    grid           ascending times that may be told apart; none of a model without time
    rows_per_time  rows of each kind that sites shall have at a time
    level          matrix of the quadratic model, and the site whose matrix it is, or empty
    noise          JSON, see `Noise`, or empty
    """

    session: str
    sites: tuple[str, ...]
    estimator: str
    then: str
    grid: np.ndarray
    rows_per_time: int
    level: str
    matrix_of: str
    noise: str = ""

    @property
    def digest(self) -> bytes:
        """Name of the programme, on which keys and masks depend."""
        said: list[Any] = [self.session, list(self.sites), self.estimator, self.then]
        said += [self.rows_per_time, self.level, self.matrix_of, self.noise]
        code = sha256(b"sksurvgpu programme 1 " + json.dumps(said).encode())
        code.update(np.ascontiguousarray(self.grid, "<f8").tobytes())
        return code.digest()

    @property
    def has_wald(self) -> bool:
        """Whether matrices are more than a way to the fit."""
        return any(name == "wald" for name, _ in json.loads(self.then))

    def check_matrix(self) -> None:
        """Raise ValueError where standard errors would be of one site's matrix."""
        if self.matrix_of and self.has_wald and not len(self.grid):
            raise ValueError(
                "`wald` needs the matrix of all sites; take level='diagonal' or 'full', or "
                "`profile_likelihood`"
            )

    def __str__(self) -> str:
        """The programme in words, for who has to approve it."""
        said = json.loads(self.estimator)
        given = ", ".join(f"{k}={_in_words(v)}" for k, v in said["parameters"].items())
        others = ", ".join(self.sites)
        lines = [
            f"Fit {said['class']}({given}) over the rows of {len(self.sites)} sites: {others}."
        ]
        if self.noise:
            lines.append(str(Noise.read(self.noise)))
        if len(self.grid) and self.noise:
            lines.append(f"Times are rounded up to {len(self.grid):,}, the last {self.grid[-1]:g}.")
        elif len(self.grid):
            lines.append(
                f"Times are told apart at {len(self.grid):,} points from {self.grid[0]:g} to "
                f"{self.grid[-1]:g} at most, and only where each site has "
                f"{self.rows_per_time} rows of each kind, or as many as its rules ask for."
            )
        for name, options in then_of(self.then):
            given = ", ".join(f"{k}={v!r}" for k, v in options.items())
            lines.append(f"Then {name}({given}).")
            if options.get("robust"):
                lines.append("The sum of products of rows' scores, columns by columns, is told.")
        if self.level == "full":
            lines.append("The sum of the sites' matrices of columns by columns is told.")
        if self.level == "sample":
            whose = self.matrix_of
            lines.append(f"A matrix of columns by columns is told, that of site {whose} alone.")
        return "\n".join(map(printable, lines))


def _in_words(packed, most=60):
    if isinstance(packed, dict) and "class" in packed:
        given = ", ".join(f"{k}={_in_words(v)}" for k, v in packed["parameters"].items())
        return f"{packed['class']}({given})"
    if isinstance(packed, dict) and "pairs" in packed:  # of which keys may be anything
        text = ", ".join(f"{_in_words(k)}: {_in_words(v)}" for k, v in packed["pairs"])
        text = f"{{{text}}}"
    else:
        text = repr(packed["array"] if isinstance(packed, dict) else packed)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} letters)"


def text_of(estimator) -> str:
    """JSON of an estimator of this package and its parameters, those of the default left out."""
    return json.dumps(_pack(estimator, "estimator"), sort_keys=True)


def _pack(value, name) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return {"array": value.tolist()}
    if isinstance(value, list | tuple):
        return [_pack(item, name) for item in value]
    if isinstance(value, dict):
        return {"pairs": [[_pack(k, name), _pack(v, name)] for k, v in value.items()]}
    kind = type(value)
    if isinstance(value, BaseEstimator) and _class_named(kind.__name__) is kind:
        defaults = inspect.signature(kind).parameters
        given = {
            key: item
            for key, item in value.get_params(deep=False).items()
            if key not in OF_THE_SITE and not _is_default(item, defaults[key].default)
        }
        return {"class": kind.__name__, "parameters": {k: _pack(v, k) for k, v in given.items()}}
    raise TypeError(
        f"`{name}` is of type {kind.__name__}, and what sites are asked for is a text: numbers, "
        "text, arrays of these, and estimators and penalties of this package only."
    )


def _is_default(value, default):
    return type(value) is type(default) and not isinstance(value, np.ndarray) and value == default


def _class_named(name):
    """Estimator or penalty of this package, by the name that users know; None if there is none."""
    import sksurvgpu

    kind = getattr(sksurvgpu, name, None) if name in sksurvgpu.__all__ else None
    is_right = isinstance(kind, type) and issubclass(kind, PenalizedModel | PenaltySpec)
    return kind if is_right else None


def estimator_of(text: str) -> PenalizedModel:
    """Estimator of a text, which may be anybody's: of this package, or ValueError."""
    try:
        found = _unpack(json.loads(text))
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"its estimator cannot be read: {error}") from None
    if not isinstance(found, PenalizedModel):
        raise ValueError("its estimator is none of this package")
    _check_seed(found.get_params().get("random_state", 0), type(found).__name__)
    return found.set_params(**{k: v for k, v in OF_THE_SITE.items() if k in found.get_params()})


def _check_counts(given):
    """Refuse numbers of fits that would fill a site's memory."""
    for name in COUNTS:
        value = given.get(name)
        n = np.size(value) if isinstance(value, list | dict | np.ndarray) else value
        if isinstance(n, int | float) and not n <= MOST:
            raise ValueError(f"`{name}` is of {n:,}, and sites take up to {MOST:,}")


def _check_seed(seed, of):
    """Refuse what each party would draw otherwise, and a site that is started again, too."""
    if not isinstance(seed, int):
        raise ValueError(
            f"`random_state` of {of} is {seed!r}; pass a number, by which all sites deal alike"
        )


def _unpack(packed):
    if isinstance(packed, list):
        return [_unpack(item) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if set(packed) == {"array"}:
        return np.array(packed["array"])
    if set(packed) == {"pairs"}:
        return {_unpack(key): _unpack(item) for key, item in packed["pairs"]}
    kind = _class_named(packed["class"])
    if kind is None:
        raise ValueError(f"{packed['class']!r} is no estimator and no penalty of this package")
    given = {k: _unpack(value) for k, value in packed["parameters"].items() if k not in OF_THE_SITE}
    _check_counts(given)
    return kind(**given)


def _check_options(name, options):
    """Refuse options of a function before the fit that it follows: those of `fit` are of rows."""
    import sksurvgpu

    whole = inspect.signature(getattr(sksurvgpu, name))
    *own, _ = whole.parameters.values()
    try:
        whole.replace(parameters=own).bind("estimator", "X", "y", **options)
    except TypeError as error:
        raise ValueError(f"{name}, which follows its fit: {error}") from None


def then_of(text: str) -> list[tuple[str, dict]]:
    """Functions that follow the fit, with their options; ValueError if there is no such."""
    try:
        found = [(str(name), dict(options)) for name, options in json.loads(text)]
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"what follows its fit cannot be read: {error}") from None
    unknown = sorted({name for name, _ in found}.difference(FUNCTIONS))
    if unknown:
        raise ValueError(f"{unknown} do not follow a fit over sites; {FUNCTIONS} do")
    given = {option for _, options in found for option in options}
    if "folder" in given:
        raise ValueError("`folder` is written to by who asks, and not at sites; leave it out")
    if "cluster" in given:
        raise ValueError("`cluster` is of rows; have each site give it, as `Site(cluster=)`")
    for name, options in found:
        _check_options(name, options)
        _check_counts(options)
        if name == "bootstrap":
            _check_seed(options.get("random_state"), name)
    return found
