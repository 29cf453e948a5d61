"""
From lines of codes to a model
==============================

Databases store diagnoses and prescriptions as lines of person, code and
date. ``from_long`` makes a sparse column of each code and time window, here
of the last month and the last year before a person enters a study, and
counts what it left out.
"""

# %%
# The data are simulated claims of 8,000 persons: 200 codes, 300,000 lines.
# ``index_date`` is the day on which a person enters.

import matplotlib.pyplot as plt
from sksurvgpu import CoefficientDisplay, CoxLassoCV, from_long, surv
from sksurvgpu.cohort import time_at_risk
from sksurvgpu.datasets import simulate_claims

claims = simulate_claims(8_000, 200, n_records=300_000, random_state=1)
claims.records.head(3)

# %%
# Lines of the index date and later are in no window, because they would be
# information from the future. A column is 1 if its code is present, however
# often; columns of fewer than 50 persons are left out.

data = from_long(
    claims.persons,
    claims.records,
    row_id="id",
    covariate_id="code",
    day="date",
    windows={"(month)": (-30, -1), "(year)": (-365, -31)},
    names={
        code: f"code {code}" for code in claims.records["code"].unique()
    },
    duplicates="present",
    min_count=50,
)
data.report

# %%
# The outcome is the first infarction after the index date. Persons with an
# earlier one are left out; ``cohort.rows`` are the rows of the others.

infarctions = claims.outcomes[claims.outcomes["outcome"] == "infarction"]
cohort = time_at_risk(
    claims.persons, infarctions, risk_start=1, censor="death_date"
)
y = surv(cohort.table["event"] == 1, cohort.table["time"])
X = data.X.with_columns(claims.persons[["age", "female"]] / [10, 1])[
    cohort.rows
]
X

# %%
# Age and sex have no penalty. The design stays sparse in the fit, and names
# of columns combine codes and windows.

model = CoxLassoCV(
    cv=5, n_alphas=20, penalty_factor={"age": 0, "female": 0}
).fit(X, y)
selected = model.summary().query("coef != 0")
len(selected), X.shape[1]

# %%
# The figure shows the largest coefficients, shrunken by the penalty. Most
# are of the longer window, which has more persons with a code. The
# simulated codes are numbers without names of diseases.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
display = CoefficientDisplay.from_estimator(model, n_top=12, ax=ax)

# %%
# Not shown: missing records. A person without a line need not be healthy.
# If people are observed for less than a year before the index date, the
# absence of a code says less.
