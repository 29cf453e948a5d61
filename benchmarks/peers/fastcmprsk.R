# fastcmprsk's Fine-Gray lasso.  Usage: Rscript fastcmprsk.R PROBLEM_DIR OUT.json EPS
# EPS bounds the relative change of the coefficients (its default is 1e-6).
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "fastcmprsk")) require_peer(package)
eps <- as.numeric(driver_argument(1))

LARGEST_DENSE_BYTES <- 4e9 # it takes dense X only

prepare <- function(problem) {
  if (8 * problem$n * problem$p > LARGEST_DENSE_BYTES) {
    skip("the dense X that this peer needs is too large")
  }
  list(time = problem$time, event = problem$event, x = as.matrix(sparse_matrix(problem)))
}

fit <- function(problem, prepared) {
  fitted <- fastcmprsk::fastCrrp(
    fastcmprsk::Crisk(time, event) ~ x,
    data = prepared, penalty = "LASSO", lambda = problem$penalty / problem$n, # mean scale
    standardize = FALSE, eps = eps, max.iter = 10000, getBreslowJumps = FALSE
  )
  note <- sprintf("dense X; eps=%g; converged %s", eps, fitted$converged)
  list(coef = as.numeric(fitted$coef), note = note, n_iter = fitted$iter)
}

timed_run("fastcmprsk", "fastcmprsk", prepare, fit)
