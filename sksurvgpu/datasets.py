"""Simulated data sets: the published designs, a health-record-like one, a dense p >> n one."""

from .data.simulate import SimulatedSurvival, simulate_cox, simulate_dense, simulate_ehr
from .data.simulate_competing import SimulatedCompetingRisks, simulate_fine_gray
from .data.simulate_regression import (
    SimulatedRegression,
    simulate_case_series,
    simulate_logistic,
    simulate_matched,
    simulate_poisson,
)

__all__ = [
    "SimulatedCompetingRisks",
    "SimulatedRegression",
    "SimulatedSurvival",
    "simulate_case_series",
    "simulate_cox",
    "simulate_dense",
    "simulate_ehr",
    "simulate_fine_gray",
    "simulate_logistic",
    "simulate_matched",
    "simulate_poisson",
]
