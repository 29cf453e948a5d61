"""Simulated data sets: the published Cox design, a health-record-like one, a dense p >> n one."""

from .data.simulate import SimulatedSurvival, simulate_cox, simulate_dense, simulate_ehr

__all__ = ["SimulatedSurvival", "simulate_cox", "simulate_dense", "simulate_ehr"]
