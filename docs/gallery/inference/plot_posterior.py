"""
A Bayesian lasso and a horseshoe on the diabetes data
=====================================================

This example compares two shrinking priors for many correlated columns. The
lasso's prior shrinks all coefficients; the horseshoe hardly shrinks large
ones and shrinks small ones more. It also shows how to check the convergence
of the chains.
"""

# %%
# The data are the progression of diabetes in 442 patients, from
# scikit-learn, with ten measurements and ten products of some of them,
# standardized.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sksurvgpu import BayesianLasso, CoefficientDisplay, TraceDisplay

data = load_diabetes(as_frame=True, scaled=False)
scale = StandardScaler().set_output(transform="pandas")
products = PolynomialFeatures(2, interaction_only=True, include_bias=False)
products.set_output(transform="pandas")
X = scale.fit_transform(data.data)
with_products = products.fit_transform(X[["age", "sex", "bmi", "bp", "s5"]])
X = scale.fit_transform(
    X[["s1", "s2", "s3", "s4", "s6"]].join(with_products)
)

# %%
# Each model has four chains. The horseshoe's move more slowly and get more
# draws. A fit warns if chains disagree or have too few effective draws. The
# table has the worst of all parameters: R-hat is 1 if chains agree; the
# bulk ESS is the number of independent draws with the same information.

lasso = BayesianLasso(n_tune=500, n_draws=500).fit(X, data.target)
horseshoe = BayesianLasso(
    prior="horseshoe", n_tune=500, n_draws=1_500, random_state=0
)
horseshoe = horseshoe.fit(X, data.target)
fits = {"lasso": lasso, "horseshoe": horseshoe}
tables = {
    name: fit.summary()[["r_hat", "ess_bulk"]] for name, fit in fits.items()
}
worst = {
    name: [t["r_hat"].max(), t["ess_bulk"].min()]
    for name, t in tables.items()
}
pd.DataFrame(worst, index=["largest R-hat", "least bulk ESS"]).T.round(
    {"largest R-hat": 3, "least bulk ESS": 0}
)

# %%
# The slowest parameters of the horseshoe, draws on the left and densities
# on the right: the four chains look alike, without a trend.

trace = TraceDisplay.from_estimator(horseshoe, n_worst=2)

# %%
# Posterior means and 95 % intervals of the twelve largest coefficients.
# Body mass, blood pressure, sex and s5, related to triglycerides, are far
# from zero under both priors. The horseshoe shrinks small coefficients
# more. It is undecided about s1, a cholesterol, so that its interval is
# long.

largest = lasso.posterior_.intervals["coef"].abs().nlargest(12).index
figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
intervals = {name: fit.posterior_ for name, fit in fits.items()}
forest = CoefficientDisplay.from_result(
    intervals, columns=list(largest), ratio=False, ax=ax
)

# %%
# Not shown: assumptions. The model assumes normal errors of constant
# variance. The choice between the priors depends on what you believe about
# small effects.
