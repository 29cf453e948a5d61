# glmnet's binomial, Poisson and Gaussian lasso.
# Usage: Rscript glmnet_glm.R PROBLEM_DIR OUT.json THRESH
# THRESH bounds the squared change in a pass, relative to the null deviance (its default is 1e-7).
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Matrix", "glmnet")) require_peer(package)
thresh <- as.numeric(driver_argument(1))
FAMILIES <- c(logistic = "binomial", poisson = "poisson", linear = "gaussian")

prepare <- function(problem) {
  list(
    x = sparse_matrix(problem),
    y = if (problem$model == "logistic") factor(problem$y) else problem$y,
    offset = if (is.null(problem$exposure)) NULL else log(problem$exposure)
  )
}

fit <- function(problem, prepared) {
  fitted <- glmnet::glmnet(
    prepared$x, prepared$y,
    family = FAMILIES[[problem$model]], lambda = penalties(problem) / problem$n, # mean scale
    offset = prepared$offset, intercept = problem$intercept, standardize = FALSE,
    thresh = thresh, maxit = 1e6
  )
  note <- sprintf("thresh=%g; passes as iterations; error code %d", thresh, fitted$jerr)
  list(
    coef = fitted$beta, note = note, n_iter = fitted$npasses,
    intercept = unname(fitted$a0)
  )
}

timed_run("glmnet", "glmnet", prepare, fit, with_paths = TRUE)
