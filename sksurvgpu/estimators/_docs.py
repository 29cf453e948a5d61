"""Text that the docstrings of all models share, written once."""

from .._docs import entries, sharing

_ENTRIES = entries("""
    algorithm : {"majorized", "exact"}, default="majorized"
        "majorized" minimizes quadratic models of the likelihood; "exact" takes an exact
        one-dimensional Newton step for each coordinate, the published cyclic descent, which
        reaches the same optimum more slowly. Of "exact", ``backend="cuda"`` has Cox models whose
        rows are at risk from the beginning and whose coefficients are constant over time.
    tol : float, default=1e-6
        Bound of the violations of the optimality conditions in standard errors, relative to the
        largest score of the null model, of which 100 standard errors count at most. By default
        no score is off by more than 1e-4 standard errors.
    max_iter : int, default=1000
        Most outer iterations at a penalty, beside a few at larger ones on the way to it.
    warm_start : bool, default=False
        Start from the previous fit's `coef_` where its length fits.
    backend : {"auto", "cpu", "cuda"}, default="auto"
        Where to compute. "auto" is the CPU today: the CUDA backend has been compiled and
        simulated, but not yet timed on a device, so that nobody knows which fits are faster
        there. "cuda" raises `exceptions.BackendUnavailableError` where it cannot run.
    precision : {"float64", "float32"}, default="float64"
        Curvatures that a CUDA device keeps for every row; everything else, and all that decides
        when a fit ends, is in double precision. "float32" exists there only.
    device : int, list of int or "all", default=0
        Number of the CUDA device, as the driver counts them. Several share out the fits of a
        cross-validation or bootstrap; a single fit takes the first, and samplers take one.
    n_jobs : int or None, default=None
        Threads. None takes as many as Numba would, that is all cores, or what the environment
        variable ``NUMBA_NUM_THREADS`` says (joblib sets it in its workers); -1 all cores.
    verbose : int, default=0
        0 is silent; 1 shows one line on what is done and how long the rest may take, 2 also what it
        consists of: penalties, fits or iterations.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where X had strings as column names.
    sample_weight : array-like of shape (n_samples,), optional
        Row weights, at least 0.
    strata : array-like of shape (n_samples,), optional
        Stratum label of each row, where `y` has no field ``stratum``.
    start : float or array-like of shape (n_samples,), optional
        Time until which rows are known to be free of events. What is predicted is conditional
        on this: nothing happens at and before it, and only the hazard after it counts.
    times : float or array-like of shape (n_times,)
        Horizons, increasing.
    return_array : bool, default=False
        Return values at `unique_times_` in place of functions.
    offset : array-like of shape (n_samples,), optional
        Known part of the linear predictor. Predictions do not include it.
    intercept_ : float
        Intercept; 0 where none was wanted.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    random_state : int, RandomState instance or None, default=0
        Seed. A chain's draws are the same for any number of threads and of other chains.
    n_draws : int, default=1000
        Draws of each chain that are kept.
    thin : int, default=1
        Keep one draw of so many that are made.
    n_chains : int, default=4
        Independent chains, by whose agreement convergence is judged.
    """)
_SHARED = {
    "conditional_objective": r"""
        .. math:: -\ell(X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
                  + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

        with the conditional log-likelihood :math:`\ell`, the sum :math:`W` of the sample weights
        (without weights the number of rows), :math:`\alpha` = `alpha`, :math:`\rho` = `l1_ratio`
        and :math:`f` = `penalty_factor`. Columns are neither centred nor scaled.
        """,
    "penalty": """
        alpha : float, default=0.01
            Strength of the penalty; 0 fits without one.
        l1_ratio : float, dict or array-like of shape (n_features,), default=1.0
            Share of the lasso, from 0 (ridge) to 1, of all columns or of each. A dictionary gives
            those of some columns, by name or position, the others get 1.
        penalty_factor : dict, array-like of shape (n_features,) or None, default=None
            Factor of the penalty of each column; 0 leaves a column unpenalized. A dictionary gives
            those of some columns, by name or position, the others get 1.
        bounds : tuple (lower, upper), dict or None, default=None
            Least and largest coefficient of each column, with 0 between them: numbers, or arrays of
            shape (n_features,), and -inf and inf for none. A dictionary gives the pairs of some
            columns, by name or position. ``bounds=(0, numpy.inf)`` has no negative coefficient.
        prior_mean : dict, array-like of shape (n_features,) or None, default=None
            Number that the penalty pulls the coefficient of each column to, in place of 0. A
            dictionary gives those of some columns, by name or position, the others get 0.
        penalty : penalty object, {"mcp", "scad"} or None, default=None
            Another penalty than the elastic net, whose strength `alpha` is, such as `MCP` or
            `GroupLasso`; "mcp" and "scad" stand for these with their defaults. See
            :doc:`/guide/penalties`.
        relax : float or None, default=None
            Share of the penalized coefficients in a relaxed fit, from 0 to 1: the rest is from a
            fit without a penalty of what they select; see :doc:`/guide/adaptive`. What is reported
            of objective and convergence is that of the penalized fit, `converged_` of both. None
            does not relax.
        standardize : bool, default=False
            Whether the penalty is of coefficients times the standard deviations of their columns,
            as if X were divided by these: `coef_`, `bounds` and `prior_mean` are in the units of X,
            which stays as it is. Deviations have the sum of the sample weights as divisor, and 1
            stands for constant columns; folds and replicates have those of all rows.
        """,
    "solver": "<<algorithm, tol, max_iter, warm_start, device_and_threads>>",
    "device_and_threads": "<<backend, precision, device, n_jobs, verbose>>",
    "sampling": """
        <<n_chains>>
        n_tune : int, default=1000
            First draws of each chain, which tune the sampler and are thrown away.
        <<n_draws, thin>>
        keep : {"float64", "float32", "summary"}, default="float64"
            How draws are kept. "summary" keeps running means and covariances of long parameters in
            place of their draws; of more than 2,000 numbers, variances.
        folder : path or None, default=None
            New folder for the draws of one fit (``~`` is the user's home), where memory is too
            small for them, or where a fit may be ended: called again with the same data and
            parameters it goes on, to the same draws. None in searches, which fit many times.
        <<random_state>>
        <<backend, device>>
        n_jobs : int or None, default=None
            Threads, of which each runs chains. None takes as many as Numba would, that is all
            cores, or what the environment variable ``NUMBA_NUM_THREADS`` says; -1 all cores.
        verbose : int, default=0
            0 is silent; 1 shows one line for all chains, 2 lines of each.
        """,
    "rows_of_fit": """
        X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
            Covariates of the fit, as the estimator or pipeline takes them.
        y : ndarray of shape (n_samples,)
            Outcome of the fit.
        """,
    "more_of_fit": """
        **fit_params : array-like of shape (n_samples,), optional
            What else ``fit`` was given, such as `sample_weight`, `strata` or `offset`.
        """,
    "rows_to_fit": """
        X : scipy sparse matrix, ndarray, DataFrame or Design of shape (n_samples, n_features)
            Covariates, as the estimator or pipeline takes them.
        y : ndarray of shape (n_samples,)
            Outcome, as the estimator's ``fit`` takes it.
        """,
    "more_to_fit": """
        **fit_params : array-like of shape (n_samples,), optional
            Further arguments of the estimator's ``fit``, such as `sample_weight` or `strata`.
        """,
    "fitted": """
        infinite_ : ndarray of shape (n_coef,), bool
            Coefficients that have no finite estimate, because unpenalized columns separate the
            events. Their `coef_` is what was reached when the fit stopped. Not decided where rows
            are in partitions: a fit warns of huge effects, and none is infinite here.
        alpha_max_ : float
            Least `alpha` at which all penalized coefficients are zero (for ``l1_ratio=0``, where
            there is none, 1,000 times the lasso's); on the scale of `alpha`.
        objective_ : float
            Minimum found of the objective above, a mean.
        log_likelihood_ : float
            Log-likelihood at `coef_`, a sum.
        null_log_likelihood_ : float
            The same where all coefficients are 0, with the offsets and strata of the fit and,
            where there is one, the best intercept.
        kkt_se_ : float
            Largest violation of the optimality conditions in standard errors, computed afresh after
            the fit: that of a column is divided by the square root of its curvature in the null
            model.
        kkt_se_bound_ : float
            What `tol` allows `kkt_se_` to be.
        kkt_ : float
            Largest violation in units of the objective's gradient, hence of `alpha`. That of a
            column is divided by its penalty factor, or if it is unpenalized by twice its standard
            deviation.
        dual_gap_ : float
            Upper bound of `objective_` minus the optimum; NaN where some column is unpenalized.
        n_iter_ : int
            Outer iterations, also on the way to the penalty.
        converged_ : bool
            Whether `kkt_se_` is at most `kkt_se_bound_`, and no violation of a column with a lasso
            penalty is more than 1 % of that.
        <<n_features_in_, feature_names_in_>>
        backend_, backend_reason_ : str
            Where the fit ran, and why there.
        n_exchanges_, n_passes_ : int, float
            How often all partitions were asked, and how often their entries were read, where the
            rows of `X` are in partitions.
        """,
    "sampled": """
        posterior_ : Posterior
            Draws, means, intervals and diagnostics of all unknowns. A fit warns where R-hat is
            above 1.01 or a chain's share of the effective sample size below 100.
        <<n_features_in_, feature_names_in_>>
        backend_, backend_reason_ : str
            Where the chains ran, and why there.
        """,
    "X_here": """
        X : scipy sparse matrix, ndarray, DataFrame or Design, of shape (n_samples, n_features)
            Numbers without missing values. Sparse input stays sparse.
        """,
    "X": """
        <<X_here>>
            Or a handle on rows in partitions, with all other arguments by row in the same ones; see
            :doc:`/guide/partitions`.
        """,
    "only_X": "Parameters\n----------\n<<X>>",
    "itself": "Returns\n-------\nself : object\n    The fitted estimator.",
    "strata_of_fit": """
        strata : array-like of shape (n_samples,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        """,
    "event_of_prediction": """
        event : int or str, optional
            Code or label of an event; that of interest by default.
        """,
    "shared_coefficients": """
        shared : list of int or str, "all" or None, default=None
            Columns, by name or position, whose coefficient is the same for all hazards. A list,
            even an empty one, makes one fit of all hazards, `joint_`. A pipeline's transformers
            then learn once, from all rows.
        between : float or None, default=None
            Pulls the coefficients of a column to one another: for those that are not shared,
            ``alpha * between`` is the penalty of the coefficient that they have in common, of which
            their own ones are deviations; see `Hierarchical`. Both are lassos, or with
            ``l1_ratio=0`` ridges.
        fused : float or None, default=None
            Pulls the coefficients of a column to those of the hazard before: ``alpha * fused`` is
            the penalty of a difference, of `Fused`.
        """,
    "joint": """
        joint_ : CoxLassoCCD
            The one fit of all hazards, with `shared`, `between` or `fused`: to rows as ``stack``
            has them, for `wald`, `bootstrap` and the like.
        """,
    "strata_of_score": """
        strata : array-like of shape (n_samples,), optional
            Stratum of each row, where `y` has no field ``stratum``; required if and only if the
            model was fitted with strata. Labels need not occur in the fit.
        """,
    "risks": """
        Returns
        -------
        risk : pandas.DataFrame of shape (n_samples, n_times)
            A row for each one of X, with the index of a pandas DataFrame, and a column for each
            horizon. NaN, with a warning, for horizons beyond the last time of the fit's rows in the
            row's stratum: what happens then is not in the data.
        """,
    "concordance": """
        Returns
        -------
        concordance : float
            Between 0 and 1, 0.5 for predictions that say nothing.
        """,
    "predictor": """
        <<only_X>>

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            X times the coefficients, without the offset of the fit; higher is riskier.
        """,
    "curves": """
        Returns
        -------
        curves : ndarray
            Of `sksurv.functions.StepFunction`, shape (n_samples,); from 0 to the last time of the
            stratum. With `return_array` numbers, shape (n_samples, n_unique_times), NaN beyond the
            last time of the row's stratum.
        """,
    "offset_of_score": """
        offset : array-like of shape (n_samples,), optional
            Known part of the linear predictor of these rows.
        """,
    "routing": """
        With scikit-learn's metadata routing, the arguments of ``fit`` and ``score`` beyond X and y
        are requested unless ``set_fit_request`` or ``set_score_request`` say otherwise.
        """,
}
documented = sharing({**_ENTRIES, **_SHARED})
