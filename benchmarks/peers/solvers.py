"""The Python peers, each with its own form of a problem and its own call.

Usage: solvers.py PROBLEM_DIR OUT.json PEER [ARGUMENT ...] TOLERANCE

What the tolerance bounds is in the peer's docstring. A peer is a class of `Peer`: `prepare`
converts the problem (not timed), `fit` is timed and returns an `Answer`.
"""

import contextlib
import os
import sys
from functools import partial

import numpy as np
from peer_problem import (
    LARGEST_BYTES,
    Answer,
    Peer,
    centred,
    dense,
    quietly,
    signed,
    skip,
    timed_run,
)


class Sksurv(Peer):
    """scikit-survival's CoxnetSurvivalAnalysis: the squared change in a pass (default 1e-7)."""

    modules = ("sksurv.linear_model", "sksurv.util")
    distribution = "scikit-survival"
    with_paths = True

    def prepare(self, problem):
        # Fortran order is what it converts to inside; so that conversion is not timed.
        y = self.loaded[1].Surv.from_arrays(problem["event"] > 0, problem["time"])
        return dense(problem), y

    def fit(self, problem, prepared):
        alphas = problem.penalties / len(problem["time"])  # mean scale
        # Columns are penalized as they are, and not copied inside the timed call.
        how = {"l1_ratio": 1.0, "normalize": False, "copy_X": False, "tol": self.tolerance}
        model = self.loaded[0].CoxnetSurvivalAnalysis(alphas=alphas, **how)
        _, warned = quietly(lambda: model.fit(*prepared))
        coef = model.coef_.T if problem.path else model.coef_[:, 0]
        return Answer(coef, f"dense X; {self.note(warned)}")


class Skglm(Peer):
    """skglm's proximal Newton solver: the share of the largest penalty that its KKT may reach."""

    modules = ("skglm.datafits", "skglm.penalties", "skglm.solvers")
    distribution = "skglm"
    with_paths = True

    def prepare(self, problem):
        if problem["exposure"] is not None:
            skip("no exposures in this peer")
        y = signed(problem)
        if problem.model == "cox":
            y = np.column_stack([problem["time"], problem["event"].astype(float)])
        return problem.table_with_short_indices(), np.asfortranarray(y)

    def fit(self, problem, prepared):
        datafits, penalties, solvers = self.loaded
        (table, y), (n, p) = prepared, problem.shape
        kind = solvers.AndersonCD if problem.model == "linear" else solvers.ProxNewton
        own = self.tolerance * problem.penalty_max / n  # mean scale
        solver = kind(tol=own, max_iter=200, fit_intercept=problem.intercept)
        names = {"logistic": "Logistic", "poisson": "Poisson", "linear": "Quadratic"}
        if problem.model == "cox":
            datafit = datafits.Cox(use_efron=False)
        else:
            datafit = getattr(datafits, names[problem.model])()
        w, Xw, coefs, warned, count = None, None, [], [], 0
        for penalty in problem.penalties:  # each starts from the one before
            if w is not None:
                Xw = table @ w[:p] + (w[-1] if problem.intercept else 0.0)
            solve = partial(solver.solve, table, y, datafit, penalties.L1(penalty / n), w, Xw)
            found, said = quietly(solve)
            w, objectives, violation = found
            coefs.append(w[:p].copy())
            warned, count = warned + said, count + len(objectives)
        warned.append(f"own KKT {violation * n / problem.penalty_max:.1e}")
        intercept = float(w[-1]) if problem.intercept else 0.0
        coef = np.array(coefs) if problem.path else coefs[0]
        return Answer(coef, self.note(warned), count, intercept)


class Adelie(Peer):
    """Groups of one column: the squared change in a pass and in an outer iteration (1e-7)."""

    modules = ("adelie",)
    with_paths = True

    def prepare(self, problem):
        [adelie] = self.loaded
        status, start = problem["event"].astype(float), np.full(problem.shape[0], -1.0)
        how = {"stop": problem["time"], "status": status, "tie_method": "breslow"}
        family = adelie.glm.cox(start=start, **how)  # all at risk from before the first time
        form = adelie.matrix.dense if problem.is_dense else adelie.matrix.sparse
        return form(problem.table(), method="naive", n_threads=1), family

    def fit(self, problem, prepared):
        # Never stop because enough deviance is explained, or after 1e5 steps, which can be too few.
        how = {"tol": self.tolerance, "irls_tol": self.tolerance, "max_iters": 10**8}
        how |= {"irls_max_iters": 10**6, "adev_tol": 1.0, "early_exit": False}
        how |= {"intercept": False, "n_threads": 1, "progress_bar": False}
        alphas = problem.penalties / problem.shape[0]  # mean scale
        state = self.loaded[0].grpnet(*prepared, lmda_path=alphas, **how)
        if not state.betas.shape[0]:
            skip(f"no solution: {state.error}")
        coefs = np.asarray(state.betas.todense())
        if len(coefs) < len(problem.penalties):
            skip(f"{len(coefs)} of {len(problem.penalties)} penalties: {state.error}")
        return Answer(coefs if problem.path else coefs[-1], self.note([], "tol=irls_tol"))


class Glmstar(Peer):
    """The compiled code of R's glmnet 5: the squared change in a pass over the null deviance."""

    # This folder has no module of this name, but an older file could.
    modules = ("glmnet", "glmnet.cox", "glmnet.paths.fastnet", "pandas")
    distribution = "glmstar"
    with_strata, with_paths = True, True

    def prepare(self, problem):
        sys.setrecursionlimit(10_000)
        columns = {"event": problem["time"], "status": problem["event"].astype(int)}
        strata = None if problem["stratum"] is None else "stratum"
        if strata:
            columns["stratum"] = problem["stratum"]
        family = self.loaded[1].CoxFamily(tie_breaking="breslow", strata_id=strata)
        return problem.table(), self.loaded[3].DataFrame(columns), family

    def fit(self, problem, prepared):
        X, y, family = prepared
        # Never stop a path because enough deviance is explained.
        ends = {"thresh": self.tolerance, "epsnr": min(1e-6, self.tolerance)}
        ends |= {"maxit": 10**7, "fdev": 0.0, "devmax": 1.0, "mxitnr": 500}
        control = self.loaded[2].FastNetControl(**ends)
        alphas = problem.penalties / problem.shape[0]  # mean scale
        how = {"standardize": False, "family": family, "control": control}
        model = self.loaded[0].CoxNet(lambda_values=alphas, **how)
        _, warned = quietly(lambda: model.fit(X, y))
        coef = model.coefs_ if problem.path else model.coefs_[-1]
        return Answer(coef, self.note(warned, "thresh"))


class Skein(Peer):
    """skein-glm, Cox by groups of one column: its inner and outer iterations (default 1e-6)."""

    modules = ("skein_glm",)
    distribution = "skein-glm"
    with_paths = True

    def prepare(self, problem):
        if problem["exposure"] is not None:
            skip("no exposures in this driver")
        if problem.model == "cox":
            return problem.table(), problem["time"], problem["event"].astype(float)
        return problem.table(), problem["y"]

    def fit(self, problem, prepared):
        [skein] = self.loaded
        alphas = np.ascontiguousarray(problem.penalties / problem.shape[0])  # mean scale
        options = {"lambdas": alphas, "tol": self.tolerance, "max_iter": 100_000}
        if problem.model != "linear":
            options |= {"outer_tol": self.tolerance, "max_outer": 1_000}
        if problem.model == "cox":
            groups = np.arange(problem.shape[1], dtype=np.int64)
            model = skein.CoxGroupLassoPathRegressor(groups, ties="breslow", **options)
        else:
            kind = "" if problem.model == "linear" else problem.model.capitalize()
            kind = getattr(skein, f"{kind}LassoPathRegressor")
            model = kind(fit_intercept=problem.intercept, **options)
        _, warned = quietly(lambda: model.fit(*prepared))
        coefs = np.asarray(model.coefs_ if hasattr(model, "coefs_") else model.coef_path_)
        coefs = coefs if len(coefs) == len(alphas) else coefs.T
        intercept = float(np.ravel(model.intercepts_)[-1]) if problem.intercept else 0.0
        coef = coefs if problem.path else coefs[-1]
        return Answer(coef, self.note(warned), intercept=intercept)


class FastSurvival(Peer):
    """Coordinate steps of a cubic surrogate in NumPy: passes, for it has no other criterion."""

    modules = ("fastsurvival.baselines_efficiency",)
    distribution = "fastsurvival"

    def prepare(self, problem):
        n, p = problem.shape
        if n * n + 32.0 * n * p > LARGEST_BYTES:  # X twice and its extremes
            skip("its matrix of rows by rows is too large")
        return problem.matrix.toarray(order="F")

    def fit(self, problem, X):
        passes, y = int(self.tolerance), (problem["time"], problem["event"].astype(float))
        kind = self.loaded[0].coxModelElasticNet_newton_cubic_surrogate
        model = kind(X, *y, lambda1=problem.penalty, lambda2=0.0)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            model.fit(max_iter=passes)
        return Answer(model.w, f"dense X; {passes} passes", passes)


class Abess(Peer):
    """ANOTHER PROBLEM, the best ten columns without shrinkage: its Newton steps (default 1e-8)."""

    modules = ("abess",)

    def prepare(self, problem):
        return dense(problem), np.column_stack([problem["time"], problem["event"]])

    def fit(self, problem, prepared):
        size, how = min(10, problem.shape[1]), {"primary_model_fit_epsilon": self.tolerance}
        model = self.loaded[0].CoxPHSurvivalAnalysis(support_size=[size], thread=1, **how)
        _, warned = quietly(lambda: model.fit(*prepared, is_normal=False))
        return Answer(
            model.coef_, "; ".join([f"OTHER OBJECTIVE: the best {size} columns", *warned])
        )


class Logistic(Peer):
    """scikit-learn's LogisticRegression: SOLVER "liblinear" or "saga", and its tolerance."""

    modules = ("sklearn.linear_model",)
    distribution = "scikit-learn"

    def prepare(self, problem):
        table = problem.table()
        return (table if problem.is_dense else table.tocsr()), problem["y"].astype(int)

    def fit(self, problem, prepared):
        how = {
            "C": 1.0 / problem.penalty,
            "l1_ratio": 1.0,
            "solver": self.arguments[0],
        }  # sum scale
        how |= {"tol": self.tolerance, "max_iter": 10_000, "random_state": 0}
        # liblinear penalizes its intercept, by the penalty over this scaling.
        how |= {"fit_intercept": problem.intercept, "intercept_scaling": 1e4}
        model = self.loaded[0].LogisticRegression(**how)
        _, warned = quietly(lambda: model.fit(*prepared))
        intercept = float(np.ravel(model.intercept_)[0])
        return Answer(model.coef_[0], self.note(warned), int(np.max(model.n_iter_)), intercept)


class Lasso(Peer):
    """scikit-learn's Lasso and `lasso_path`: the duality gap over the sum of squares of y."""

    modules = ("sklearn.linear_model",)
    distribution = "scikit-learn"
    with_paths = True

    def prepare(self, problem):
        if problem.path and not problem.is_dense:
            skip("paths of dense X alone")
        return problem.table()

    def fit(self, problem, table):
        [linear_model], alphas = self.loaded, problem.penalties / problem.shape[0]
        how = {"tol": self.tolerance, "max_iter": 100_000}
        if problem.path:
            X, y = centred(problem, table)
            found, warned = quietly(lambda: linear_model.lasso_path(X, y, alphas=alphas, **how))
            return Answer(found[1].T, self.note(warned))
        model = linear_model.Lasso(alpha=alphas[0], fit_intercept=problem.intercept, **how)
        _, warned = quietly(lambda: model.fit(table, problem["y"]))
        return Answer(model.coef_, self.note(warned), model.n_iter_, float(model.intercept_))


class Celer(Peer):
    """Logistic regression without intercept, Lasso: the duality gap over half the mean of y^2."""

    modules = ("celer",)
    with_paths = True

    def prepare(self, problem):
        if problem.model == "logistic" and problem.intercept:
            skip("no intercept in its logistic regression")
        if problem.path and (problem.model != "linear" or not problem.is_dense):
            skip("paths of least squares and dense X alone")
        return problem.table_with_short_indices(), signed(problem)

    def fit(self, problem, prepared):
        [celer], alphas = self.loaded, problem.penalties / problem.shape[0]
        if problem.path:
            (X, y), path = centred(problem, prepared[0]), {"alphas": alphas, "tol": self.tolerance}
            found, warned = quietly(lambda: celer.celer_path(X, y, "lasso", **path))
            return Answer(found[1].T, self.note(warned))
        how = {"tol": self.tolerance, "max_iter": 1_000, "fit_intercept": problem.intercept}
        if problem.model == "logistic":
            model = celer.LogisticRegression(C=1.0 / problem.penalty, **how)  # sum scale
        else:
            model = celer.Lasso(alpha=alphas[0], **how)
        _, warned = quietly(lambda: model.fit(*prepared))
        intercept = float(model.intercept_) if problem.intercept else 0.0
        return Answer(model.coef_, self.note(warned), intercept=intercept)


class Statsmodels(Peer):
    """ConditionalLogit, exact, no penalty: the largest derivative of the mean log-likelihood."""

    modules = ("statsmodels.discrete.conditional_models", "statsmodels.base.model")
    distribution = "statsmodels"

    def prepare(self, problem):
        if problem.penalty > 0:
            skip("no penalty but by general optimizers")
        if problem.ties != "exact":
            skip("exact likelihood only")
        sets = {"groups": problem["group"], "missing": "none"}
        return self.loaded[0].ConditionalLogit(problem["y"], problem.matrix.toarray(), **sets)

    def fit(self, problem, model):
        # Its own `fit` passes no tolerance on, and goes on to a numerical Hessian.
        how = {"method": "bfgs", "gtol": self.tolerance, "maxiter": 1_000, "disp": False}
        optimize = self.loaded[1].LikelihoodModel.fit
        result, warned = quietly(lambda: optimize(model, skip_hessian=True, **how))
        note = f"BFGS, {self.note(warned, 'gtol')}; gradients as iterations"
        return Answer(result.params, note, result.mle_retvals["gcalls"])


if __name__ == "__main__":
    import survival_solvers  # noqa: F401

    if sys.argv[3] == "sksurvgpu":  # the one that other interpreters do not have
        import ours  # noqa: F401
    timed_run()
