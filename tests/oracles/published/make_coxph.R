# Writes coxph.json: optima of Cox models computed by R's survival (and one lasso by glmnet) on
# survival's own data sets, so that the tests can compare with an independent implementation without
# needing R.
#
# Run:  Rscript make_coxph.R [coxph.json]
#
# Layout of the JSON: `datasets` holds every data set once (columns of X by name, start, time,
# event, strata, weights, offset; null where there is none); a case names its data set and lists in
# `uses` which of start, strata, weights and offset take part.  Everything is on the sum scale:
# objective = -loglik + theta / 2 * sum(b^2).
library(survival)
library(jsonlite)

# Complete cases only, factors coded to 0/1 by hand, so that nothing depends on R's contrasts.
complete <- function(frame, names) frame[stats::complete.cases(frame[names]), ]

# Weights and offsets are multiples of 1/8 and 1/16: not integers, yet exact in decimal and in
# binary.
made_weights <- function(n) 0.5 + (7 * seq_len(n)) %% 13 / 8
made_offset <- function(n) (5 * seq_len(n)) %% 11 / 16 - 0.25

dataset <- function(columns, time, event, start = NULL, strata = NULL) {
  n <- length(time)
  list(
    X = lapply(columns, as.numeric),
    start = start, time = as.numeric(time), event = as.integer(event),
    strata = if (!is.null(strata)) as.integer(strata),
    weights = made_weights(n), offset = made_offset(n)
  )
}

lung_rows <- complete(lung, c("age", "sex", "ph.ecog", "ph.karno", "pat.karno", "wt.loss"))
lung_rows <- lung_rows[lung_rows$ph.ecog < 3, ] # one row alone would make a stratum of its own
pbc_rows <- complete(pbc, c("trt", "age", "edema", "bili", "albumin", "protime", "ast", "stage"))

datasets <- list(
  ovarian = with(ovarian, dataset(
    list(age = age, residual = resid.ds == 2, treatment = rx == 2, ecog = ecog.ps == 2),
    futime, fustat
  )),
  lung = with(lung_rows, dataset(
    list(
      age = age, female = sex == 2, ph_karno = ph.karno, pat_karno = pat.karno,
      weight_loss = wt.loss
    ),
    time, status == 2,
    strata = ph.ecog + 1
  )),
  veteran = with(veteran, dataset(
    list(
      treatment = trt == 2, small_cell = celltype == "smallcell", adeno = celltype == "adeno",
      large = celltype == "large", karno = karno, diagnosis_months = diagtime, age = age
    ),
    time, status,
    strata = 1 + (prior > 0)
  )),
  kidney = with(kidney, dataset(
    list(
      age = age, female = sex == 2,
      gn = disease == "GN", an = disease == "AN", pkd = disease == "PKD"
    ),
    time, status
  )),
  pbc = with(pbc_rows, dataset(
    list(
      treatment = trt == 2, age = age, female = sex == "f", edema = edema,
      log_bilirubin = log(bili), albumin = albumin, log_protime = log(protime), ast = ast
    ),
    time, status == 2, # death; a transplant censors
    strata = stage
  )),
  heart = with(heart, dataset(
    list(age = age, year = year, surgery = surgery, transplant = transplant == "1"),
    stop, event,
    start = start, strata = 1 + (year >= 3)
  )),
  # Recurrences: many ties, delayed entry into the strata of later recurrences.
  bladder2 = with(bladder2, dataset(
    list(treatment = rx == 2, number = number, size = size), stop, event,
    start = start, strata = enum
  ))
)

tight <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)

# One fit.  The log-likelihood is read off a second call that only evaluates at the coefficients: a
# penalized fit's own `loglik` includes its penalty.
fit_case <- function(name, dataset_name, uses, ties, theta = NULL) {
  data <- datasets[[dataset_name]]
  X <- do.call(cbind, data$X)
  time <- data$time
  event <- data$event
  surv <- if ("start" %in% uses) Surv(data$start, time, event) else Surv(time, event)
  terms <- c(
    if (is.null(theta)) "X" else sprintf("ridge(X, theta = %g, scale = FALSE)", theta),
    if ("strata" %in% uses) "strata(group)",
    if ("offset" %in% uses) "offset(shift)"
  )
  group <- data$strata
  shift <- data$offset
  row <- seq_along(time)
  case_weights <- if ("weights" %in% uses) data$weights else rep(1, length(time))
  fit <- function(terms, ...) {
    formula <- stats::reformulate(terms, "surv")
    environment(formula) <- environment()
    coxph(formula, weights = case_weights, ties = ties, ...)
  }
  best <- fit(terms, control = tight, robust = FALSE)
  coefficients <- unname(stats::coef(best))
  plain_terms <- c("X", setdiff(terms, terms[1]))
  there <- fit(plain_terms, init = coefficients, control = coxph.control(iter.max = 0))
  case <- list(
    name = name, dataset = dataset_name, uses = I(uses), ties = ties,
    ridge_theta = theta, coefficients = I(coefficients), loglik = there$loglik[2]
  )
  if (is.null(theta)) {
    robust <- fit(c(terms, "cluster(row)"), control = tight) # every row its own cluster
    case$standard_errors <- I(unname(sqrt(diag(best$var))))
    case$robust_standard_errors <- I(unname(sqrt(diag(robust$var))))
    case$baseline <- baseline(best, time, event, if ("strata" %in% uses) group, case_weights)
  }
  case
}

# Cumulative hazard at eta = 0.  Only event times are kept: between them the curve is flat.
baseline <- function(fit, time, event, group = NULL, case_weights = NULL) {
  curve <- basehaz(fit, centered = FALSE)
  # survfit gives the curve of a row at the (weighted) mean offset, and centered = FALSE undoes only
  # the mean of X.
  offset <- stats::model.offset(stats::model.frame(fit))
  shift <- if (is.null(offset)) 0 else stats::weighted.mean(offset, case_weights)
  stratum <- if (is.null(group)) rep(1L, nrow(curve)) else as.integer(curve$strata)
  if (is.null(group)) group <- rep(1L, length(time))
  keep <- paste(stratum, curve$time) %in% paste(group, time)[event == 1]
  list(
    strata = I(stratum[keep]), times = I(curve$time[keep]),
    cumulative_hazard = I(curve$hazard[keep] * exp(-shift))
  )
}

designs <- list(
  ovarian = list("none", "weights"),
  kidney = list("none"),
  lung = list("none", "strata", "weights", "offset", c("strata", "weights")),
  veteran = list("none", "strata", "weights", "offset"),
  pbc = list("none", "strata", c("strata", "weights", "offset")),
  heart = list("start", c("start", "strata"), c("start", "weights"), c("start", "offset")),
  bladder2 = list(
    "start", c("start", "strata"), c("start", "strata", "weights"),
    c("start", "strata", "weights", "offset")
  )
)
ridges <- list(
  list("lung", character(), 5), list("veteran", "strata", 20), list("pbc", "weights", 3),
  # No weights with start and Efron ties: survival's penalized fit of that combination does not
  # converge.
  list("heart", "start", 2), list("bladder2", c("start", "strata"), 4)
)

cases <- list()
for (ties in c("breslow", "efron")) {
  for (dataset_name in names(designs)) {
    for (design in designs[[dataset_name]]) {
      uses <- setdiff(design, "none")
      name <- paste(c(dataset_name, if (length(uses)) uses else "plain", ties), collapse = "-")
      cases[[length(cases) + 1]] <- fit_case(name, dataset_name, uses, ties)
    }
  }
  for (ridge in ridges) {
    name <- paste(c(ridge[[1]], ridge[[2]], "ridge", ties), collapse = "-")
    cases[[length(cases) + 1]] <- fit_case(name, ridge[[1]], ridge[[2]], ties, theta = ridge[[3]])
  }
}

# A coefficient that changes over time: the rows are split at the cuts, and karno has one column a
# piece.
time_varying_case <- function(ties, cuts = c(90, 180)) {
  data <- datasets$veteran
  rows <- data.frame(data$X, time = data$time, event = data$event)
  split <- survSplit(Surv(time, event) ~ ., rows, cut = cuts, episode = "piece")
  constant <- setdiff(names(data$X), "karno")
  pieces <- seq_len(length(cuts) + 1)
  columns <- paste0("karno_piece_", pieces)
  split[columns] <- lapply(pieces, function(piece) split$karno * (split$piece == piece))
  fit <- coxph(
    stats::reformulate(c(constant, columns), "Surv(tstart, time, event)"),
    data = split, ties = ties, control = tight
  )
  list(
    name = paste0("veteran-time-varying-", ties), dataset = "veteran", ties = ties, cuts = cuts,
    time_varying = I("karno"), split_rows = nrow(split), columns = c(constant, columns),
    coefficients = unname(stats::coef(fit)), standard_errors = unname(sqrt(diag(fit$var))),
    loglik = fit$loglik[2],
    baseline = baseline(fit, split$time, split$event)
  )
}

# The lasso: glmnet minimizes -loglik / n + lambda * sum|b| (the mean scale), Breslow ties.
lasso_case <- function(lambda = c(0.5, 0.05)) {
  data <- datasets$veteran
  X <- do.call(cbind, data$X)
  fit <- glmnet::glmnet(
    X, Surv(data$time, data$event),
    family = "cox", standardize = FALSE, thresh = 1e-14, maxit = 1e7, lambda = lambda
  )
  lapply(seq_along(lambda), function(k) {
    list(
      name = sprintf("veteran-lasso-%g", lambda[k]), dataset = "veteran", ties = "breslow",
      lambda_mean_scale = lambda[k],
      coefficients = unname(as.matrix(fit$beta)[, k])
    )
  })
}

result <- list(
  origin = paste0(
    "Data sets of the R package survival ", packageVersion("survival"),
    " (LGPL >= 2) and optima computed by it; lasso by glmnet ", packageVersion("glmnet"), "; ",
    R.version.string, "; written by make_coxph.R"
  ),
  datasets = datasets,
  cases = cases,
  time_varying = lapply(c("breslow", "efron"), time_varying_case),
  lasso = lasso_case()
)

# jsonlite stops at 15 digits, which does not bring every double back unchanged; 17 do.
exact <- function(value) {
  if (!is.double(value)) return(value)
  short <- sprintf("%.15g", value)
  text <- ifelse(as.numeric(short) == value, short, sprintf("%.17g", value))
  is_array <- length(value) != 1 || inherits(value, "AsIs")
  if (is_array) text <- paste0("[", paste(text, collapse = ","), "]")
  structure(text, class = "json")
}

arguments <- commandArgs(trailingOnly = TRUE)
path <- if (length(arguments)) arguments[1] else "coxph.json"
text <- toJSON(
  rapply(result, exact, classes = c("numeric", "AsIs"), how = "replace"),
  auto_unbox = TRUE, null = "null", json_verbatim = TRUE
)
# One case a line, for readable diffs.
writeLines(gsub('},{"name"', '},\n{"name"', text, fixed = TRUE), path)
