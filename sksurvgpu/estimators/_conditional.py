"""Models that compare rows within subjects or matched sets only."""

from ._base import PenalizedModel
from ._by_parts import by_parts
from ._docs import documented

__all__ = ["ConditionalModel"]


@documented
class ConditionalModel(PenalizedModel):
    """Model that knows of rows their linear predictor, and the log-likelihood of sets of them."""

    __metadata_request__score = {"offset": True}  # noqa: RUF012

    @by_parts()
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
