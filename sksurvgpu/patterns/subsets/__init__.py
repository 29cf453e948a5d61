"""Matched sets: which of their rows are the cases."""
