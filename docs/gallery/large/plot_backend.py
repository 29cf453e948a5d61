"""
Choose the CPU or a GPU
=======================

``backend=`` chooses the device of a fit: ``"cpu"``, ``"cuda"`` for an
NVIDIA device, or ``"auto"``. A fit records where it ran and why, and never
changes the device silently. This page runs on the CPU; :doc:`/guide/gpu`
has measured times.
"""

# %%
# The data resemble codes of health records: 5,000 persons, 500 codes, most
# of them rare.

import matplotlib.pyplot as plt
from sksurvgpu import CoxLassoCCD, PathDisplay, fit_path
from sksurvgpu.backends import explain
from sksurvgpu.datasets import simulate_ehr
from sksurvgpu.exceptions import BackendUnavailableError

data = simulate_ehr(5_000, 500, random_state=0)
grid = {"n_alphas": 30, "alpha_min_ratio": 0.02}
data.X.shape, data.X.nnz

# %%
# ``"auto"`` decides by measurements of devices, and takes the CPU as long
# as there are none.

explain("auto")

# %%
# With ``"cuda"``, a fit uses the device or raises an error that says what
# is missing. Catch the error in code that has to run everywhere:

try:
    path = fit_path(CoxLassoCCD(backend="cuda"), data.X, data.y, **grid)
except BackendUnavailableError as error:
    print(error)
    path = fit_path(CoxLassoCCD(backend="cpu"), data.X, data.y, **grid)

# %%
# Every fit records its device. The device is no part of the model: both
# compute in double precision, and a model fitted on one predicts on the
# other.

model = path.at(-1)
model.backend_, model.backend_reason_

# %%
# The figure shows a path of 30 fits, from the smallest penalty that selects
# nothing down to a fiftieth of it; a device would find the same.
# ``kkt_se_`` of each measures the distance from its optimum, on any device.

figure, ax = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
display = PathDisplay.from_path(path, n_labels=5, ax=ax)

# %%
# :func:`~sksurvgpu.show_versions` lists the driver and devices, and what is
# missing; include its output in bug reports. Not shown: whether a device
# would be faster here, which was not measured.
