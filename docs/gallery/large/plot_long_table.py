"""
From lines of codes to a model
==============================

Databases hold diagnoses and prescriptions as lines: person, code, date.
Which ones were in the last month before somebody enters a study, and which
in the year before that? ``from_long`` makes a column of each code and
window, sparse all the way, and keeps account of what it left out.
"""

# %%
# Claims of 8,000 persons, simulated: 200 codes, 300,000 lines.
# ``index_date`` is the day on which a person enters.

import matplotlib.pyplot as plt
from sksurvgpu import CoefficientDisplay, CoxLassoCV, from_long, surv
from sksurvgpu.cohort import time_at_risk
from sksurvgpu.datasets import simulate_claims

claims = simulate_claims(8_000, 200, n_records=300_000, random_state=1)
claims.records.head(3)

# %%
# Lines of the index date and later are in no window: they would tell of the
# future. Of repeated codes it counts that they are there, and columns that
# fewer than 50 persons have are left out.

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
# The outcome is the first infarction after the index date. Who had one
# before leaves, and ``cohort.rows`` says which rows of the columns stay.

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
# of columns are those of codes and windows.

model = CoxLassoCV(
    cv=5, n_alphas=20, penalty_factor={"age": 0, "female": 0}
).fit(X, y)
selected = model.summary().query("coef != 0")
len(selected), X.shape[1]

# %%
# What to see: the largest of the coefficients, shrunken as they are. Most
# are of the longer window, which has more persons with a code. The codes
# have numbers for names, since nobody has invented diseases for them.

figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
display = CoefficientDisplay.from_estimator(model, n_top=12, ax=ax)

# %%
# Not shown: a person without a line need not be healthy. Where people are
# observed for less than a year before the index date, the absence of a code
# says less.
