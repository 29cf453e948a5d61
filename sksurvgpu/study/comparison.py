"""One comparison: who is compared, their scores, and the effects on all outcomes by analysis.

What is found are tables, which `pack` makes arrays of for a file of the study's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from pandas import DataFrame, concat

from .._warnings import keep_warnings
from ..cohort import Cohort, equipoise, preference_score
from ..cohort.adjustment import weights_after
from ..data.options import first_of
from ..estimators.case_series import ConditionalPoissonCCD
from ..estimators.competing import FineGrayCCD
from ..estimators.conditional_logistic import ConditionalLogisticCCD
from ..estimators.logistic import LogisticCCD
from ..estimators.regression import PoissonCCD
from ..estimators.survival import CoxLassoCCD
from ..inference.outcomes import fit_outcomes
from ..selection.models import LogisticCV
from .differences import describe_differences
from .document import adjust, outcomes_of, way_of
from .effects import describe_profiles, llr_of
from .followed import Followed

__all__ = ["Comparison", "pack", "unpack"]

# Model, and what strata make of it.
ESTIMATORS = {
    "cox": (CoxLassoCCD, CoxLassoCCD),
    "fine_gray": (FineGrayCCD, FineGrayCCD),
    "logistic": (LogisticCCD, ConditionalLogisticCCD),
    "poisson": (PoissonCCD, ConditionalPoissonCCD),
}
COLUMNS = {"match": "match", "stratify": "stratum", "weigh": "weight"}
STRATA_OF = {"all": "ate", "treated": "att", "comparators": "atc"}
WEIGHTS_OF = {"iptw": "ate", "att": "att", "overlap": "ato"}
LISTED = 5  # names in a message
N_POINTS, N_BINS = 100, 1_000  # of densities of preference scores


@dataclass(frozen=True)
class Population:
    """Persons of an analysis after its adjustment; arrays have an entry for every row of `data`."""

    cohort: Cohort
    data: Any
    treated: np.ndarray
    strata: np.ndarray | None  # -1 for who has left
    weights: np.ndarray | None  # 0 for who has left
    differences: dict  # arguments of `describe_differences`


class Comparison:
    """A target and its comparator in a database; what is drawn is drawn when a part needs it.

    Parameters
    ----------
    study : dict
        The document.
    database : omop.Database
        Or another object with its methods.
    number : int
        Of the comparison in the document.
    n_jobs : int, optional
        Threads.
    events : dict, optional
        Tables of events that are there by the name of their outcome; others are added.
    most : int, optional
        Take so many persons by chance, to see what they cost.
    """

    def __init__(self, study, database, number, n_jobs=None, events=None, most=None):
        self.study, self.number, self._database = study, number, database
        self._n_jobs, self._most = n_jobs, most
        self._held = {} if events is None else events
        self.pair = study["comparisons"][number]
        self.label = (*self.pair, "")

    def parts(self):
        """Names of the parts with functions that compute them: scores, and then each analysis."""
        yield f"{self.number:04d}-scores", self.describe
        for k, name in enumerate(self.study["analyses"]):
            yield f"{self.number:04d}-{k:03d}", partial(self.analyse, name)

    @cached_property
    def cohort(self) -> Cohort:
        """Persons who are compared, as drawn."""
        drawn = []
        for kind, name in zip(("targets", "comparators"), self.pair, strict=True):
            found = self.study[kind][name]
            options = found["options"]
            if "period" in options:
                options = options | {"period": tuple(options["period"])}
            drawn.append(self._database.cohort(found["concepts"], **options))
        cohort = self._database.compare(*drawn, **self.study["population"])
        if self._most is not None and self._most < len(cohort.table):
            rng = np.random.default_rng(self.study["seed"])
            chosen = rng.choice(len(cohort.table), self._most, replace=False)
            cohort = cohort.keep(np.isin(np.arange(len(cohort.table)), chosen), "by chance")
        cohort.arms()  # which both have somebody
        return cohort

    @cached_property
    def data(self):
        """Covariates of the cohort, without those of the exposures."""
        wanted = dict(self.study["covariates"])
        exposures = [
            concept
            for kind, name in zip(("targets", "comparators"), self.pair, strict=True)
            for domain, concepts in self.study[kind][name]["concepts"].items()
            for concept in concepts
            if domain != "cohort"
        ]
        wanted["exclude"] = sorted({*wanted.get("exclude", ()), *exposures})
        return self._database.covariates(self.cohort, **wanted)

    def events(self, name):
        """Events of an outcome, which are read once for all comparisons of a process."""
        if name not in self._held:
            found = outcomes_of(self.study)[name]
            self._held[name] = self._database.events(found["concepts"], **found["options"])
        return self._held[name]

    @cached_property
    def treated(self):
        """Treatment of the rows of `data`, booleans."""
        return self.cohort.spread(self.cohort.treatment, of=self.data) == 1

    def describe(self):
        """Tables of the cohort: who was left out, the model of the scores and their densities."""
        attrition = self.cohort.attrition.rename_axis("description").reset_index()
        drawn = {"attrition": attrition, "covariates": self._name_covariates()}
        if not any(one["adjustment"] for one in self.study["analyses"].values()):
            return drawn
        self._refuse_separating()
        wanted, X = self.study["propensity"], self.data.X
        options = {"cv": wanted["cv"], "n_alphas": wanted["n_alphas"], "n_jobs": self._n_jobs}
        model = LogisticCV(**options, random_state=self.study["seed"]).fit(X, self.treated)
        score = model.predict_proba(X)[:, 1]
        chosen = np.flatnonzero(model.coef_)
        coefs = {"covariate": chosen, "coefficient": model.coef_[chosen]}
        intercept = DataFrame({"covariate": [-1], "coefficient": [float(model.intercept_)]})
        persons = DataFrame(
            {"id": self.data.row_ids, "treatment": self.treated.astype(int), "score": score}
        )
        drawn["model"] = DataFrame({k: [*intercept[k], *coefs[k]] for k in intercept})
        drawn["persons"] = persons
        drawn["density"] = _describe_density(score, self.treated)
        return drawn

    def _name_covariates(self):
        ids = np.asarray(self.data.covariate_ids)
        names = list(map(str, self.data.X.names))
        if ids.dtype.kind not in "iu" or len(ids) != len(names):
            raise TypeError("the identifiers of covariates must be whole numbers, one for each.")
        of = self.data.window_of
        window = [""] * len(names) if of is None else ["" if w is None else str(w) for w in of]
        return DataFrame({"id": ids.astype(np.int64), "name": names, "window": window})

    def _refuse_separating(self):
        """Refuse covariates that are all but the treatment."""
        found = self._before["correlation"].abs()
        most = self.study["propensity"]["max_correlation"]
        found = found[found > most].sort_values(ascending=False)
        if len(found):
            named = [f"{name} ({value:.2f})" for name, value in found.items()]
            raise ValueError(
                f"{len(found):,} covariate(s) have a correlation with the treatment of more than "
                f"{most:g}: {first_of(named, LISTED)}. Add the concepts that define it to "
                "`covariates: exclude`, or raise `propensity: max_correlation`."
            )

    @cached_property
    def _before(self):
        from ..cohort import balance

        return balance(self.data.X, self.treated, suspect=2.0, n_jobs=self._n_jobs).table

    def analyse(self, name, scores):
        """Tables of an analysis, with the tables that `describe` gave."""
        analysis = self.study["analyses"][name]
        names, of_interest = list(outcomes_of(self.study)), {*self.study["outcomes"]}
        with keep_warnings() as warned:
            population = self._adjust(analysis, scores)
            balance = describe_differences(
                self.data.X, self.treated, rows=self._is_left(population), **population.differences
            )
        followed = Followed(analysis, population, self.events, names, of_interest)
        result = self._fit(analysis, population, followed)
        table = result.table.join(DataFrame.from_dict(followed.told, orient="index"))
        if result.curves is not None:
            table["llr"] = llr_of(result.curves, "outcome").reindex(table.index)
        for outcome, message in followed.errors.items():
            table.loc[outcome, "message"] = message
        table = table.drop(columns=["n_exposed", "n_events_exposed", "alpha"]).reset_index()
        found = {"outcomes": table.assign(llr=table.get("llr", np.nan))}
        told = {key: concat(t, ignore_index=True) for key, t in followed.tables.items() if t}
        curves = describe_profiles(result.curves, "outcome", names)
        facts = {"equipoise": self._equipoise(scores), "notes": " ".join(map(str, warned))}
        facts |= {"estimand": population.differences["estimand"], "is_whole": followed.is_whole}
        tables = {"shared_balance": balance.reset_index(drop=True), "profiles": curves}
        return found | told | tables | {"facts": DataFrame([facts])}

    def _equipoise(self, scores):
        if "persons" not in scores:
            return np.nan
        return equipoise(Cohort.of(scores["persons"]))

    def _adjust(self, analysis, scores):
        cohort, data = self.cohort, self.data
        if "persons" in scores:
            persons = scores["persons"]
            score = persons.set_index("id")["score"].reindex(cohort.table[cohort.id])
            cohort = cohort.with_columns(score=score.to_numpy())
        cohort = adjust(cohort, analysis)
        way, arguments = way_of(analysis)
        strata = weights = None
        estimand = {"match": "att"}.get(way, "ate")
        if way == "weigh":
            estimand = WEIGHTS_OF[arguments.get("kind", "iptw")]
            weights = cohort.spread("weight", 0.0, of=data)
        elif analysis["stratified"]:
            estimand = estimand if way == "match" else STRATA_OF[arguments.get("base", "all")]
            strata = cohort.spread(COLUMNS[way], of=data)
        differences = {"estimand": estimand, "n_jobs": self._n_jobs}
        differences |= {"strata": strata, "weights": weights}
        if strata is not None:
            weights, _ = weights_after(self.treated, None, strata, None, estimand)
        return Population(cohort, data, self.treated, strata, weights, differences)

    def _is_left(self, population):
        is_left = np.zeros(len(self.treated), bool)
        is_left[population.cohort.rows_of(self.data)] = True
        return is_left

    def _fit(self, analysis, population, followed):
        estimator = ESTIMATORS[analysis["model"]][population.strata is not None](alpha=0.0)
        given, intervals = {}, "profile"
        if population.strata is not None:
            if analysis["model"] != "logistic":  # whose outcomes have them
                given["strata"] = population.strata
        elif population.weights is not None:
            given["sample_weight"], intervals = population.weights, "robust"
        if analysis["model"] == "poisson":
            given["exposure"] = followed.exposures
        return fit_outcomes(
            estimator,
            DataFrame({"treatment": self.treated.astype(float)}),
            followed,
            columns="treatment",
            at_risk=followed.rows,
            intervals=intervals,
            n_jobs=self._n_jobs,
            **given,
        )


def _describe_density(score, treated):
    """Densities of the preference scores of both arms, of normal kernels as R's ``density``."""
    preference = preference_score(score, treated)
    at = np.linspace(0.0, 1.0, N_POINTS)
    table = {"preference_score": at}
    for arm, is_here in (("target", treated), ("comparator", ~treated)):
        own = preference[is_here]
        low, high = np.quantile(own, [0.25, 0.75])
        spread = min(own.std(ddof=1) if own.size > 1 else 0.0, (high - low) / 1.34)
        width = 0.9 * (spread or own.std() or 1.0) * own.size**-0.2
        counts, edges = np.histogram(own, N_BINS, (0.0, 1.0))
        distance = (at[:, None] - (edges[:-1] + edges[1:]) / 2.0) / width
        kernel = np.exp(-0.5 * distance**2) / (width * np.sqrt(2.0 * np.pi))
        table[f"{arm}_density"] = kernel @ counts / own.size
    return DataFrame(table)


def pack(tables) -> dict:
    """Arrays of tables, without objects."""
    arrays = {}
    for name, table in tables.items():
        for column in table.columns:
            values = table[column]
            if values.dtype.name == "Int64":
                values = values.astype(float)
            values = values.to_numpy()
            if values.dtype.kind not in "biufM":
                values = np.array(["" if v is None or v != v else str(v) for v in values], str)
            arrays[f"{name}/{column}"] = values
    return arrays


def unpack(arrays) -> dict:
    """Tables of the arrays that `pack` made."""
    columns = {}
    for key, values in arrays.items():
        name, column = key.split("/", 1)
        columns.setdefault(name, {})[column] = values
    return {name: DataFrame(found) for name, found in columns.items()}
