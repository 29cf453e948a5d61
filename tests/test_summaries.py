"""What summaries of fits have beside coefficients: null models, joint tests, intercepts.

R's figures are in `test_summaries_published`.
"""

import pytest
from faces import FACES, X


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize("params", [{}, {"alpha": 0.0, "prior_mean": {0: 0.5, 1: -1.0}}])
def test_null_log_likelihood_is_that_of_a_column_that_says_nothing(name, params):
    face = FACES[name]
    model = face.fit(names=face.rows, **params)
    nothing = face.make(alpha=0.0).fit(0 * X[:, :1], face.y, **face.rows)
    assert model.null_log_likelihood_ == pytest.approx(nothing.log_likelihood_, rel=1e-12)
