"""Likelihoods by name: one line a model."""

from .conditional_logistic import ConditionalLogistic
from .conditional_poisson import ConditionalPoisson
from .cox import Cox
from .fine_gray import FineGray
from .gaussian import Gaussian
from .logistic import Logistic
from .poisson import Poisson

LIKELIHOODS = {
    "conditional_logistic": ConditionalLogistic,
    "conditional_poisson": ConditionalPoisson,
    "cox": Cox,
    "fine_gray": FineGray,
    "gaussian": Gaussian,
    "logistic": Logistic,
    "poisson": Poisson,
}
