"""Simulated data sets with the truth behind them."""
