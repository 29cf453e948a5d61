# survival's exact conditional logistic regression, without penalty.
# Usage: Rscript survival_clogit.R PROBLEM_DIR OUT.json EPS
# EPS bounds the relative change of the log-likelihood (its default is 1e-9).
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "survival")) require_peer(package)
library(survival) # `clogit` looks for `coxph` where it is called
eps <- as.numeric(driver_argument(1))

prepare <- function(problem) {
  if (problem$penalty > 0) skip("no lasso")
  list(y = problem$y, x = as.matrix(sparse_matrix(problem)), group = problem$group)
}

fit <- function(problem, prepared) {
  fitted <- clogit(
    y ~ x + strata(group),
    data = prepared, method = if (problem$ties == "exact") "exact" else "breslow",
    control = coxph.control(eps = eps, iter.max = 100)
  )
  list(
    coef = as.numeric(fitted$coefficients), note = sprintf("eps=%g", eps), n_iter = fitted$iter
  )
}

timed_run("survival clogit", "survival", prepare, fit)
