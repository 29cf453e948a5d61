"""Rows in partitions: files, tables of Dask, and what estimators make of them."""
