"""Models that compare rows within subjects or matched sets only."""

from ._base import PenalizedModel
from ._docs import documented
from ._partition import by_partition

__all__ = ["ConditionalModel"]


@documented
class ConditionalModel(PenalizedModel):
    """Model that knows of rows their linear predictor, and the log-likelihood of sets of them."""

    __metadata_request__score = {"offset": True}  # noqa: RUF012

    @by_partition()
    def predict(self, X):
        """Linear predictor; only differences within a group have a meaning.

        Parameters
        ----------
        <<X>>

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            X times the coefficients, without the offset of the fit; higher is riskier.
        """
        return self._predict_linear(X)
