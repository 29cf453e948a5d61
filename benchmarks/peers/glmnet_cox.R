# glmnet's Cox lasso.  Usage: Rscript glmnet_cox.R PROBLEM_DIR OUT.json
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "survival", "glmnet")) require_peer(package)

LARGEST_DENSE_BYTES <- 4e9

# The R code for sparse X and for strata stops at a relative deviance change of epsnr; its default
# 1e-6 left KKT violations of half the penalty with strata.
glmnet::glmnet.control(epsnr = 1e-10, mxitnr = 500)

prepare <- function(problem) {
  outcome <- survival::Surv(problem$time, problem$event)
  x <- sparse_matrix(problem)
  if (!is.null(problem$stratum)) {
    outcome <- glmnet::stratifySurv(outcome, problem$stratum)
    return(list(x = x, outcome = outcome, form = "sparse X, strata (R code)"))
  }
  # Its compiled Cox solver takes dense X only; sparse X goes through slower R code.
  if (8 * problem$n * problem$p > LARGEST_DENSE_BYTES) {
    return(list(x = x, outcome = outcome, form = "sparse X (R code)"))
  }
  list(x = as.matrix(x), outcome = outcome, form = "dense X (compiled code)")
}

fit <- function(problem, prepared) {
  # Squared change in a pass, relative to the null deviance; the default 1e-7 is loose.
  thresh <- 1e-12
  fitted <- glmnet::glmnet(
    prepared$x, prepared$outcome,
    family = "cox", lambda = problem$penalty / problem$n, # mean scale
    standardize = FALSE, thresh = thresh, maxit = 1e6
  )
  note <- sprintf(
    "%s; thresh=%g; passes as iterations; error code %d", prepared$form, thresh, fitted$jerr
  )
  list(coef = as.matrix(fitted$beta)[, 1], note = note, n_iter = fitted$npasses)
}

timed_run("glmnet", "glmnet", prepare, fit)
