"""Base of all estimators of the package, with penalties or with posteriors."""

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from .._versioned import Versioned
from .models.base import Parameters


class Estimator(Versioned, BaseEstimator):
    """An estimator of sparse data, whose pickles know their version.

    A class with a table `_parameters` gets the constructor that belongs to it.
    """

    if TYPE_CHECKING:

        def __init__(self, **params: Any) -> None: ...

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "_parameters" in cls.__dict__:
            give_constructor(cls, cls._parameters)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def give_constructor(cls, parameters: Parameters) -> None:
    """Give a class a constructor that keeps its parameters, all of them by name."""

    def __init__(self, **params):  # noqa: N807
        for name in params:
            if name not in parameters:
                where = f"{cls.__name__}.__init__()"
                raise TypeError(f"{where} got an unexpected keyword argument {name!r}")
        for name, (default, _) in parameters.items():
            setattr(self, name, params.get(name, default))

    by_name = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, (default, _) in parameters.items()
    ]
    # what scikit-learn and editors read
    this = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = Signature([this, *by_name])
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = __init__
    cls._parameter_constraints = {name: rules for name, (_, rules) in parameters.items()}
