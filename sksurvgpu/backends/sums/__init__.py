"""Fits from sums over partitions of rows that are elsewhere; `messages` says what travels."""
