# glmnet's Cox lasso.  Usage: Rscript glmnet_cox.R PROBLEM_DIR OUT.json THRESH
# THRESH bounds the squared change in a pass, relative to the null deviance (its default is 1e-7).
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "survival", "glmnet")) require_peer(package)

thresh <- as.numeric(driver_argument(1, 1e-12))
is_compiled_for_all <- packageVersion("glmnet") >= "5.0" # its Cox solver takes sparse X and strata
LARGEST_DENSE_BYTES <- 4e9

# Before 5.0: the R code for sparse X and for strata stops at a relative deviance change of epsnr; its
# default 1e-6 left KKT violations of half the penalty with strata.
glmnet::glmnet.control(epsnr = 1e-10, mxitnr = 500)

prepare <- function(problem) {
  outcome <- survival::Surv(problem$time, problem$event)
  x <- sparse_matrix(problem)
  if (!is.null(problem$stratum)) {
    outcome <- glmnet::stratifySurv(outcome, problem$stratum)
    form <- if (is_compiled_for_all) "sparse X, strata" else "sparse X, strata (R code)"
    return(list(x = x, outcome = outcome, form = form))
  }
  if (is_compiled_for_all && length(x@x) < problem$n * problem$p) {
    return(list(x = x, outcome = outcome, form = "sparse X (compiled code)"))
  }
  # Its compiled Cox solver takes dense X only; sparse X goes through slower R code.
  if (8 * problem$n * problem$p > LARGEST_DENSE_BYTES) {
    return(list(x = x, outcome = outcome, form = "sparse X (R code)"))
  }
  list(x = as.matrix(x), outcome = outcome, form = "dense X (compiled code)")
}

fit <- function(problem, prepared) {
  fitted <- glmnet::glmnet(
    prepared$x, prepared$outcome,
    family = "cox", lambda = penalties(problem) / problem$n, # mean scale
    standardize = FALSE, thresh = thresh, maxit = 1e6
  )
  note <- sprintf(
    "%s; thresh=%g; passes as iterations; error code %d", prepared$form, thresh, fitted$jerr
  )
  list(coef = fitted$beta, note = note, n_iter = fitted$npasses)
}

timed_run("glmnet", "glmnet", prepare, fit, with_paths = TRUE)
