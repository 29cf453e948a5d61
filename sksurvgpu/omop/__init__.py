"""From a database in the OMOP common data model to cohorts, covariates, outcomes and eras."""

from .cohorts import DrawnCohort
from .database import Database

__all__ = ["Database", "DrawnCohort"]
