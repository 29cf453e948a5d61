# Writes inference.json: what R makes of fits without a penalty beyond their optimum. Covariances
# (of the model, robust by row, robust by cluster), residuals, tests of proportional hazards.
#
# Run, after make_coxph.R, make_competing.R, make_conditional.R and make_glm.R, in their folder:
#   Rscript make_inference.R [inference.json]
#
# Data sets are those of the other files: a case names its `file` and `dataset`, and in `uses` the
# optional columns that take part. `clusters` holds labels of rows by data set. Covariances are the
# upper rows of a matrix in one vector, row by row; matrices of residuals likewise. Numbers have 11
# digits.
#
# coxph counts a row's own weight in no residual but dfbeta. Residuals of Fine and Gray's model are
# those of coxph on finegray()'s rows, summed over each person's. glm's covariances are those of the
# coefficients without the intercept; conditional Poisson models are glm's with a term for each
# group, which has the same coefficients, information and scores.
library(survival)
library(sandwich)
source("common.R")

other <- function(file) fromJSON(file, simplifyVector = TRUE, simplifyDataFrame = FALSE)
data_of <- list(
  coxph = other("coxph.json")$datasets, competing = other("competing.json")$datasets,
  conditional = other("conditional.json")$datasets, glm = other("glm.json")$datasets
)
clusters <- list(
  kidney = kidney$id, heart = heart$id, bladder2 = bladder2$id,
  ovarian = rep(1:13, 2), lung = seq_along(data_of$coxph$lung$time) %% 11,
  veteran = seq_along(data_of$coxph$veteran$time) %% 17
)
flat <- function(x) I(signif(as.vector(t(unname(as.matrix(x)))), 11))
tight <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)

cox_case <- function(dataset, uses, ties, with_residuals = FALSE) {
  data <- data_of$coxph[[dataset]]
  X <- design(data)
  y <- if ("start" %in% uses) {
    Surv(data$start, data$time, data$event)
  } else {
    Surv(data$time, data$event)
  }
  group <- data$strata
  shift <- data$offset
  id <- clusters[[dataset]]
  case_weights <- if ("weights" %in% uses) data$weights else rep(1, nrow(X))
  terms <- c("X", if ("strata" %in% uses) "strata(group)", if ("offset" %in% uses) "offset(shift)")
  fit_with <- function(...) {
    formula <- reformulate(terms, "y")
    environment(formula) <- environment()
    coxph(formula, weights = case_weights, ties = ties, control = tight, x = TRUE, y = TRUE, ...)
  }
  row <- seq_len(nrow(X))
  fit <- fit_with(robust = FALSE)
  kinds <- c("martingale", "deviance", "score", "schoenfeld", "scaledsch", "dfbeta")
  colnames(X) <- names(data$X)
  tests <- lapply(
    c(km = "km", rank = "rank", identity = "identity", log = "log"),
    function(transform) flat(cox.zph(fit, transform, terms = FALSE)$table[, "chisq"])
  )
  case(
    paste(c(dataset, if (length(uses)) uses else "plain", ties), collapse = "-"),
    "cox", "coxph", dataset, coef(fit), uses, list(ties = ties),
    file = "coxph",
    covariance = flat(vcov(fit)),
    robust_covariance = flat(vcov(fit_with(cluster = row))),
    cluster_covariance = flat(vcov(fit_with(cluster = id))),
    residuals = if (with_residuals) {
      sapply(kinds, function(kind) flat(residuals(fit, kind)), simplify = FALSE)
    },
    tests = tests,
    time = flat(cox.zph(fit, "km", terms = FALSE)$time),
    transformed_time = flat(cox.zph(fit, "km", terms = FALSE)$x)
  )
}

finegray_case <- function(dataset) {
  data <- data_of$competing[[dataset]]
  frame <- data.frame(
    data$X, time = data$time, status = factor(data$status, 0:2), id = seq_along(data$time)
  )
  split <- finegray(Surv(time, status) ~ ., data = frame)
  X <- as.matrix(split[names(data$X)])
  fit <- coxph(
    Surv(fgstart, fgstop, fgstatus) ~ X,
    data = split, weights = fgwt, ties = "breslow", robust = FALSE, control = tight
  )
  kinds <- c("martingale", "deviance", "score", "dfbeta")
  found <- sapply(kinds, function(kind) {
    flat(residuals(fit, kind, weighted = TRUE, collapse = split$id))
  }, simplify = FALSE)
  found$schoenfeld <- flat(residuals(fit, "schoenfeld"))
  found$scaledsch <- flat(residuals(fit, "scaledsch"))
  case(
    paste(dataset, "plain", "finegray", sep = "-"), "fine_gray", "survival::finegray, coxph",
    dataset, coef(fit),
    options = list(km_ties = "events_first"), file = "competing", covariance = flat(vcov(fit)),
    residuals = found,
    tests = lapply(
      c(identity = "identity", log = "log"),
      function(transform) flat(cox.zph(fit, transform, terms = FALSE)$table[, "chisq"])
    )
  )
}

clogit_case <- function(dataset, method) {
  data <- data_of$conditional[[dataset]]
  approximate <- method != "exact"
  X <- design(data)
  is_case <- data$case
  stratum <- data$stratum
  fit_with <- function(...) {
    clogit(
      is_case ~ X + strata(stratum),
      method = method, control = tight, ...
    )
  }
  row <- seq_len(nrow(X))
  fit <- fit_with()
  case(
    paste(dataset, "plain", method, sep = "-"), "clogit", "clogit", dataset, coef(fit),
    options = list(method = method), file = "conditional", covariance = flat(vcov(fit)),
    robust_covariance = if (approximate) flat(vcov(fit_with(cluster = row))),
    cluster_covariance = if (approximate) flat(vcov(fit_with(cluster = stratum)))
  )
}

poisson_case <- function(dataset) {
  data <- data_of$conditional[[dataset]]
  X <- design(data)
  group <- factor(data$group)
  exposure <- if (is.null(data$exposure)) rep(1, nrow(X)) else data$exposure
  fit <- glm(
    data$y ~ X + group, family = poisson, offset = log(exposure),
    control = list(epsilon = 1e-15, maxit = 200)
  )
  own <- 1 + seq_len(ncol(X))
  case(
    paste(dataset, "groups", "glm", sep = "-"), "case_series", "glm", dataset, coef(fit)[own],
    file = "conditional", covariance = flat(vcov(fit)[own, own]),
    robust_covariance = flat(sandwich(fit)[own, own]),
    cluster_covariance = flat(
      vcovCL(fit, cluster = group, type = "HC0", cadjust = FALSE)[own, own]
    )
  )
}

glm_case <- function(dataset, family, uses = character(), intercept = TRUE) {
  data <- data_of$glm[[dataset]]
  X <- design(data)
  case_weights <- if ("weights" %in% uses) data$weights else rep(1, nrow(X))
  shift <- if ("offset" %in% uses) data$offset else rep(0, nrow(X))
  formula <- if (intercept) data$y ~ X else data$y ~ 0 + X
  link <- list(logistic = binomial(), poisson = poisson(), gaussian = gaussian())[[family]]
  # Weights are no counts of trials, of which binomial() warns.
  fit <- suppressWarnings(glm(
    formula, family = link, weights = case_weights, offset = shift,
    control = list(epsilon = 1e-15, maxit = 200)
  ))
  if (family == "gaussian") fit <- lm(formula, weights = case_weights, offset = shift)
  own <- as.integer(intercept) + seq_len(ncol(X))
  group <- seq_len(nrow(X)) %% 9
  case(
    paste(c(dataset, if (length(uses)) uses else "plain", if (!intercept) "origin"),
      collapse = "-"
    ),
    "glm", "glm, lm", dataset, coef(fit)[own], uses,
    list(family = family, intercept = intercept),
    file = "glm", covariance = flat(vcov(fit)[own, own]),
    robust_covariance = flat(sandwich(fit)[own, own]),
    cluster_covariance = flat(
      vcovCL(fit, cluster = group, type = "HC0", cadjust = FALSE)[own, own]
    ),
    intervals = if (family == "gaussian") flat(confint(fit, level = 0.9)[own, , drop = FALSE]),
    # against the model without the first column
    likelihood_ratio = if (family == "gaussian") {
      smaller <- if (intercept) data$y ~ X[, -1] else data$y ~ 0 + X[, -1]
      2 * as.numeric(logLik(fit) - logLik(lm(smaller, weights = case_weights, offset = shift)))
    }
  )
}

cases <- list()
add <- function(case) cases[[length(cases) + 1]] <<- case
for (ties in c("breslow", "efron")) {
  add(cox_case("ovarian", character(), ties))
  add(cox_case("lung", c("strata", "offset"), ties))
  add(cox_case("veteran", "weights", ties))
  add(cox_case("kidney", character(), ties, with_residuals = TRUE))
  add(cox_case("kidney", "weights", ties, with_residuals = TRUE))
  add(cox_case("heart", "start", ties))
  add(cox_case("heart", c("start", "strata", "weights", "offset"), ties, with_residuals = TRUE))
  add(cox_case("bladder2", c("start", "strata"), ties, with_residuals = TRUE))
  add(cox_case("bladder2", c("start", "weights"), ties))
}
add(finegray_case("ties"))
for (dataset in names(data_of$conditional)) {
  data <- data_of$conditional[[dataset]]
  if (is.null(data$case)) {
    add(poisson_case(dataset))
  } else {
    for (method in c("exact", "efron", "breslow")) add(clogit_case(dataset, method))
  }
}
family_of <- list()
for (case_of_glm in other("glm.json")$cases) {
  family_of[[case_of_glm$dataset]] <- case_of_glm$options$family
}
# LogisticCCD takes classes, no shares of them.
for (dataset in setdiff(names(family_of), "esoph")) {
  add(glm_case(dataset, family_of[[dataset]]))
  add(glm_case(dataset, family_of[[dataset]], c("weights", "offset")))
  add(glm_case(dataset, family_of[[dataset]], intercept = FALSE))
}

write_cases(
  list(
    origin = paste0(
      "survival ", packageVersion("survival"), ", sandwich ", packageVersion("sandwich"), "; ",
      R.version.string, "; written by make_inference.R"
    ),
    clusters = clusters, cases = cases
  ),
  output_path("inference.json")
)
