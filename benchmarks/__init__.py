"""Benchmarks of sksurvgpu; see README.rst in this folder."""
