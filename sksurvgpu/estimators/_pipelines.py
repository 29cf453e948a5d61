"""What pipelines that end in an estimator of this package can do beside fit, predict and score.

scikit-survival gives scikit-learn's ``Pipeline`` its curves in this way.
"""

from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

__all__ = ["FORWARDED"]

FORWARDED = (
    "log_likelihood",
    "predict_cumulative_incidence_function",
    "predict_median",
    "predict_quantile",
    "predict_risk",
)


def forward(name):
    """Method of a pipeline that transforms X and calls the method of its last step."""

    def method(self, X, *args, **kwargs):
        transformed = self[:-1].transform(X) if len(self.steps) > 1 else X
        return getattr(self.steps[-1][1], name)(transformed, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
    method.__doc__ = f"``{name}`` of the last step, for transformed rows."
    return available_if(lambda pipeline: hasattr(pipeline.steps[-1][1], name))(method)


for _name in FORWARDED:
    if not hasattr(Pipeline, _name):
        setattr(Pipeline, _name, forward(_name))
