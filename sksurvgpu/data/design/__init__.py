"""Columns of X: what users pass, checked, in the three forms that kernels read."""
