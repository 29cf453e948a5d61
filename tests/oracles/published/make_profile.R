# Writes profile.json: intervals by the profile likelihood from R's survival and glm, for the data
# sets of coxph.json, glm.json, conditional.json and competing.json (see there).
#
# Run:  Rscript make_profile.R [profile.json]
#
# A case lists, per column of X, the ends of the 95 % interval of its coefficient: the values b at
# which twice the loglik lost by `offset(b * column)` in place of the column is the quantile of
# chi-squared; found by uniroot. Linear models have the intervals of confint.lm.  `p_values` are
# those of the likelihood ratio test that the coefficient is zero (of the t test of lm).
library(survival)
library(jsonlite)

read <- function(name) fromJSON(paste0(name, ".json"))$datasets
cox <- read("coxph")
glms <- read("glm")
sets <- read("conditional")
competing <- read("competing")

tight <- coxph.control(eps = 1e-13, toler.chol = 1e-15, iter.max = 200)
quantile <- qchisq(0.95, 1)

# `loglik(X, offset)` maximizes over the coefficients of X.
profile_ends <- function(loglik, X, start, scale) {
  zero <- rep(0, nrow(X))
  top <- loglik(X, zero)
  ends <- matrix(0, ncol(X), 2)
  p_values <- numeric(ncol(X))
  for (j in seq_len(ncol(X))) {
    ratio <- function(b) 2 * (top - loglik(X[, -j, drop = FALSE], b * X[, j]))
    p_values[j] <- pchisq(ratio(0), 1, lower.tail = FALSE)
    for (side in 1:2) {
      far <- start[j] + c(-1, 1)[side] * 8 * scale[j]
      found <- uniroot(function(b) ratio(b) - quantile, sort(c(start[j], far)), tol = 1e-12)
      ends[j, side] <- found$root
    }
  }
  list(lower = I(ends[, 1]), upper = I(ends[, 2]), p_values = I(p_values))
}

matrix_of <- function(data) do.call(cbind, data$X)

cox_case <- function(name, uses, ties) {
  data <- cox[[name]]
  y <- if ("start" %in% uses) Surv(data$start, data$time, data$event) else {
    Surv(data$time, data$event)
  }
  w <- if ("weights" %in% uses) data$weights else rep(1, length(data$time))
  own <- if ("offset" %in% uses) data$offset else 0
  group <- if ("strata" %in% uses) data$strata else rep(1, length(data$time))
  fit <- function(X, offset) {
    shift <- offset + own
    coxph(y ~ X + strata(group) + offset(shift),
      weights = w, ties = ties, control = tight, robust = FALSE
    )
  }
  X <- matrix_of(data)
  best <- fit(X, rep(0, nrow(X)))
  ends <- profile_ends(
    function(X, offset) fit(X, offset)$loglik[2], X, coef(best), sqrt(diag(vcov(best)))
  )
  list(model = "cox", dataset = name, uses = I(uses), options = list(ties = ties)) |> c(ends)
}

glm_case <- function(name, family, uses) {
  data <- glms[[name]]
  w <- if ("weights" %in% uses) data$weights else rep(1, length(data$y))
  own <- if ("offset" %in% uses) data$offset else 0
  control <- glm.control(epsilon = 1e-15, maxit = 200)
  fit <- function(X, offset) {
    shift <- offset + own
    # Weights that are no whole numbers of trials make a warning, and nothing else.
    suppressWarnings(
      glm(data$y ~ X, family = family, weights = w, offset = shift, control = control)
    )
  }
  X <- matrix_of(data)
  best <- fit(X, rep(0, nrow(X)))
  loglik <- function(X, offset) -deviance(fit(X, offset)) / 2
  ends <- profile_ends(loglik, X, coef(best)[-1], sqrt(diag(vcov(best)))[-1])
  list(model = if (family == "binomial") "logistic" else "poisson", dataset = name, uses = I(uses)) |>
    c(list(options = setNames(list(), character())), ends)
}

linear_case <- function(name, uses) {
  data <- glms[[name]]
  X <- matrix_of(data)
  w <- if ("weights" %in% uses) data$weights else rep(1, length(data$y))
  best <- lm(data$y ~ X, weights = w)
  ends <- unname(confint(best))[-1, ]
  list(
    model = "linear", dataset = name, uses = I(uses),
    options = setNames(list(), character()), lower = I(ends[, 1]), upper = I(ends[, 2]),
    p_values = I(unname(summary(best)$coefficients[-1, 4]))
  )
}

sets_case <- function(name) {
  data <- sets[[name]]
  y <- Surv(rep(1, length(data$case)), data$case)
  group <- data$stratum
  fit <- function(X, offset) {
    coxph(y ~ X + strata(group) + offset(offset), ties = "exact", control = tight)
  }
  X <- matrix_of(data)
  best <- fit(X, rep(0, nrow(X)))
  loglik <- function(X, offset) fit(X, offset)$loglik[2]
  ends <- profile_ends(loglik, X, coef(best), sqrt(diag(vcov(best))))
  list(model = "matched", dataset = name, uses = I(character()), options = list(ties = "exact")) |>
    c(ends)
}

fine_gray_case <- function(name) {
  data <- competing[[name]]
  X <- matrix_of(data)
  rows <- data.frame(
    time = data$time, status = factor(data$status, 0:2), row = seq_along(data$time)
  )
  long <- finegray(Surv(time, status) ~ ., data = rows, etype = "1")
  X <- X[long$row, ]
  y <- with(long, Surv(fgstart, fgstop, fgstatus))
  fit <- function(X, offset) {
    coxph(y ~ X + offset(offset),
      weights = long$fgwt, ties = "breslow", control = tight, robust = FALSE
    )
  }
  best <- fit(X, rep(0, nrow(X)))
  loglik <- function(X, offset) fit(X, offset)$loglik[2]
  ends <- profile_ends(loglik, X, coef(best), sqrt(diag(vcov(best))))
  list(
    model = "fine_gray", dataset = name, uses = I(character()),
    options = list(censoring_ties = "finegray")
  ) |> c(ends)
}

cases <- list(
  cox_case("ovarian", character(), "breslow"),
  cox_case("lung", character(), "efron"),
  cox_case("lung", c("strata", "weights"), "breslow"),
  cox_case("heart", "start", "efron"),
  cox_case("heart", c("start", "offset"), "breslow"),
  cox_case("bladder2", c("start", "strata", "weights", "offset"), "efron"),
  glm_case("birthwt", "binomial", character()),
  glm_case("birthwt", "binomial", c("weights", "offset")),
  glm_case("quine", "poisson", character()),
  glm_case("quine", "poisson", c("weights", "offset")),
  linear_case("swiss", character()),
  linear_case("swiss", "weights"),
  sets_case("infert"),
  fine_gray_case("pbc")
)
origin <- sprintf("R %s, survival %s", getRversion(), packageVersion("survival"))
arguments <- commandArgs(trailingOnly = TRUE)
write(
  toJSON(list(origin = origin, cases = cases), auto_unbox = TRUE, digits = NA, pretty = TRUE),
  if (length(arguments)) arguments[1] else "profile.json"
)
