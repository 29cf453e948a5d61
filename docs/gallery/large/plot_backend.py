"""
Where a fit runs, and why
=========================

``backend=`` says where: ``"cpu"``, ``"cuda"`` for an NVIDIA device, or
``"auto"``. A fit tells where it ran and why there, and never takes another
place in silence. What devices were measured to take is in the guide: this
page runs on the CPU, and claims no times.
"""

# %%
# Data that look like codes of health records: 5,000 persons, 500 codes,
# most of them rare.

import matplotlib.pyplot as plt
from sksurvgpu import CoxLassoCCD, PathDisplay, fit_path
from sksurvgpu.backends import explain
from sksurvgpu.datasets import simulate_ehr
from sksurvgpu.exceptions import BackendUnavailableError

data = simulate_ehr(5_000, 500, random_state=0)
grid = {"n_alphas": 30, "alpha_min_ratio": 0.02}
data.X.shape, data.X.nnz

# %%
# What would ``"auto"`` take? It goes by measurements of devices, and as
# long as there are none, it takes the CPU.

explain("auto")

# %%
# Asked for a device, a fit takes it or raises an error that says what is
# missing. What runs everywhere catches it:

try:
    path = fit_path(CoxLassoCCD(backend="cuda"), data.X, data.y, **grid)
except BackendUnavailableError as error:
    print(error)
    path = fit_path(CoxLassoCCD(backend="cpu"), data.X, data.y, **grid)

# %%
# Every fit keeps the answer. The name of the place is no part of the model:
# both compute in double precision, and a model that was fitted on one
# predicts on the other.

model = path.at(-1)
model.backend_, model.backend_reason_

# %%
# What to see: the same path that a device would have to find, 30 fits from
# the least penalty that selects nothing, down to a fiftieth of it.
# ``kkt_se_`` of each says how far it is from its optimum, wherever it ran.

figure, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
display = PathDisplay.from_path(path, n_labels=5, ax=ax)

# %%
# :func:`~sksurvgpu.show_versions` lists the driver and devices that are
# seen, and what is missing; it is what a bug report needs. Not shown:
# whether a device would be faster. Nobody has measured it.
