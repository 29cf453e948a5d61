"""
Gene expression: 4,919 genes of 295 women
=========================================

With many times more columns than patients a lasso always selects some.
Before you interpret the selected genes, check whether the model predicts
deaths of new women, and whether other women would have led to the same
genes.
"""

# %%
# The data are those of the Netherlands Cancer Institute, 295 women with
# breast cancer, 79 of whom died, from the package SurvSet. All genes are
# standardized.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    CVDisplay,
    StabilityDisplay,
    SurvivalKFold,
    stability_selection,
    surv,
)
from SurvSet.data import SurvLoader

frame = SurvLoader().load_dataset(ds_name="DBCD")["df"]
y = surv(frame["event"] == 1, frame["time"])
genes = frame.filter(like="num_").rename(
    columns=lambda name: name.removeprefix("num_")
)
X = StandardScaler().set_output(transform="pandas").fit_transform(genes)
X.shape

# %%
# Cross-validation with ten folds chooses the penalty. Its score is what the
# women of a fold add to the log partial likelihood.

model = CoxLassoCV(cv=10, n_alphas=30, alpha_min_ratio=0.2).fit(X, y)
int(np.count_nonzero(model.coef_))

# %%
# The score has a maximum, but its differences on the left are no larger
# than their standard errors: the best penalty, and with it the number of
# genes on top of the figure, is uncertain.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
display = CVDisplay.from_estimator(model, ax=ax)

# %%
# To judge the predictions, the whole procedure, with its choice of the
# penalty, is repeated without each of five folds, and judged by the
# concordance in these; 0.5 would be a coin toss.

folds = SurvivalKFold(5, random_state=1)
inner = CoxLassoCV(cv=5, n_alphas=12, alpha_min_ratio=0.25)
cross_val_score(inner, X, y, cv=folds).round(2)

# %%
# To judge the selection, :func:`~sksurvgpu.stability_selection` fits the
# path to random halves, and counts how often they select each gene. At the
# default threshold of 0.75 no gene is selected; at 0.6 a few are, if any.

result = stability_selection(
    CoxLassoCCD(),
    X,
    y,
    n_alphas=12,
    alpha_min_ratio=0.25,
    n_subsamples=30,
    random_state=0,
)
lenient = result.with_options(threshold=0.6)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
display = StabilityDisplay.from_result(lenient, ax=ax)
int(result.support.sum()), int(lenient.support.sum())

# %%
# Each line is a gene; genes that more than 60 % of the halves select have a
# name. The sum of the genes predicts, but hardly any single one can be
# named: genes are correlated, and each half picks others of the same group.
# Not shown: what genes add to tumour size, grade and lymph nodes, which
# doctors know anyway.
