# biglasso's Cox lasso.  Usage: Rscript biglasso_cox.R PROBLEM_DIR OUT.json EPS
# EPS bounds the squared change of a coefficient over the null deviance (its default is 1e-7).
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "bigmemory", "biglasso")) require_peer(package)
eps <- as.numeric(driver_argument(1, 1e-7))
LARGEST_DENSE_BYTES <- 4e9

prepare <- function(problem) {
  if (!is.null(problem$stratum)) skip("no strata")
  if (problem$penalty == 0) skip("a lasso program")
  if (8 * problem$n * problem$p > LARGEST_DENSE_BYTES) skip("the dense X is too large")
  x <- as.matrix(sparse_matrix(problem))
  # It penalizes standardized columns: factors undo that, and it refuses deviations of zero.
  deviation <- sqrt(colMeans(x^2) - colMeans(x)^2)
  if (any(deviation < 1e-6)) skip("constant columns")
  list(
    x = bigmemory::as.big.matrix(x), y = cbind(problem$time, problem$event),
    factor = 1 / deviation
  )
}

fit <- function(problem, prepared) {
  fitted <- biglasso::biglasso(
    prepared$x, prepared$y,
    family = "cox", lambda = penalties(problem) / problem$n, # mean scale
    penalty.factor = prepared$factor, eps = eps, max.iter = 1e6, warn = FALSE
  )
  list(coef = fitted$beta, note = sprintf("dense X; eps=%g", eps), n_iter = sum(fitted$iter))
}

timed_run("biglasso", "biglasso", prepare, fit, with_paths = TRUE)
