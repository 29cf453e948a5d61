# Writes glm.json: optima of logistic, Poisson and linear regression by R's glm, lassos and elastic
# nets by glmnet and Cyclops.
#
# Run:  Rscript make_glm.R [glm.json]  and then  python certify.py glm.json
#
# Layout: common.R.  `y` is the outcome, options$family logistic, poisson or gaussian.  A case with
# `intercept` has a free intercept of that value.  Log-likelihoods are those of reference_glm.py,
# without constants; standard errors are of dispersion 1.
#
# glmnet's objective is on the mean scale, lambda = lam / sum(weights); it rescales penalty factors
# to sum to the number of columns; and for gaussian outcomes it divides the quadratic part of the
# penalty by the standard deviation of y (weighted, without Bessel's correction, about zero where
# there is no intercept).
library(glmnet)
source("common.R")

dataset <- function(columns, y, weights = NULL) {
  n <- length(y)
  list(
    X = lapply(columns, as.numeric), y = as.numeric(y),
    weights = if (is.null(weights)) made_weights(n) else as.numeric(weights),
    offset = made_offset(n)
  )
}

datasets <- list(
  birthwt = with(MASS::birthwt, dataset(
    list(
      age = age / 8, weight = lwt / 32, black = race == 2, other = race == 3, smoke = smoke,
      premature = ptl > 0, hypertension = ht, irritability = ui, visits = ftv
    ), low
  )),
  # Fractions of trials, whose numbers are the weights.
  esoph = with(esoph, dataset(
    list(age = as.integer(agegp), alcohol = as.integer(alcgp), tobacco = as.integer(tobgp)),
    ncases / (ncases + ncontrols), ncases + ncontrols
  )),
  # Days of absence from school.
  quine = with(MASS::quine, dataset(
    list(
      aboriginal = Eth == "A", male = Sex == "M", f1 = Age == "F1", f2 = Age == "F2",
      f3 = Age == "F3", slow = Lrn == "SL"
    ), Days
  )),
  swiss = with(swiss, dataset(
    list(
      agriculture = Agriculture / 16, examination = Examination / 16, education = Education / 16,
      catholic = Catholic / 16, infant_mortality = Infant.Mortality / 16
    ), Fertility
  ))
)
family_of <- list(birthwt = "logistic", esoph = "logistic", quine = "poisson", swiss = "gaussian")
# Fractions and weights that are not integers are meant.
r_family <- list(logistic = quasibinomial(), poisson = quasipoisson(), gaussian = gaussian())
glmnet_family <- c(logistic = "binomial", poisson = "poisson", gaussian = "gaussian")

loglik_at <- function(family, y, eta, weights) {
  sum(weights * switch(family,
    logistic = y * plogis(eta, log.p = TRUE) + (1 - y) * plogis(-eta, log.p = TRUE),
    poisson = y * eta - exp(eta),
    gaussian = -0.5 * (y - eta)^2
  ))
}

# What takes part: the same for every solver.
parts <- function(dataset_name, uses) {
  data <- datasets[[dataset_name]]
  n <- length(data$y)
  list(
    X = design(data), y = data$y, family = family_of[[dataset_name]],
    weights = if ("weights" %in% uses) data$weights else rep(1, n),
    offset = if ("offset" %in% uses) data$offset else rep(0, n)
  )
}

glm_case <- function(dataset_name, uses = character(), intercept = TRUE) {
  part <- parts(dataset_name, uses)
  X <- if (intercept) cbind(part$X, 1) else part$X
  fit <- glm.fit(
    X, part$y,
    weights = part$weights, offset = part$offset, family = r_family[[part$family]],
    intercept = FALSE, control = list(epsilon = 1e-15, maxit = 200)
  )
  columns <- seq_len(ncol(part$X))
  covariance <- chol2inv(fit$qr$qr[seq_len(ncol(X)), , drop = FALSE])
  stopifnot(identical(fit$qr$pivot, seq_len(ncol(X))))
  case(
    paste(c(dataset_name, if (length(uses)) uses else "plain", if (!intercept) "origin", "glm"),
      collapse = "-"
    ),
    "glm", "glm", dataset_name, fit$coefficients[columns], uses, list(family = part$family),
    intercept = if (intercept) unname(fit$coefficients[ncol(X)]),
    loglik = loglik_at(part$family, part$y, fit$linear.predictors, part$weights),
    standard_errors = I(sqrt(diag(covariance))[columns])
  )
}

# Coefficients, and the intercept last.
fit_glmnet <- function(part, lam, l1_ratio, factor, intercept) {
  l1 <- lam * l1_ratio
  l2 <- lam * (1 - l1_ratio)
  if (part$family == "gaussian") {
    y <- part$y - part$offset
    centre <- if (intercept) weighted.mean(y, part$weights) else 0
    l2 <- l2 * sqrt(weighted.mean((y - centre)^2, part$weights))
  }
  scale <- mean(factor) / sum(part$weights)
  fit <- glmnet(
    part$X, if (part$family == "logistic") cbind(1 - part$y, part$y) else part$y,
    family = glmnet_family[[part$family]], weights = part$weights, offset = part$offset,
    alpha = l1 / (l1 + l2), lambda = (l1 + l2) * scale, penalty.factor = factor,
    standardize = FALSE, intercept = intercept, thresh = 1e-22, maxit = 1e8
  )
  c(as.matrix(fit$beta)[, 1], fit$a0)
}

glmnet_case <- function(dataset_name, lam, l1_ratio, uses = character(), intercept = TRUE,
                        factor = NULL) {
  part <- parts(dataset_name, uses)
  p <- ncol(part$X)
  used_factor <- if (is.null(factor)) rep(1, p) else factor
  found <- fit_glmnet(part, lam, l1_ratio, used_factor, intercept)
  case(
    paste(
      c(
        dataset_name, if (length(uses)) uses else "plain", if (!intercept) "origin",
        if (!is.null(factor)) "factor", sprintf("%g-%g", lam, l1_ratio), "glmnet"
      ),
      collapse = "-"
    ),
    "glm", "glmnet", dataset_name, found[seq_len(p)], uses, list(family = part$family),
    lam = lam, l1_ratio = l1_ratio, penalty_factor = factor,
    intercept = if (intercept) unname(found[p + 1])
  )
}

# The intercept is one more column without a prior.
cyclops_case <- function(dataset_name, lam, prior = "laplace", free = c()) {
  part <- parts(dataset_name, character())
  p <- ncol(part$X)
  found <- fit_cyclops(
    cbind(part$X, 1), part$y, c(logistic = "lr", poisson = "pr")[[part$family]], lam, prior,
    time = if (part$family == "poisson") rep(1, length(part$y)), free = c(free, p + 1)
  )
  case(
    sprintf("%s-%s-%g%s-cyclops", dataset_name, prior, lam, if (length(free)) "-factor" else ""),
    "glm", "Cyclops", dataset_name, found[seq_len(p)],
    options = list(family = part$family), lam = lam, l1_ratio = if (prior == "laplace") 1 else 0,
    penalty_factor = if (length(free)) as.numeric(!seq_len(p) %in% free),
    intercept = unname(found[p + 1])
  )
}

cases <- list()
add <- function(case) cases[[length(cases) + 1]] <<- case
both <- c("weights", "offset")
for (name in c("birthwt", "quine", "swiss")) {
  for (uses in list(character(), "weights", "offset", both)) add(glm_case(name, uses))
  add(glm_case(name, intercept = FALSE))
  add(glm_case(name, both, intercept = FALSE))
}
add(glm_case("esoph", "weights"))

lams <- list(birthwt = c(1, 4), quine = c(10, 60), swiss = c(15, 100))
factors <- list(
  birthwt = c(0, 1, 1, 2, 1, 1, 0.5, 1, 1), quine = c(0, 1, 2, 1, 1, 0.5),
  swiss = c(0, 1, 2, 1, 0.5)
)
for (name in names(lams)) {
  for (lam in lams[[name]]) {
    add(glmnet_case(name, lam, 1))
    add(glmnet_case(name, lam, 0.5, both, factor = factors[[name]]))
    add(glmnet_case(name, lam, 1, "weights", intercept = FALSE))
    add(glmnet_case(name, lam, 0.25, "offset", intercept = FALSE, factor = factors[[name]]))
  }
  add(glmnet_case(name, lams[[name]][1], 0, "weights"))
}
add(glmnet_case("esoph", 5, 0.8, "weights"))
add(cyclops_case("birthwt", 2))
add(cyclops_case("birthwt", 3, free = 2:3))
add(cyclops_case("birthwt", 2, "normal"))
add(cyclops_case("quine", 40))
add(cyclops_case("quine", 20, free = 1))

write_cases(
  list(
    origin = paste0(
      "Data sets of the R packages datasets and MASS ", packageVersion("MASS"), " (GPL); optima by",
      " glm, glmnet ", packageVersion("glmnet"), " and Cyclops ", packageVersion("Cyclops"), "; ",
      R.version.string, "; written by make_glm.R and certify.py"
    ),
    datasets = datasets, cases = cases
  ),
  output_path("glm.json")
)
