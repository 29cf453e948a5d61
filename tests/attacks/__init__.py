"""Attacks on the package by random input; each finding is repeated by its seed and number."""
