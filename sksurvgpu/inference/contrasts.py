"""Coefficients as readers want them: contrasts, larger units, factors with their reference."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from pandas import DataFrame

from ..data.by_column import by_column, check_by_column
from ..estimators.pipelines import names_of

REFERENCE = " (reference)"  # end of the name of a row that is no coefficient
CALLED = "{0}_{1}", "{0}={1}", "{0}[T.{1}]", "C({0})[T.{1}]", "{1}"  # the column of a level


class Combinable:
    """A result with coefficients, their covariance and names, of which it makes others."""

    def contrast(self, contrasts):
        """Sums of coefficients, such as differences of two, with intervals and tests.

        Parameters
        ----------
        contrasts : dict of {str or int: float}, dict of {str: dict} or DataFrame
            Factors of the coefficients in a sum, by name or position; of several sums in a
            dictionary by what they are to be called, or in a table, such as a difference of rows.

        Returns
        -------
        result : WaldResult
            With the sums in place of the coefficients.

        Examples
        --------
        >>> from sksurvgpu import CoxLassoCCD, wald
        >>> from sksurvgpu.datasets import simulate_cox
        >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
        >>> result = wald(CoxLassoCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
        >>> result.contrast({"x1 - x2": {"x1": 1, "x2": -1}, "5 x0": {"x0": 5}})
        <WaldResult of 2 coefficients, 95% intervals>
        ...
        """
        if hasattr(contrasts, "iterrows"):
            contrasts = {str(label): dict(row) for label, row in contrasts.iterrows()}
        given = contrasts if isinstance(contrasts, Mapping) else {}
        has_names = any(isinstance(row, Mapping) for row in given.values())
        given = given if has_names else {"": given}
        if not all(isinstance(row, Mapping) and row for row in given.values()):
            raise TypeError(
                f"`contrasts` is {contrasts!r:.60}; pass {{column: factor}}, or several by name."
            )
        n, names = len(self.coef), self.feature_names
        rows = [check_by_column(row, "contrasts", n, names, default=0.0) for row in given.values()]
        if not has_names:
            given = [_sum_in_words(by_column(given[""], "contrasts", n, names), names)]
        nothing = dict.fromkeys(["tests", "fit_statistics", "factors"])
        return self._combine(np.array(rows), list(given), **nothing)

    def per(self, units):
        """Coefficients for larger or smaller steps of columns, such as ten years of age.

        Parameters
        ----------
        units : dict of {str or int: float}
            Steps of some columns, by name or position.

        Returns
        -------
        result : WaldResult
            Coefficients of these columns times the steps, named so, and the others.
        """
        n, names = len(self.coef), self.feature_names.copy()
        is_mapping = isinstance(units, Mapping)
        steps = check_by_column(units if is_mapping else {}, "units", n, names, default=1.0)
        if not is_mapping or not steps.all():
            raise ValueError(f"`units` is {units!r}; pass {{column: step}}, steps other than 0.")
        factors = self.factors
        for j in by_column(units, "units", n, self.feature_names):
            names[j] = f"{names[j]} (per {steps[j]:g})"
        if factors is not None:
            called = dict(zip(self.feature_names, names, strict=True))
            factors = factors.assign(row=factors["row"].map(called))
        return self._combine(np.diag(steps), names, factors=factors)

    def with_factors(self, factors):
        """Coefficients of factors below their reference level, and a test of each factor.

        Parameters
        ----------
        factors : dict of {str: list}, DataFrame or fitted transformer
            The levels of each factor. All but one have a column, called as the level or, say,
            "factor_level"; the other one is the reference. Categorical columns of a table know
            them, and a transformer or pipeline with CategoryColumns or a OneHotEncoder does.

        Returns
        -------
        result : WaldResult
            With a row for each reference level, whose coefficient is 0; with a column ``p_factor``
            of the summary, beside the first level of each factor; and with ``factors``.

        Examples
        --------
        >>> from sksurvgpu import CoxLassoCCD, wald
        >>> from sksurvgpu.datasets import simulate_cox
        >>> data = simulate_cox(1_000, 3, density=0.3, random_state=0)
        >>> result = wald(CoxLassoCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
        >>> result = result.with_factors({"arm": ["placebo", "x1", "x2"]})
        >>> result.intervals.index.tolist()
        ['x0', 'arm_placebo (reference)', 'x1', 'x2']
        """
        names, references = list(self.feature_names), {}
        tests = {} if self.factors is None else self.factors.T.to_dict("list")
        for factor, levels in _levels_of(factors).items():
            own, missing = _columns_of(factor, levels, names)
            if not own and len(levels) == 1 and not isinstance(factors, Mapping):
                continue  # an encoder has no column for what is the same in all rows
            if not own or len(missing) > 1:
                raise ValueError(
                    f"`factors` has levels of {factor!r} without a column: "
                    f"{', '.join(map(repr, missing))}. Only the reference has none; columns are "
                    f"called as the level, or such as {f'{factor}_{missing[0]}'!r}."
                )
            row = names[min(own)]
            if missing:
                row = references[min(own)] = f"{factor}_{missing[0]}{REFERENCE}"
            tests[factor] = (row, *_test_of(self, own))
        table = DataFrame.from_dict(tests, "index", columns=["row", "statistic", "df", "p_value"])
        before = sorted(references)  # the columns above which there is a row of zeros
        matrix = np.insert(np.eye(len(names)), before, 0.0, axis=0)
        names = np.insert(self.feature_names, before, [references[j] for j in before])
        return self._combine(matrix, names, factors=table.rename_axis("factor"))

    def _combine(self, matrix, names, **changes):
        """Copy for products of a matrix with the coefficients; references have no error."""
        known = ~np.isnan(np.diagonal(self.covariance))
        chosen = np.array([not str(name).endswith(REFERENCE) for name in self.feature_names])
        covariance = matrix @ np.where(np.outer(known, known), self.covariance, 0.0) @ matrix.T
        unknown = matrix[:, chosen & ~known].any(axis=1) | ~matrix[:, chosen].any(axis=1)
        covariance[unknown] = covariance[:, unknown] = np.nan
        is_left_out = np.isnan(self.coef)
        coef = matrix @ np.where(is_left_out, 0.0, self.coef)
        coef[matrix[:, is_left_out].any(axis=1)] = np.nan
        changes |= {"coef": coef, "covariance": covariance, "_fitted": matrix @ self._fitted}
        return replace(self, feature_names=np.array(names, dtype=object), **changes)


def _sum_in_words(factors, names) -> str:
    times = {1: "", -1: "-"}  # others are written
    terms = [f"{times.get(float(f), f'{f:g} × ')}{names[j]}" for j, (_, f) in factors.items()]
    return " + ".join(terms).replace("+ -", "- ").replace(REFERENCE, "")


def _test_of(result, columns):
    """Statistic, degrees of freedom and p-value of some coefficients together, if known."""
    columns = [j for j in columns if not np.isnan(result.coef[j])]
    if not columns or np.isnan(result.covariance[np.ix_(columns, columns)]).any():
        return np.nan, len(columns), np.nan
    test = result.test(columns)
    return test.statistic, test.df, test.p_value


def _levels_of(source) -> dict[str, list[str]]:
    """Levels of each factor, of a dictionary or of the encoders in a transformer."""
    source = getattr(source, "best_estimator_", source)
    found = source if isinstance(source, Mapping) else _encoded(source)
    if not found or not all(np.ndim(levels) == 1 and len(levels) for levels in found.values()):
        raise TypeError(
            f"`factors` is of type {type(source).__name__}, in which there are no levels; pass a "
            "dictionary {factor: levels}, categorical columns, or a fitted OneHotEncoder."
        )
    return {str(factor): list(dict.fromkeys(map(str, found[factor]))) for factor in found}


def _encoded(transformer, names=None) -> dict:
    """Levels that categories of a table or encoders know: steps before them know their names."""
    if hasattr(transformer, "select_dtypes"):
        found = transformer.select_dtypes("category").items()
        return {name: column.cat.categories for name, column in found}
    if hasattr(transformer, "levels_"):
        return transformer.levels_
    if hasattr(transformer, "drop_idx_"):
        levels = [*transformer.categories_]
        for j, rare in enumerate(getattr(transformer, "infrequent_categories_", [])):
            if rare is not None:  # they share a column
                levels[j] = [*(k for k in levels[j] if k not in rare), "infrequent_sklearn"]
        names = [f"x{j}" for j in range(len(levels))] if names is None else names
        return dict(zip(getattr(transformer, "feature_names_in_", names), levels, strict=True))
    found = {}
    for k, (_, step) in enumerate(getattr(transformer, "steps", [])):
        found |= _encoded(step, names_of(transformer[:k]) if k else names)
    parts = [part for _, part, _ in getattr(transformer, "transformers_", [])]
    parts += [transformer.transformer_] if hasattr(transformer, "transformer_") else []
    return found | {name: levels for part in parts for name, levels in _encoded(part).items()}


def _columns_of(factor, levels, names):
    """Positions of the columns of levels, and the levels that have none."""
    place = {str(name).rpartition("__")[2]: j for j, name in reversed([*enumerate(names)])}
    place |= {str(name): j for j, name in enumerate(names)}
    called = [[place.get(form.format(factor, level)) for form in CALLED] for level in levels]
    first = [next((j for j in own if j is not None), None) for own in called]
    missing = [level for level, j in zip(levels, first, strict=True) if j is None]
    return [j for j in first if j is not None], missing
