"""Attempts that end badly, for the test of `children`."""

import ctypes


def attempt(seed, number):
    """Crash at number 1, hang at number 2, and be accepted otherwise."""
    if number == 1:
        ctypes.string_at(0)
    while number == 2:
        pass
    return "accepted", f"seed {seed}"
