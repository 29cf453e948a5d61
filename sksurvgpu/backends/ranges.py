"""Named ranges of time, as NVIDIA's profilers show them, around the operations of a backend.

They need the package nvtx and are made only where the environment variable SKSURVGPU_NVTX is set.
"""

import os


def named(serve_round):
    """Service of rounds in a range by the name of the operation, if ranges are wanted."""
    if os.environ.get("SKSURVGPU_NVTX", "") in ("", "0"):
        return serve_round
    try:
        import nvtx
    except ImportError:
        raise ImportError(
            "SKSURVGPU_NVTX is set and the package nvtx is not installed; "
            "run: pip install nvtx, or unset the variable"
        ) from None

    def serve_named(operation, fits, requests):
        with nvtx.annotate(operation, domain="sksurvgpu"):
            return serve_round(operation, fits, requests)

    return serve_named
