"""Rows of each likelihood: how they are read, in one place or in many."""
