# Writes relaxed.json: relaxed lassos and adaptive lassos by glmnet.
#
# Run:  Rscript make_relaxed.R [relaxed.json]  beside glm.json and coxph.json, whose data sets are used
#
# `lambdas` are on the mean scale, as glmnet's with standardize = FALSE.  A relaxed case has
# glmnet(..., relax = TRUE) at gamma 1 (`lasso`) and 0.25 (`blend`), and the fits without a penalty
# of the supports (`refit`).  An adaptive case has the coefficients at lambda, with
# penalty.factor = abs(pilot)^-power.  glmnet rescales factors to a
# mean of 1: it gets lambda * mean(factors).  Where rows are censored at the time of an event, its Cox
# optima are not those of the partial likelihood (pbc: off by 2e-4), so that the data set has none.
library(glmnet)
library(survival)
source("common.R")

glm <- fromJSON("glm.json")$datasets
coxph <- fromJSON("coxph.json")$datasets

read <- function(name) {
  data <- if (name %in% names(glm)) glm[[name]] else coxph[[name]]
  X <- do.call(cbind, data$X)
  y <- if (is.null(data$y)) Surv(data$time, data$event) else data$y
  list(X = X, y = y)
}

# By value: relaxing evaluates the call again.
tight <- function(data, family, ...) {
  given <- list(data$X, data$y, family = family, standardize = FALSE, thresh = 1e-22, maxit = 1e8)
  do.call(glmnet, c(given, list(...)))
}

split_coef <- function(fit, family, ...) {
  found <- as.matrix(coef(fit, ...))
  if (family == "cox") list(coef = found[, 1]) else list(coef = found[-1, 1], intercept = found[1, 1])
}

# Without a penalty, of some columns: by glm and coxph, since glmnet's own refits stop near 1e-6.
refit <- function(data, family, columns) {
  X <- data$X[, columns, drop = FALSE]
  if (family == "cox") {
    control <- coxph.control(eps = 1e-13, toler.chol = 1e-14, toler.inf = 1e-7, iter.max = 100)
    coef <- coef(coxph(data$y ~ X, ties = "breslow", control = control))
  } else {
    coef <- coef(glm(data$y ~ X, family, control = list(epsilon = 1e-15, maxit = 100)))
  }
  found <- rep(0, ncol(data$X))
  found[columns] <- if (family == "cox") coef else coef[-1]
  list(coef = found, intercept = if (family != "cox") unname(coef[1]))
}

relaxed <- function(name, family, lambdas, factor) {
  data <- read(name)
  fit <- tight(data, family, lambda = lambdas * mean(factor), penalty.factor = factor, relax = TRUE)
  rows <- function(fits) lapply(fits, function(f) I(unname(f$coef)))
  intercepts <- function(fits) {
    if (family != "cox") I(vapply(fits, function(f) unname(f$intercept), 0))
  }
  lasso <- lapply(fit$lambda, function(s) split_coef(fit, family, s = s, gamma = 1))
  blend <- lapply(fit$lambda, function(s) split_coef(fit, family, s = s, gamma = 0.25))
  free <- lapply(lasso, function(f) refit(data, family, which(f$coef != 0)))
  list(
    name = paste("relaxed", name), dataset = name, family = family, lambdas = I(lambdas),
    factor = I(factor), lasso = rows(lasso), refit = rows(free), blend = rows(blend),
    intercepts = intercepts(lasso), refit_intercepts = intercepts(free)
  )
}

adaptive <- function(name, family, lambda, power) {
  data <- read(name)
  pilot <- split_coef(tight(data, family, alpha = 0, lambda = 0.1), family)$coef
  pilot <- round(unname(pilot), 6)
  factor <- abs(pilot)^-power
  path <- lambda * mean(factor) * c(100, 30, 10, 3, 1)
  fit <- tight(data, family, lambda = path, penalty.factor = factor)
  found <- split_coef(fit, family, s = path[5])
  list(
    name = paste("adaptive", name), dataset = name, family = family, lambda = lambda,
    power = power, pilot = I(pilot), coef = I(unname(found$coef))
  )
}

ones <- function(name, ...) {
  factor <- rep(1, ncol(read(name)$X))
  factor[c(...)] <- 0
  factor
}
glmnet.control(fdev = 0, devmax = 1)
cases <- list(
  relaxed("birthwt", "binomial", c(0.05, 0.03, 0.02, 0.01), ones("birthwt", 1)),
  relaxed("quine", "poisson", c(0.8, 0.4, 0.2, 0.1), ones("quine")),
  relaxed("swiss", "gaussian", c(8, 2, 0.5), ones("swiss")),
  relaxed("veteran", "cox", c(0.1, 0.05, 0.02), ones("veteran", 3)),
  adaptive("birthwt", "binomial", 0.002, 1),
  adaptive("veteran", "cox", 0.0002, 1),
  adaptive("quine", "poisson", 0.02, 0.5)
)
write_cases(
  list(
    origin = paste0(
      "Data sets of glm.json and coxph.json; fits by glmnet ", packageVersion("glmnet"), "; ",
      R.version.string, "; written by make_relaxed.R"
    ),
    cases = cases
  ),
  output_path("relaxed.json")
)
