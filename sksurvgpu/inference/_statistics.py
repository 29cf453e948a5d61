"""A fit in a few numbers, as clinicians know them from R's ``summary`` of ``coxph``."""

import numpy as np
from pandas import Series

from ..estimators._columns import check_columns
from ..estimators.fitted import fitted_of
from ..estimators.logistic import LogisticCCD
from ..estimators.survival import CoxLassoCCD
from ..metrics.pairs import concordance_error, count_by_row, scale_weights


def statistics_of(estimator, problem, basis, n_rows, rank, concordance=None):
    """Series of the numbers; `basis` is that of information criteria, `rank` of the columns."""
    found = {"n_rows": n_rows}
    if problem.likelihood.pattern.is_conditional:  # else all rows count as observations
        found["n_events"] = basis.n_observations
    df = rank + basis.n_others
    loglik = basis.log_likelihood(estimator.log_likelihood_)
    found |= {"df": df, "log_likelihood": loglik, "aic": 2.0 * (df - loglik)}
    found["bic"] = df * np.log(basis.n_observations) - 2.0 * loglik
    if concordance is not None:
        found["concordance"], found["concordance_error"] = concordance
    return Series(found, dtype=np.float64)


def concordance_of(rows, X, cluster):
    """Concordance of a fit with its rows, and its standard error; None where it has no meaning."""
    model, outcome, weight = rows.estimator, rows.outcome, scale_weights(rows.given_weight)
    sums, offset = np.zeros((outcome.n_rows, 2)), rows.batch.offset
    offset = 0.0 if offset is None else offset  # part of the risk, as in R
    if isinstance(model, CoxLassoCCD):
        terms = fitted_of(model).terms
        risk = terms.predictors(check_columns(model, X), model.coef_) + offset
        counts = terms.count_by_piece(count_by_row, outcome, risk, weight)
    elif isinstance(model, LogisticCCD):  # the area under the curve: cases against all others
        is_case = outcome.value > 0
        risk = model.decision_function(X) + np.ravel(offset)
        time = np.where(is_case, 0.0, 1.0)
        counts = [(slice(None), count_by_row(is_case, time, risk, weight=weight))]
    else:
        return None
    for some, found in counts:
        sums[some] += found
    weight = np.ones(outcome.n_rows) if weight is None else weight
    return concordance_error(*sums.T, weight, cluster)


def in_words(numbers, tests) -> list[str]:
    """Lines that are printed above a table of coefficients."""
    events = f", {numbers['n_events']:,g} events" if "n_events" in numbers else ""
    fit = f"log-likelihood {numbers['log_likelihood']:,.2f}, AIC {numbers['aic']:,.2f}"
    lines = [f"{numbers['n_rows']:,g} rows{events}, {fit}"]
    if "concordance" in numbers:
        error = numbers["concordance_error"]
        lines.append(f"concordance {numbers['concordance']:.3f} (standard error {error:.3f})")
    for name, test in tests.iterrows():
        of_error = test.get("df_residual", np.nan)
        law = f"chi2({test['df']:g})" if np.isnan(of_error) else f"F({test['df']:g}, {of_error:g})"
        title = name.replace("_", " ").replace("wald", "Wald")
        lines.append(f"{title} test: {law} = {test['statistic']:.4g}, p = {test['p_value']:.3g}")
    return lines
