"""Python peers that are programs of survival analysis: most have no lasso."""

import numpy as np
from peer_problem import Answer, Peer, dense, quietly, skip


def needs_no_ties(problem):
    """End the run where events are tied: Efron's likelihood is Breslow's only without ties."""
    times = problem["time"][problem["event"] > 0]
    if len(np.unique(times)) < len(times):
        skip("events are tied, and it has Efron's likelihood alone")


def needs_no_penalty(problem):
    if problem.penalty > 0:
        skip("no lasso")


class Statgpu(Peer):
    """statgpu on the CPU: the change of the coefficients (default 1e-4; 1e-9 without penalty)."""

    modules = ("statgpu",)

    def prepare(self, problem):
        y = np.column_stack([problem["time"], problem["event"].astype(float)])
        return np.ascontiguousarray(dense(problem)), y

    def fit(self, problem, prepared):
        [statgpu], (X, y) = self.loaded, prepared
        how = {"ties": "breslow", "tol": self.tolerance, "max_iter": 100_000, "device": "cpu"}
        if problem.penalty > 0:
            alpha = problem.penalty / problem.shape[0]  # mean scale
            model = statgpu.PenalizedCoxPHModel(penalty="l1", alpha=alpha, **how)
            _, warned = quietly(lambda: model.fit(X, y))
        else:
            model = statgpu.CoxPH(compute_inference=False, compute_cindex=False, **how)
            _, warned = quietly(lambda: model.fit(X, y[:, 0], y[:, 1]))
        return Answer(np.ravel(model.coef_), f"dense X; {self.note(warned)}")


class Torchsurv(Peer):
    """torchsurv's loss, in single precision whatever it is given, by L-BFGS: slope of the mean."""

    modules = ("torch", "torchsurv.loss.cox")
    distribution = "torchsurv"

    def prepare(self, problem):
        needs_no_penalty(problem)
        as_tensor = self.loaded[0].from_numpy
        outcome = problem["event"] > 0, problem["time"]
        return as_tensor(np.ascontiguousarray(dense(problem))), *map(as_tensor, outcome)

    def fit(self, problem, prepared):
        (torch, losses), (X, event, time) = self.loaded, prepared
        coef = torch.zeros(X.shape[1], dtype=X.dtype, requires_grad=True)
        how = {"tolerance_grad": self.tolerance, "tolerance_change": 0.0, "max_iter": 1_000}
        search = torch.optim.LBFGS([coef], line_search_fn="strong_wolfe", **how)

        def loss():
            search.zero_grad()
            value = losses.neg_partial_log_likelihood(X @ coef, event, time, "breslow")
            value.backward()
            return value

        _, warned = quietly(lambda: search.step(loss))
        n_iter = search.state[coef]["n_iter"]
        note = f"dense X; {torch.get_num_threads()} thread(s); {self.note(warned)}"
        return Answer(coef.detach().numpy(), note, n_iter)


class Lifelines(Peer):
    """CoxPHFitter, Efron's ties: half of Newton's decrement (default 1e-7), standard errors too.

    Its lasso is of a smoothed absolute value, another problem.
    """

    modules = ("lifelines", "pandas")
    distribution = "lifelines"

    def prepare(self, problem):
        needs_no_penalty(problem)
        needs_no_ties(problem)
        frame = self.loaded[1].DataFrame(dense(problem))
        return frame.assign(time=problem["time"], event=problem["event"])

    def fit(self, problem, frame):
        model, how = self.loaded[0].CoxPHFitter(), {"precision": self.tolerance}
        columns = {"duration_col": "time", "event_col": "event"}
        _, warned = quietly(lambda: model.fit(frame, **columns, fit_options=how))
        return Answer(model.params_.to_numpy(), self.note(warned, "precision"))


class Phreg(Peer):
    """statsmodels' PHReg: Newton's largest step; with a lasso, the largest change in a pass."""

    modules = ("statsmodels.duration.hazard_regression",)
    distribution = "statsmodels"

    def prepare(self, problem):
        how = {"status": problem["event"], "ties": "breslow"}
        return self.loaded[0].PHReg(problem["time"], dense(problem), **how)

    def fit(self, problem, model):
        if problem.penalty > 0:
            how = {"cnvrg_tol": self.tolerance, "zero_tol": 0.0, "maxiter": 1_000}
            alpha = problem.penalty / problem.shape[0]  # mean scale
            found, warned = quietly(lambda: model.fit_regularized(alpha=alpha, L1_wt=1.0, **how))
        else:
            found, warned = quietly(lambda: model.fit(disp=0, tol=self.tolerance))
        return Answer(found.params, self.note(warned))


class Newton(Peer):
    """Models without penalty, PACKAGE "coxstream" or "survivalgpu".

    The tolerance is of the change of the coefficients, or relative of the log-likelihood.
    coxstream has Efron's ties alone, which is the same where no events are tied.
    """

    def __init__(self, package, tolerance):
        self.modules = (package,)
        super().__init__(package, tolerance)

    def prepare(self, problem):
        needs_no_penalty(problem)
        time, event = problem["time"], problem["event"].astype(np.int64)
        if self.name == "coxstream":
            needs_no_ties(problem)
        if self.name == "survivalgpu":  # it wants integers; ranks leave the likelihood as it is
            time = 1 + np.unique(time, return_inverse=True)[1].astype(np.int64)
        return np.ascontiguousarray(dense(problem)), time, event

    def fit(self, problem, prepared):
        (X, time, event), [package] = prepared, self.loaded
        if self.name == "coxstream":
            model = package.CoxStream(tol=self.tolerance)
            _, warned = quietly(lambda: model.fit(time, event, X))
            n_iter = model.n_iter_
        else:
            how = {"ties": "breslow", "eps": self.tolerance, "device": "cpu"}
            model = package.CoxPHSurvivalAnalysis(**how)
            _, warned = quietly(lambda: model.fit(X, time, event=event))
            n_iter = int(np.max(model.iter_))
        return Answer(np.ravel(model.coef_), self.note(warned, "tolerance"), n_iter)
