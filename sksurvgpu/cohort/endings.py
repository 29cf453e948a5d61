r"""Case series whose observation may end because of the event (Farrington and others 2011).

Somebody with the event at the age t, observed from the age a on, leaves at the age b with a density
w(t) = w(b | t, a), or is complete with the probability w(t) of staying until b. Given that he left
or stayed, the events of a row have the weight :math:`\int w(t) dt` over its days, which takes the
place of its length. w is a mixture of an exponential time since the event, those whom it makes
leave, and a Weibull or gamma distribution of the age at the end or of the time since the event,

.. math:: w = \pi(t) f_1(b - t) + (1 - \pi(t)) f_2 ,

with survivor functions in place of densities for those who stay; an age at the end is one beyond t.
The logarithm of the mean and of the shape of f_2 are linear in log a, or in log t where f_2 is that
of a time since the event; the logit of :math:`\pi` is linear in t. Ages are in years. Of the four
models the one with the smallest AIC is taken.
"""

import numpy as np
from pandas import DataFrame, MultiIndex
from scipy.optimize import minimize
from scipy.special import expit, gammaincc, gammaln, log_expit

YEAR = 365.25
MODELS = [(law, of) for of in ("age", "interval") for law in ("weibull", "gamma")]
PARAMETERS = ["log_exponential_mean", "log_mean", "log_mean_slope"]
PARAMETERS += ["logit_share", "logit_share_slope", "log_shape", "log_shape_slope"]
# Models of age have long ridges on which the likelihood hardly rises.
SEARCH, POLISH = {"maxiter": 80}, {"maxiter": 30, "gtol": 1e-3}
TINY, HUGE = 1e-280, 1e300
LEAST = 1e-15  # of a weight, relative to days
FAR = 3.5  # of the nodes of an integral
N_NODES = 71
MOST_SEARCHED = 1_000  # cases among which models are searched for, before all have a say


def log_weight(law, of, p, at, interval, age, is_complete):
    """Logarithm of the weight w of an event at an age, an interval before observation ends."""
    base = np.log(age if of == "age" else at)
    exponential = -interval * np.exp(-p[0]) - np.where(is_complete, 0.0, p[0])
    log_mean, share = p[1] + p[2] * base, p[3] + p[4] * at
    shape = np.exp(p[5] + p[6] * base)
    since = interval if of == "interval" else at + interval
    survives, leaves = (_gamma if law == "gamma" else _weibull)(since, log_mean, shape)
    other = np.where(is_complete, survives, leaves)
    if of == "age":
        other -= (_gamma if law == "gamma" else _weibull)(at, log_mean, shape)[0]
    return np.logaddexp(log_expit(share) + exponential, log_expit(-share) + other)


def _weibull(x, log_scale, shape):
    """Logarithms of the survivor function and of the density."""
    relative = np.log(x) - log_scale
    survives = -np.exp(shape * relative)
    return survives, survives + np.log(shape) + (shape - 1.0) * relative - log_scale


def _gamma(x, log_mean, shape):
    """Logarithms of the survivor function and of the density, by mean and shape."""
    scaled = x * shape * np.exp(-log_mean)
    leaves = shape * np.log(scaled) - scaled - gammaln(shape) - np.log(x)
    tail = gammaincc(shape, scaled)
    # Where it underflows the hazard is that of the exponential tail, to the first order.
    hazard = np.maximum(scaled - shape + 1.0, TINY) / x
    return np.where(tail > TINY, np.log(np.maximum(tail, TINY)), leaves - np.log(hazard)), leaves


def fit_endings(start, event, end, is_complete):
    """Fit the four models to ages, in days; return them, with the one of the smallest AIC first."""
    # likelihoods have several maxima, and the one that is found would depend on the order of lines
    order = np.lexsort((is_complete, start, end, event))
    start, event, end, is_complete = (of[order] for of in (start, event, end, is_complete))
    age, at = start / YEAR, event / YEAR
    interval = np.maximum(end - event, 1.0) / YEAR  # of an event on the last day, as R's SCCS
    fits = [_fit(law, of, at, interval, age, is_complete) for law, of in MODELS]
    index = MultiIndex.from_tuples(MODELS, names=["law", "of"])
    table = DataFrame([fit.x for fit in fits], index, PARAMETERS)
    table.insert(0, "aic", [2.0 * fit.fun + 2.0 * len(PARAMETERS) for fit in fits])
    return table.sort_values("aic")


def _fit(law, of, at, interval, age, is_complete):
    """Parameters of a model by maximum likelihood, and minus the logarithm of that."""
    bases = np.log(age if of == "age" else at), at
    means, scales = (np.array([f(base) for base in bases]) for f in (np.mean, np.std))
    scales[scales == 0.0] = 1.0
    which = [0, 1, 0]  # of the bases has the slopes

    def place(q):
        """Parameters at standardized ages, with which they hardly correlate."""
        p = q.copy()
        p[[2, 4, 6]] /= scales[which]
        p[[1, 3, 5]] -= p[[2, 4, 6]] * means[which]
        return p

    def misfit(q, some=slice(None)):
        rows = (field[some] for field in (at, interval, age, is_complete))
        found = -log_weight(law, of, place(q), *rows).sum()
        return found if np.isfinite(found) else HUGE

    # Either of the two laws may be that of those who leave soon.
    leaves = ~is_complete
    soon, late = np.log(interval[leaves].mean()), np.log(interval.sum() / leaves.sum())
    old = np.log(at.mean())
    shape = 3.0 if law == "weibull" else old - soon - np.log(np.expm1(0.1))
    laws = ((late, 0.5), (soon, 0.0)) if of == "interval" else ((old, 1.0), (old - 0.1, shape))
    starts = [
        np.array([first, mean, 0.0, share, 0.0, shape, 0.0])
        for (first, share), (mean, shape) in zip(((soon, -1.0), (late, 2.0)), laws, strict=True)
    ]
    some = slice(None, None, at.size // MOST_SEARCHED + 1)
    with np.errstate(all="ignore"):
        fits = [
            minimize(misfit, start, args=(some,), method="BFGS", options=SEARCH) for start in starts
        ]
        best = min(fits, key=lambda fit: fit.fun)
        best = minimize(misfit, best.x, method="BFGS", jac="3-point", options=POLISH)
    best.x = place(best.x)
    return best


def weigh_days(model, start, gap, length, age, is_complete):
    """Weights of rows, in days, by tanh-sinh quadrature: their ends may be singular.

    A row begins at the age `start` and ends `gap` before observation does, in years.
    """
    t = np.linspace(-FAR, FAR, N_NODES)
    to_end = expit(-np.pi * np.sinh(t))  # share of the row that is left: exact near its end
    width = np.pi * np.cosh(t) * to_end * (1.0 - to_end) * (t[1] - t[0])
    total = np.zeros(length.size)
    for left, share in zip(to_end, width, strict=True):
        interval = gap + length * left
        at = start + length * (1.0 - left)
        with np.errstate(all="ignore"):
            total += share * np.exp(log_weight(*model, at, interval, age, is_complete))
    weight = np.maximum(total * length * YEAR, LEAST)
    if not np.isfinite(weight).all():
        raise ValueError(
            "the model of why observation ends has infinite weights; look at `ended_early` and at "
            "ages, or leave it out."
        )
    return weight
