"""Sums over rows: logistic, Poisson and linear regression."""
