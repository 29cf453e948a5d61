# Writes competing.json: optima of Fine and Gray's model computed by cmprsk, fastcmprsk and
# survival::finegray with coxph on survival's own data sets and on a made one full of ties.
#
# Run:  Rscript make_competing.R [competing.json]  and then  python certify.py competing.json
#
# Layout: common.R.  Of the columns, `weights` are not integers and `copies` are; `status` is 0
# censored, 1 event of interest, 2 competing.  In `options`:
#   km_ties      "together" (cmprsk, fastcmprsk) or "events_first" (survival::finegray), see
#                reference_competing.py
#   weighted_km  whether weights count in the censoring curve too.  crr on rows that are repeated
#                `copies` times has them count; finegray(weights = ) has not.
# In `uses`, "censor_groups" is a censoring curve for every group of that column, "own_curves" one
# for every stratum.
# `baseline` is the cumulative subdistribution hazard at eta = 0 by stratum, at event times.
# `standard_errors` are from the information, `robust_standard_errors` are crr's, which allow for
# the estimated censoring curve.
#
# finegray() splits a competing row only where its own stratum has events: with strata, coxph has to
# be stratified as well.  The censoring curve of a group of crr's drops to zero after the group's
# last time, censored or not; here no group ends early enough for that to matter.
library(survival)
library(cmprsk)
library(fastcmprsk)
source("common.R")

mgus_rows <- complete(mgus2, c("hgb", "creat", "mspike"))
pbc_rows <- complete(pbc, c("trt", "protime", "stage"))
transplant_rows <- complete(transplant, "age")

dataset <- function(columns, time, status, strata, censor_groups) {
  n <- length(time)
  list(
    X = lapply(columns, as.numeric), time = as.numeric(time), status = as.integer(status),
    strata = as.integer(strata), censor_groups = as.integer(censor_groups),
    weights = made_weights(n), copies = as.integer((seq_len(n) * 5) %% 7 %% 4)
  )
}

# Times from 1 to 8 only: events, competing events and censorings meet at every one.
made_ties <- function(n = 150) {
  set.seed(5)
  X <- matrix(round(8 * rnorm(n * 4)) / 8, n)
  event <- rexp(n, 0.1 * exp(X %*% c(0.7, -0.5, 0, 0.3)))
  competing <- rexp(n, 0.12 * exp(X %*% c(0, 0.4, -0.4, 0.3)))
  censoring <- rexp(n, 0.12 * exp(0.5 * (X[, 4] > 0)))
  time <- pmin(event, competing, censoring)
  status <- ifelse(time == event, 1, ifelse(time == competing, 2, 0))
  dataset(
    list(a = X[, 1], b = X[, 2], c = X[, 3], d = X[, 4]), pmin(ceiling(time), 8), status,
    strata = 1 + seq_len(n) %% 3, censor_groups = 1 + (X[, 4] > 0)
  )
}

datasets <- list(
  # Progression of a gammopathy; months, so many ties.
  mgus2 = with(mgus_rows, dataset(
    list(
      age = age / 8, male = sex == "M", hemoglobin = hgb, creatinine = creat, m_spike = mspike
    ),
    ifelse(pstat == 1, ptime, futime), ifelse(pstat == 1, 1, 2 * death),
    strata = 1 + (dxyr >= 1976) + (dxyr >= 1985), censor_groups = 1 + (dxyr >= 1980)
  )),
  # Death, transplants compete.
  pbc = with(pbc_rows, dataset(
    list(
      treatment = trt == 2, age = to_64th(age / 8), female = sex == "f", edema = edema,
      log_bilirubin = to_64th(log(bili)), albumin = albumin, log_protime = to_64th(log(protime))
    ),
    time, c(0, 2, 1)[status + 1],
    strata = pmax(stage, 2), censor_groups = 1 + (trt == 2)
  )),
  # Liver transplants; death and withdrawal compete.
  transplant = with(transplant_rows, dataset(
    list(age = age / 8, female = sex == "f", b = abo == "B", ab = abo == "AB", o = abo == "O"),
    futime, ifelse(event == "ltx", 1, ifelse(event == "censored", 0, 2)),
    strata = 1 + (year >= 1994) + (year >= 1997), censor_groups = 1 + (year >= 1995)
  )),
  ties = made_ties()
)
# Patients with a time of zero leave before the first event, under every package's reading.
keep <- datasets$transplant$time > 0
datasets$transplant <- c(
  list(X = lapply(datasets$transplant$X, function(x) x[keep])),
  lapply(datasets$transplant[-1], function(x) x[keep])
)

tight <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)

# A third opinion, on plain data.
fit_cyclops_finegray <- function(data, lam = 0, prior = "laplace") {
  X <- design(data)
  split <- Cyclops::getFineGrayWeights(data$time, data$status)
  table <- Cyclops::createCyclopsData(
    split$surv ~ X, modelType = "fgr", censorWeights = split$weights
  )
  unname(coef(solve_cyclops(table, lam, prior)))
}

crr_case <- function(dataset_name, uses = character()) {
  data <- datasets[[dataset_name]]
  n <- length(data$time)
  rows <- if ("copies" %in% uses) rep(seq_len(n), data$copies) else seq_len(n)
  X <- design(data)[rows, ]
  group <- if ("censor_groups" %in% uses) data$censor_groups[rows] else rep(1, length(rows))
  solve_from <- function(init, maxiter) {
    crr(
      data$time[rows], data$status[rows], X,
      cengroup = group, gtol = 1e-14, maxiter = maxiter, init = init
    )
  }
  # Its line search gives up where the log-likelihood no longer changes; one more Newton step.
  fit <- solve_from(rep(0, ncol(X)), 50)
  fit <- solve_from(fit$coef + solve(fit$inf, fit$score), 0)
  is_plain <- !length(uses)
  agreement <- NULL
  if (!"censor_groups" %in% uses) {
    other <- fastCrr(
      Crisk(data$time[rows], data$status[rows]) ~ X,
      eps = 1e-14, max.iter = 1e6, variance = FALSE
    )
    agreement <- list(fastcmprsk = difference(other$coef, fit$coef))
    if (is_plain) agreement$Cyclops <- difference(fit_cyclops_finegray(data), fit$coef)
  }
  case(
    paste(c(dataset_name, if (is_plain) "plain" else uses, "crr"), collapse = "-"),
    "fine_gray", "cmprsk::crr", dataset_name, fit$coef, uses,
    list(km_ties = "together", weighted_km = TRUE),
    loglik = fit$loglik,
    agreement = agreement,
    standard_errors = if (!"copies" %in% uses) I(unname(sqrt(diag(fit$invinf)))),
    robust_standard_errors = if (is_plain) I(unname(sqrt(diag(fit$var)))),
    baseline = list(
      strata = I(rep(1L, length(fit$uftime))), times = I(fit$uftime),
      cumulative_hazard = I(cumsum(fit$bfitj))
    )
  )
}

# Cumulative hazard at eta = 0, where it jumps.
baseline <- function(fit, stratified) {
  curve <- basehaz(fit, centered = FALSE)
  stratum <- if (stratified) as.integer(curve$strata) else rep(1L, nrow(curve))
  before <- c(0, curve$hazard[-nrow(curve)])
  before[c(TRUE, diff(stratum) != 0)] <- 0
  keep <- curve$hazard > before
  list(
    strata = I(stratum[keep]), times = I(curve$time[keep]),
    cumulative_hazard = I(curve$hazard[keep])
  )
}

# Rows split at the event times after a competing event, then a weighted Cox model.
finegray_case <- function(dataset_name, uses = character(), theta = NULL) {
  data <- datasets[[dataset_name]]
  frame <- data.frame(
    data$X, time = data$time, status = factor(data$status, 0:2), group = data$strata,
    case_weight = if ("weights" %in% uses) data$weights else 1
  )
  formula <- Surv(time, status) ~ .
  if ("own_curves" %in% uses) formula <- Surv(time, status) ~ . + strata(group)
  split <- finegray(formula, data = frame, weights = case_weight)
  X <- as.matrix(split[names(data$X)])
  group <- split$group
  fit_terms <- function(terms, ...) {
    formula <- stats::reformulate(terms, "Surv(fgstart, fgstop, fgstatus)")
    environment(formula) <- environment()
    coxph(formula, data = split, weights = fgwt, ties = "breslow", robust = FALSE, ...)
  }
  stratified <- "strata" %in% uses
  more_terms <- if (stratified) "strata(group)"
  first <- if (is.null(theta)) "X" else sprintf("ridge(X, theta = %g, scale = FALSE)", theta)
  fit <- fit_terms(c(first, more_terms), control = tight)
  there <- fit_terms(
    c("X", more_terms), init = unname(coef(fit)), control = coxph.control(iter.max = 0)
  )
  case(
    paste(
      c(
        dataset_name, if (length(uses)) uses else "plain", if (!is.null(theta)) "ridge",
        "finegray"
      ),
      collapse = "-"
    ),
    "fine_gray", "survival::finegray, coxph", dataset_name, coef(fit), uses,
    list(km_ties = "events_first", weighted_km = FALSE),
    lam = if (is.null(theta)) 0 else theta, l1_ratio = 0, loglik = there$loglik[2],
    standard_errors = if (is.null(theta)) I(unname(sqrt(diag(fit$var)))),
    baseline = if (is.null(theta)) baseline(fit, stratified)
  )
}

# The mean scale: -loglik / n + lambda * penalty.
fast_case <- function(dataset_name, penalty, lam, l1_ratio, penalty_factor = NULL) {
  data <- datasets[[dataset_name]]
  X <- design(data)
  n <- length(data$time)
  fit <- fastCrrp(
    Crisk(data$time, data$status) ~ X,
    eps = 1e-15, max.iter = 1e6, standardize = FALSE, penalty = penalty, lambda = lam / n,
    alpha = if (penalty == "ENET") l1_ratio else 0,
    penalty.factor = if (is.null(penalty_factor)) rep(1, ncol(X)) else penalty_factor
  )
  agreement <- NULL
  if (penalty != "ENET" && is.null(penalty_factor)) {
    prior <- c(LASSO = "laplace", RIDGE = "normal")[[penalty]]
    agreement <- list(
      Cyclops = difference(fit_cyclops_finegray(data, lam, prior), fit$coef[, 1])
    )
  }
  case(
    paste(
      c(
        dataset_name, tolower(penalty), if (!is.null(penalty_factor)) "factor", lam, "fastcmprsk"
      ),
      collapse = "-"
    ),
    "fine_gray", "fastcmprsk::fastCrrp", dataset_name, fit$coef[, 1],
    options = list(km_ties = "together", weighted_km = TRUE), lam = lam, l1_ratio = l1_ratio,
    penalty_factor = penalty_factor, loglik = fit$logLik, agreement = agreement
  )
}

cases <- list()
add <- function(case) cases[[length(cases) + 1]] <<- case
for (name in names(datasets)) {
  add(crr_case(name))
  add(crr_case(name, "censor_groups"))
  if (name != "mgus2") add(crr_case(name, "copies"))
  add(finegray_case(name))
  add(finegray_case(name, "weights"))
  add(finegray_case(name, "strata"))
  add(finegray_case(name, c("strata", "own_curves")))
}
add(finegray_case("transplant", c("strata", "weights")))
add(finegray_case("pbc", theta = 5))
add(finegray_case("mgus2", theta = 20))
add(finegray_case("transplant", "strata", theta = 8))
for (name in names(datasets)) {
  for (lam in if (name == "mgus2") c(4, 20) else c(2, 10)) add(fast_case(name, "LASSO", lam, 1))
}
add(fast_case("pbc", "LASSO", 4, 1, c(0, 1, 1, 2, 0.5, 1, 1)))
add(fast_case("ties", "RIDGE", 4, 0))
add(fast_case("ties", "ENET", 6, 0.5))

write_cases(
  list(
    origin = paste0(
      "Data sets of the R package survival ", packageVersion("survival"), " (LGPL >= 2) and a ",
      "made one; optima by it, cmprsk ", packageVersion("cmprsk"), " and fastcmprsk ",
      packageVersion("fastcmprsk"), "; ", R.version.string,
      "; written by make_competing.R and certify.py"
    ),
    datasets = datasets, cases = cases
  ),
  output_path("competing.json")
)
