"""Errors and warnings. Non-convergence warns with scikit-learn's ``ConvergenceWarning``."""

__all__ = [
    "BackendUnavailableError",
    "NothingSelectedWarning",
    "NothingToCompareError",
    "TreatmentPredictedWarning",
]


class BackendUnavailableError(RuntimeError):
    """The requested backend cannot run on this machine.

    The message names what is missing and what to install or change.

    Examples
    --------
    >>> from sksurvgpu.exceptions import BackendUnavailableError
    >>> print(BackendUnavailableError.missing_package("cuda", "numba-cuda", "cuda12"))
    backend="cuda" needs the package numba-cuda, which is not installed; \
run: pip install "sksurvgpu[cuda12]", or pass backend="cpu"
    """

    @classmethod
    def missing_package(
        cls, backend: str, package: str, extra: str | None = None
    ) -> "BackendUnavailableError":
        """Build the error for a package that is not installed.

        Parameters
        ----------
        backend : str
            Backend that the user asked for.
        package : str
            Name of the missing package, as pip knows it.
        extra : str or None, default=None
            Our extra that brings the package; None names the package itself.

        Returns
        -------
        error : BackendUnavailableError
            To be raised by the caller.
        """
        target = package if extra is None else f"sksurvgpu[{extra}]"
        return cls(
            f'backend="{backend}" needs the package {package}, which is not installed; '
            f'run: pip install "{target}", or pass backend="cpu"'
        )

    @classmethod
    def no_device(cls, backend: str, reason: str) -> "BackendUnavailableError":
        """Build the error for a machine without a usable device or driver.

        Parameters
        ----------
        backend : str
            Backend that the user asked for.
        reason : str
            What the driver said.

        Returns
        -------
        error : BackendUnavailableError
            To be raised by the caller.
        """
        return cls(
            f'backend="{backend}" found no usable device ({reason}); install a current driver '
            "or run on a machine that has a device (sksurvgpu.show_versions() lists what is "
            'seen), or pass backend="cpu"'
        )


class NothingToCompareError(ValueError):
    """Rows of a conditional model have no information: no subject, stratum or set can be compared.

    Fits raise it; the log-likelihood of such rows, as of an uninformative fold, is 0.
    """


class NothingSelectedWarning(UserWarning):
    """The penalty of a fit is so large that all penalized coefficients are 0.

    Estimators with a fixed `alpha` warn. Paths, cross-validation and the bootstrap do not, as such
    penalties are part of their search, and neither do the folds of scikit-learn's ``GridSearchCV``;
    its last fit to all rows warns if it selects nothing.

    Examples
    --------
    A null model that is wanted needs no warning:

    >>> import warnings
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.exceptions import NothingSelectedWarning
    >>> data = simulate_cox(100, 5, random_state=0)
    >>> with warnings.catch_warnings(action="ignore", category=NothingSelectedWarning):
    ...     null = CoxLassoCCD(alpha=10.0).fit(data.X, data.y)
    """


class TreatmentPredictedWarning(UserWarning):
    """A column is almost the treatment itself; `cohort.balance` names it.

    Columns that are part of the treatment's definition, such as the code of the drug, make a
    propensity score of 0 and 1, and leave nobody to compare.
    """
