"""Tables and figures of published papers, run again; ``python -m benchmarks.papers``."""
