# What R expects of models of the Python package sksurvgpu: source() this file.
#
#   y <- outcome(Surv(time, status))           rows of an outcome, with entry times and causes
#   X <- covariates(sparse)                    a matrix or data frame, with the names of its columns
#   fit <- sk$CoxLassoCCD(alpha = 0.01)$fit(X, y)
#   coef(fit); summary(fit); predict(fit, X, times = c(365, 730)); confint(sk$wald(fit, X, y))

library(reticulate)

sk <- import("sksurvgpu", delay_load = TRUE)

outcome <- function(y, stratum = NULL) {
  if (!inherits(y, "Surv")) stop("`y` is no outcome of survival's Surv().", call. = FALSE)
  type <- attr(y, "type")
  if (!type %in% c("right", "counting", "mright", "mcounting")) {
    stop("`y` is of type ", type, "; right-censored outcomes are taken.", call. = FALSE)
  }
  if (anyNA(y)) stop("`y` has missing entries; leave out their rows.", call. = FALSE)
  columns <- unclass(y)
  is_late <- type %in% c("counting", "mcounting")
  time <- columns[, if (is_late) "stop" else "time"]
  start <- if (is_late) columns[, "start"]
  if (type %in% c("right", "counting")) {
    return(sk$surv(columns[, "status"] == 1, time, start = start, stratum = stratum))
  }
  causes <- attr(y, "states")
  labels <- py_dict(as.list(seq_along(causes)), as.list(causes))
  sk$competing_risks(
    as.integer(columns[, "status"]), time, start = start, stratum = stratum, labels = labels
  )
}

covariates <- function(X) {
  if (inherits(X, "Matrix") && !inherits(X, "CsparseMatrix")) X <- methods::as(X, "CsparseMatrix")
  if (is.data.frame(X)) return(X)
  sk$Design$of(X, if (!is.null(colnames(X))) as.list(colnames(X)))
}

coef.sksurvgpu.estimators._estimator.Estimator <- function(object, ...) {
  table <- object$summary()
  setNames(table$coef, rownames(table))
}

summary.sksurvgpu.estimators._estimator.Estimator <- function(object, ...) object$summary()

summary.sksurvgpu._tables.Result <- function(object, ...) {
  if (py_has_attr(object, "summary")) object$summary() else object$table
}

# Risks with `times` in columns; without times what `predict` of the Python class returns.
predict.sksurvgpu.estimators._estimator.Estimator <- function(object, newdata, times = NULL, ...) {
  newdata <- covariates(newdata)
  if (!is.null(times)) return(object$predict_risk(newdata, as.list(times), ...))
  as.vector(object$predict(newdata, ...))
}

confint.sksurvgpu._tables.Result <- function(object, parm = NULL, ...) {
  table <- summary(object)
  limits <- as.matrix(table[c("lower", "upper")])
  if (is.null(parm)) limits else limits[parm, , drop = FALSE]
}
