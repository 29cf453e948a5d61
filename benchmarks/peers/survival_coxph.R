# survival's coxph, Breslow's ties, without penalty.
# Usage: Rscript survival_coxph.R PROBLEM_DIR OUT.json EPS
# EPS bounds the relative change of the log-likelihood (its default is 1e-9).
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "survival")) require_peer(package)
eps <- as.numeric(driver_argument(1))

prepare <- function(problem) {
  if (problem$penalty > 0) skip("no lasso")
  if (!is.null(problem$stratum)) skip("no strata in this driver")
  list(x = as.matrix(sparse_matrix(problem)), y = survival::Surv(problem$time, problem$event))
}

fit <- function(problem, prepared) {
  fitted <- survival::coxph.fit(
    prepared$x, prepared$y,
    strata = NULL, offset = NULL, init = NULL, weights = NULL, method = "breslow",
    control = survival::coxph.control(eps = eps, iter.max = 100), rownames = NULL
  )
  list(
    coef = as.numeric(fitted$coefficients), note = sprintf("eps=%g", eps), n_iter = fitted$iter
  )
}

timed_run("survival coxph", "survival", prepare, fit)
