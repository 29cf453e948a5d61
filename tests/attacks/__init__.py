"""Attacks on the package by random input; each finding is repeated by its seed and number."""

import os


def n_attempts(share=1.0):
    """How many attempts a slow test makes: its share of the environment variable ATTACKS."""
    return max(1, round(share * int(os.environ.get("ATTACKS", "330"))))
