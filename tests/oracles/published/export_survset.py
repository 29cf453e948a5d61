"""Writes the cohorts of SurvSet that make_survset.R fits: those with five rows a column and more.

Run:  python export_survset.py FOLDER
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from oracles.survset import read_cohort
from SurvSet.data import SurvLoader

ROWS_PER_COLUMN = 5


def export(folder):
    for name in SurvLoader().df_ds["ds"]:
        cohort = read_cohort(name)
        if len(cohort.X) <= ROWS_PER_COLUMN * cohort.X.shape[1]:
            continue
        start = np.full(len(cohort.time), -1.0) if cohort.start is None else cohort.start
        X = cohort.X[:, cohort.independent()]
        table = np.column_stack([start, cohort.time, cohort.event, X])
        header = ",".join(["start", "time", "event", *(f"x{j}" for j in range(X.shape[1]))])
        np.savetxt(folder / f"{name}.csv", table, "%.17g", ",", header=header, comments="")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    export(folder)
