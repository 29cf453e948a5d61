"""Simulated data sets: the published designs, a health-record-like one, a dense p >> n one."""

from .data.simulate.claims import SimulatedClaims, simulate_claims
from .data.simulate.competing import SimulatedCompetingRisks, simulate_fine_gray
from .data.simulate.omop import SimulatedOmop, simulate_omop
from .data.simulate.regression import (
    SimulatedRegression,
    simulate_case_series,
    simulate_logistic,
    simulate_matched,
    simulate_poisson,
)
from .data.simulate.survival import SimulatedSurvival, simulate_cox, simulate_dense, simulate_ehr

__all__ = [
    "SimulatedClaims",
    "SimulatedCompetingRisks",
    "SimulatedOmop",
    "SimulatedRegression",
    "SimulatedSurvival",
    "simulate_case_series",
    "simulate_claims",
    "simulate_cox",
    "simulate_dense",
    "simulate_ehr",
    "simulate_fine_gray",
    "simulate_logistic",
    "simulate_matched",
    "simulate_omop",
    "simulate_poisson",
]
