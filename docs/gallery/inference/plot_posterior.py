"""
A Bayesian lasso and a horseshoe on the diabetes data
=====================================================

What does a shrinking prior make of many correlated columns, and how sure is
it? The lasso's prior shrinks everything; the horseshoe leaves large
coefficients alone and squeezes the others. Before that: have the chains
arrived?
"""

# %%
# The progression of diabetes in 442 patients, from scikit-learn, by ten
# measurements and ten products of some of them, on one scale.

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
# Four chains each. The horseshoe's move more slowly, and get more draws. A
# fit warns where chains disagree or are worth too little; here are the
# worst of all parameters. R-hat is 1 where chains agree; the bulk ESS is
# the number of independent draws that they are worth.

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
# on the right: four chains that cannot be told apart, and no trend.

trace = TraceDisplay.from_estimator(horseshoe, n_worst=2)

# %%
# Posterior means and 95 % intervals of the twelve largest coefficients.
# What to see: body mass, blood pressure, sex and s5, which is about
# triglycerides, are far from zero under both priors. What is small, the
# horseshoe pulls closer to zero; and of s1, a cholesterol, it does not know
# whether to let go, so that the interval is long.

largest = lasso.posterior_.intervals["coef"].abs().nlargest(12).index
figure, ax = plt.subplots(figsize=(8, 6), layout="constrained")
intervals = {name: fit.posterior_ for name, fit in fits.items()}
forest = CoefficientDisplay.from_result(
    intervals, columns=list(largest), ratio=False, ax=ax
)

# %%
# Not shown: that errors are normal and of one size, which the model
# assumes, and the choice between the priors, which is one of what is
# believed about small effects.
