"""Fits over partitions of rows: on a cluster, from files, at sites."""
