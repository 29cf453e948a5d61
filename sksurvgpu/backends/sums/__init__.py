"""Fits from sums over partitions of their rows; `messages` says what travels."""
