"""Arrays and tables of CUDA devices brought to the host: one copy, by their library if it can."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["to_host"]

CUDA_DEVICES = (2, 13)  # of DLPack: a device's memory, and managed memory


def to_host(values: Any) -> Any:
    """Copy of a device's array or table in NumPy, SciPy or pandas; others as they are."""
    library = type(values).__module__.partition(".")[0]
    if library in ("cupy", "cupyx") and hasattr(values, "get"):
        return values.get()  # sparse matrices, too
    if library == "cudf" and hasattr(values, "to_pandas"):
        return values.to_pandas()
    if library == "torch" and hasattr(values, "numpy"):
        return values.numpy(force=True)
    if hasattr(values, "copy_to_host"):  # Numba's
        return values.copy_to_host()
    is_on_device = getattr(values, "__dlpack_device__", lambda: (1, 0))
    if is_on_device()[0] in CUDA_DEVICES and not hasattr(values, "__cuda_array_interface__"):
        return np.from_dlpack(values, device="cpu")
    return values
