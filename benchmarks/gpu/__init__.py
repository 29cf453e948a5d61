"""All that needs a CUDA device, as one prepared day; `README.rst` has the order of its calls."""
