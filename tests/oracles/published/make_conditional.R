# Writes conditional.json: optima of conditional logistic regression by survival::clogit, of case
# series and conditional Poisson regression by gnm and glm, and lassos of both by Cyclops.
#
# Run:  Rscript make_conditional.R [conditional.json]  and then  python certify.py conditional.json
#
# Layout: common.R.  Data sets of matched sets have `case` and `stratum`, case series `y`, `group`
# and `exposure`; `weights` are the same for all rows of a set or group.  options$method of clogit
# is exact, efron or breslow.  Log-likelihoods of case series are sum(weight * y * log p), without
# constants.  Matched sets of thousands of rows are in large_strata.json.
#
# clogit takes weights for its approximations only.  gnm and glm are given the groups that have
# events; the others have no part in the likelihood.
library(survival)
library(gnm)
source("common.R")

by_group <- function(group) 0.5 + (3 * match(group, unique(group))) %% 7 / 4

matched <- function(columns, case, stratum) {
  stratum <- as.integer(as.factor(stratum))
  list(
    X = lapply(columns, as.numeric), case = as.integer(case), stratum = stratum,
    weights = by_group(stratum), offset = made_offset(length(case))
  )
}

# survival's example: every person once with each of the five occupations.
logan_rows <- function(n_persons = 100) {
  persons <- logan[seq(1, nrow(logan), length.out = n_persons), ]
  persons$id <- seq_len(n_persons)
  levels <- levels(logan$occupation)
  rows <- persons[rep(seq_len(n_persons), each = length(levels)), ]
  rows$choice <- rep(levels, n_persons)
  rows$case <- rows$choice == rows$occupation
  rows
}

colon_rows <- complete(colon[colon$etype == 2, ], c("nodes", "differ"))
lung_rows <- complete(lung, c("inst", "ph.ecog", "pat.karno", "wt.loss"))
choices <- logan_rows()

# Baseline counts of eight weeks and four visits of two: MASS's epil in long form.
epil_rows <- with(MASS::epil, {
  first <- !duplicated(subject)
  data.frame(
    y = c(base[first], y), subject = c(subject[first], subject),
    weeks = c(rep(8, sum(first)), rep(2, length(y))),
    treated = c(trt[first], trt) == "progabide", visit = c(rep(0, sum(first)), period)
  )
})

# Two drugs, three ages, 90 persons with few events, some with none.
made_series <- function(n_persons = 90) {
  set.seed(6)
  n_rows <- rep(2:6, length.out = n_persons)
  group <- rep(seq_len(n_persons), n_rows)
  n <- length(group)
  X <- data.frame(
    drug_a = rbinom(n, 1, 0.3), drug_b = rbinom(n, 1, 0.2), age_2 = rbinom(n, 1, 0.4),
    season = round(16 * runif(n)) / 16
  )
  days <- 1 + rpois(n, 40)
  rate <- days * exp(as.matrix(X) %*% c(0.8, -0.4, 0.3, 0.5) + rnorm(n_persons)[group]) / 40
  list(
    X = lapply(X, as.numeric), y = rpois(n, rate), group = group, exposure = days,
    weights = by_group(group)
  )
}

datasets <- list(
  # One case and two controls.
  infert = with(infert, matched(
    list(spontaneous = spontaneous, induced = induced), case, stratum
  )),
  logan = with(choices, matched(
    list(
      farm = choice == "farm", operatives = choice == "operatives",
      professional = choice == "professional", sales = choice == "sales",
      farm_education = (choice == "farm") * education,
      operatives_education = (choice == "operatives") * education,
      professional_education = (choice == "professional") * education,
      sales_education = (choice == "sales") * education
    ), case, id
  )),
  # Deaths at one institution: strata of up to some 30 patients, most of them cases.
  lung = with(lung_rows, matched(
    list(
      age = age / 8, female = sex == 2, ph_ecog = ph.ecog, pat_karno = pat.karno / 16,
      weight_loss = wt.loss / 16
    ), status == 2, inst
  )),
  # Strata of many cases among many controls.
  colon = with(colon_rows, matched(
    list(
      levamisole = rx == "Lev", levamisole_5fu = rx == "Lev+5FU", age = age / 8, female = sex == 0,
      obstruction = obstruct, perforation = perfor, adherence = adhere, nodes = nodes
    ), status, paste(surg, extent, differ)
  )),
  epil = with(epil_rows, list(
    X = list(
      after = as.numeric(visit > 0), after_treated = as.numeric(visit > 0 & treated),
      last_visit = as.numeric(visit == 4)
    ),
    y = as.integer(y), group = as.integer(subject), exposure = weeks, weights = by_group(subject)
  )),
  series = made_series()
)

tight <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)

clogit_case <- function(dataset_name, method, uses = character()) {
  data <- datasets[[dataset_name]]
  X <- design(data)
  terms <- c("X", "strata(data$stratum)", if ("offset" %in% uses) "offset(data$offset)")
  formula <- stats::reformulate(terms, "data$case")
  environment(formula) <- environment()
  case_weights <- if ("weights" %in% uses) data$weights
  fit <- if (is.null(case_weights)) {
    clogit(formula, method = method, control = tight)
  } else {
    clogit(formula, method = method, control = tight, weights = case_weights, robust = FALSE)
  }
  case(
    paste(c(dataset_name, if (length(uses)) uses else "plain", method), collapse = "-"),
    "clogit", "survival::clogit", dataset_name, coef(fit), uses, list(method = method),
    loglik = fit$loglik[2], standard_errors = I(unname(sqrt(diag(fit$var))))
  )
}

series_case <- function(dataset_name, uses = "exposure") {
  data <- datasets[[dataset_name]]
  keep <- ave(data$y, data$group, FUN = sum) > 0
  frame <- list(
    y = data$y[keep], X = design(data)[keep, ], group = factor(data$group[keep]),
    shift = if ("exposure" %in% uses) log(data$exposure[keep]) else rep(0, sum(keep)),
    weight = if ("weights" %in% uses) data$weights[keep] else rep(1, sum(keep))
  )
  conditional <- gnm(
    y ~ X,
    eliminate = group, offset = shift, weights = weight, family = poisson, data = frame,
    tolerance = 1e-13, iterMax = 1000, verbose = FALSE
  )
  full <- glm(
    y ~ 0 + X + group,
    offset = shift, weights = weight, family = poisson, data = frame,
    control = list(epsilon = 1e-15, maxit = 200)
  )
  columns <- seq_along(data$X)
  p <- fitted(full) / ave(fitted(full), frame$group, FUN = sum)
  case(
    paste(c(dataset_name, uses, "poisson"), collapse = "-"),
    "case_series", "glm with a factor of groups", dataset_name, coef(full)[columns], uses,
    loglik = sum(frame$weight * frame$y * log(p)),
    agreement = list(gnm = difference(coef(conditional)[columns], coef(full)[columns])),
    standard_errors = I(unname(sqrt(diag(vcov(full))[columns])))
  )
}

cyclops_case <- function(dataset_name, model, cyclops_model, lam, prior = "laplace", free = c(),
                         uses = character(), options = list()) {
  data <- datasets[[dataset_name]]
  X <- design(data)
  is_series <- model == "case_series"
  coefficients <- fit_cyclops(
    X, if (is_series) data$y else data$case, cyclops_model, lam, prior,
    group = if (is_series) data$group else data$stratum,
    time = if ("exposure" %in% uses) data$exposure else if (is_series) rep(1, nrow(X)), free = free
  )
  case(
    sprintf("%s-%s-%s-%g", dataset_name, cyclops_model, prior, lam),
    model, "Cyclops", dataset_name, coefficients, uses, options,
    lam = lam, l1_ratio = if (prior == "laplace") 1 else 0,
    penalty_factor = if (length(free)) as.numeric(!seq_along(data$X) %in% free)
  )
}

cases <- list()
add <- function(case) cases[[length(cases) + 1]] <<- case
for (name in c("infert", "logan", "lung", "colon")) {
  add(clogit_case(name, "exact"))
  add(clogit_case(name, "exact", "offset"))
}
for (name in c("lung", "colon")) {
  for (method in c("efron", "breslow")) {
    add(clogit_case(name, method))
    add(clogit_case(name, method, "weights"))
    add(clogit_case(name, method, c("weights", "offset")))
  }
}
for (name in c("epil", "series")) {
  add(series_case(name))
  add(series_case(name, c("exposure", "weights")))
}
add(series_case("series", character()))
exact_method <- list(method = "exact")
add(cyclops_case("infert", "clogit", "clr_exact", 5, options = exact_method))
add(cyclops_case("lung", "clogit", "clr_exact", 2, options = exact_method))
add(cyclops_case("colon", "clogit", "clr_exact", 8, options = exact_method))
add(cyclops_case("colon", "clogit", "clr_exact", 1, options = exact_method))
add(cyclops_case("colon", "clogit", "clr_exact", 6, free = 1:2, options = exact_method))
add(cyclops_case("logan", "clogit", "clr_exact", 4, "normal", options = exact_method))
add(cyclops_case("logan", "clogit", "clr", 5, options = exact_method)) # one case a set
add(cyclops_case("series", "case_series", "sccs", 10, uses = "exposure"))
add(cyclops_case("series", "case_series", "sccs", 2, "normal", uses = "exposure"))
add(cyclops_case("series", "case_series", "sccs", 5))
add(cyclops_case("epil", "case_series", "sccs", 15, free = 1, uses = "exposure"))

write_cases(
  list(
    origin = paste0(
      "Data sets of the R packages survival ", packageVersion("survival"), " (LGPL >= 2), datasets",
      " and MASS ", packageVersion("MASS"), " (GPL), and a made one; optima by survival, glm, gnm ",
      packageVersion("gnm"), " and Cyclops ", packageVersion("Cyclops"), "; ", R.version.string,
      "; written by make_conditional.R and certify.py"
    ),
    datasets = datasets, cases = cases
  ),
  output_path("conditional.json")
)
