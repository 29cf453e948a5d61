"""Moments of posteriors from independent software, and how far a sampler's draws are from them."""

from dataclasses import dataclass

import numpy as np

from oracles.cases import load

N_BATCHES = 25  # a chain; each must be long beside the autocorrelation


@dataclass(frozen=True)
class Reference:
    """Mean, sd and covariance of the parameters, each with its Monte Carlo standard error.

    `case` is the entry of the file: data, prior, names of parameters.
    """

    case: dict
    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    sd_error: np.ndarray
    covariance: np.ndarray
    covariance_error: np.ndarray

    @classmethod
    def of(cls, file, name):
        """`file` is "bayes_lasso" or "bayes_multinomial"."""
        (case,) = [case for case in load(f"{file}.json")["cases"] if case["name"] == name]
        moments = ("mean", "mean_error", "sd", "sd_error", "covariance", "covariance_error")
        return cls(case, *(np.array(case[moment], float) for moment in moments))

    def z_scores(self, draws):
        """Distances of the draws' moments, in standard errors of both.

        `draws` are chains x draws x parameters. Errors of the draws are from the scatter of
        `N_BATCHES` batches a chain: with four chains, scores of a right sampler are those of
        Student's t with 99 degrees of freedom, about.
        """
        length = draws.shape[1] // N_BATCHES
        batches = draws[:, : length * N_BATCHES].reshape(-1, length, draws.shape[2])
        away = batches - self.mean
        products = np.einsum("bta,btc->bac", away, away) / length
        means = away.mean(axis=1)
        square = means.mean(axis=0)[:, None] * means.mean(axis=0)
        covariance, error = products.mean(axis=0) - square, _error(products)
        sd = np.sqrt(np.diag(covariance))
        return {
            "mean": means.mean(axis=0) / np.hypot(_error(means), self.mean_error),
            "sd": (sd - self.sd) / np.hypot(np.diag(error) / (2.0 * sd), self.sd_error),
            "covariance": (covariance - self.covariance) / np.hypot(error, self.covariance_error),
        }

    def largest_z(self, draws):
        """The largest of all scores, in absolute value."""
        return max(np.abs(scores).max() for scores in self.z_scores(draws).values())


def _error(batches):
    return batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
