# Writes summaries.json: what R's summaries have beside coefficients. Tests that all coefficients of
# coxph fits are zero, with the log-likelihood there; covariances of glm and lm fits with their
# intercepts, tests of some coefficients, and residuals.
#
# Run, after make_coxph.R, make_conditional.R and make_glm.R, in their folder:
#   Rscript make_summaries.R [summaries.json]
#
# Data sets are those of the other files: a case names its `file` and `dataset`, and in `uses` the
# optional columns that take part. Numbers have 11 digits. The residuals of models for counts in
# groups are those of glm with a term for each group.
library(survival)
library(sandwich)
source("common.R")

other <- function(file) fromJSON(file, simplifyVector = TRUE, simplifyDataFrame = FALSE)
data_of <- list(
  coxph = other("coxph.json")$datasets, conditional = other("conditional.json")$datasets,
  glm = other("glm.json")$datasets
)
flat <- function(x) I(signif(as.vector(t(unname(as.matrix(x)))), 11))
tight <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)
tight_glm <- list(epsilon = 1e-15, maxit = 200)

cox_case <- function(dataset, uses, ties) {
  data <- data_of$coxph[[dataset]]
  X <- design(data)
  y <- if ("start" %in% uses) {
    Surv(data$start, data$time, data$event)
  } else {
    Surv(data$time, data$event)
  }
  group <- data$strata
  shift <- data$offset
  case_weights <- if ("weights" %in% uses) data$weights else rep(1, nrow(X))
  terms <- c("X", if ("strata" %in% uses) "strata(group)", if ("offset" %in% uses) "offset(shift)")
  formula <- reformulate(terms, "y")
  environment(formula) <- environment()
  row <- seq_len(nrow(X))
  fit <- coxph(formula, weights = case_weights, ties = ties, control = tight, robust = FALSE)
  robust <- coxph(formula, weights = case_weights, ties = ties, control = tight, cluster = row)
  shown <- summary(fit)
  two <- 1:2
  case(
    paste(c(dataset, if (length(uses)) uses else "plain", ties), collapse = "-"),
    "cox", "coxph", dataset, coef(fit), uses, list(ties = ties),
    file = "coxph", loglik = fit$loglik[2], null_loglik = fit$loglik[1],
    tests = flat(c(shown$logtest[1], fit$wald.test, shown$sctest[1])),
    robust_tests = flat(c(robust$wald.test, robust$rscore)),
    first_two = signif(as.numeric(coef(fit)[two] %*% solve(vcov(fit)[two, two], coef(fit)[two])), 11)
  )
}

residuals_of <- function(fit, changes = FALSE) {
  kinds <- c("deviance", "pearson", "response", "working")
  found <- sapply(kinds, function(kind) flat(residuals(fit, kind)), simplify = FALSE)
  if (changes) found$dfbeta <- flat(dfbeta(fit)[, -1])
  found
}

glm_case <- function(dataset, family, uses = character()) {
  data <- data_of$glm[[dataset]]
  X <- design(data)
  case_weights <- if ("weights" %in% uses) data$weights else rep(1, nrow(X))
  shift <- if ("offset" %in% uses) data$offset else rep(0, nrow(X))
  y <- data$y
  link <- list(logistic = binomial(), poisson = poisson(), gaussian = gaussian())[[family]]
  fit_to <- function(formula) {
    environment(formula) <- environment()
    if (family == "gaussian") {
      lm(formula, weights = case_weights, offset = shift)
    } else {  # weights are no counts of trials, of which binomial() warns
      suppressWarnings(
        glm(formula, family = link, weights = case_weights, offset = shift, control = tight_glm)
      )
    }
  }
  fit <- fit_to(y ~ X)
  null <- fit_to(y ~ 1)
  group <- seq_len(nrow(X)) %% 9
  is_linear <- family == "gaussian"
  case(
    paste(c(dataset, if (length(uses)) uses else "plain"), collapse = "-"),
    "glm", "glm, lm", dataset, coef(fit), uses, list(family = family), file = "glm",
    # the difference does not depend on what is left out of log-likelihoods
    gain = signif((deviance(null) - deviance(fit)) / 2, 11),
    covariance = flat(vcov(fit)), robust_covariance = flat(sandwich(fit)),
    cluster_covariance = flat(
      vcovCL(fit, cluster = group, type = "HC0", cadjust = FALSE)
    ),
    f = if (is_linear) flat(anova(null, fit)[2, c("F", "Pr(>F)")]),
    rao = if (!is_linear) signif(anova(null, fit, test = "Rao")$Rao[2], 11),
    residuals = residuals_of(fit, is_linear)
  )
}

poisson_case <- function(dataset) {
  data <- data_of$conditional[[dataset]]
  X <- design(data)
  group <- factor(data$group)
  exposure <- if (is.null(data$exposure)) rep(1, nrow(X)) else data$exposure
  fit <- glm(data$y ~ X + group, family = poisson, offset = log(exposure), control = tight_glm)
  case(
    paste(dataset, "groups", sep = "-"), "case_series", "glm", dataset,
    coef(fit)[1 + seq_len(ncol(X))], file = "conditional", residuals = residuals_of(fit)
  )
}

clogit_case <- function(dataset, method) {
  data <- data_of$conditional[[dataset]]
  X <- design(data)
  is_case <- data$case
  stratum <- data$stratum
  fit <- clogit(is_case ~ X + strata(stratum), method = method, control = tight)
  kinds <- c("martingale", "deviance", if (method != "exact") c("score", "dfbeta"))
  case(
    paste(dataset, method, sep = "-"), "clogit", "clogit", dataset, coef(fit),
    options = list(method = method), file = "conditional", null_loglik = fit$loglik[1],
    tests = flat(c(2 * diff(fit$loglik), fit$wald.test, fit$score)),
    residuals = sapply(kinds, function(kind) flat(residuals(fit, kind)), simplify = FALSE)
  )
}

cases <- list()
add <- function(case) cases[[length(cases) + 1]] <<- case
for (ties in c("breslow", "efron")) {
  add(cox_case("lung", c("strata", "offset"), ties))
  add(cox_case("kidney", "weights", ties))
  add(cox_case("heart", c("start", "strata"), ties))
}
add(glm_case("birthwt", "logistic"))
add(glm_case("birthwt", "logistic", c("weights", "offset")))
add(glm_case("quine", "poisson"))
add(glm_case("quine", "poisson", c("weights", "offset")))
add(glm_case("swiss", "gaussian"))
add(glm_case("swiss", "gaussian", c("weights", "offset")))
for (dataset in names(data_of$conditional)) {
  data <- data_of$conditional[[dataset]]
  if (nrow(design(data)) > 300) next
  if (is.null(data$case)) {
    add(poisson_case(dataset))
  } else {
    for (method in c("exact", "efron")) add(clogit_case(dataset, method))
  }
}

write_cases(
  list(
    origin = paste0(
      "survival ", packageVersion("survival"), ", sandwich ", packageVersion("sandwich"), "; ",
      R.version.string, "; written by make_summaries.R"
    ),
    cases = cases
  ),
  output_path("summaries.json")
)
