# Cyclops' lasso by cyclic coordinate descent.
# Usage: Rscript cyclops.R PROBLEM_DIR OUT.json MODEL_TYPE TOLERANCE [FOLDS REPEATS LOW HIGH STEPS]
# MODEL_TYPE is one of Cyclops', or "auto"; TOLERANCE bounds the relative change of its "gradient"
# criterion between cycles (its default is 1e-6).  With FOLDS the prior variance is chosen by its
# cross-validation, from STEPS values between LOW and HIGH.
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Cyclops")) require_peer(package)
tolerance <- as.numeric(driver_argument(2))

# One case a set: all forms of the conditional likelihood are the same.
has_single_cases <- function(problem) max(rowsum(problem$y, problem$group)) <= 1

model_type <- function(problem) {
  asked <- driver_argument(1)
  if (asked != "auto") return(asked)
  if (problem$model == "matched") {
    exact <- problem$ties == "exact" && !has_single_cases(problem)
    return(if (exact) "clr_exact" else "clr")
  }
  types <- c(
    cox = "cox", "fine-gray" = "fgr", logistic = "lr", poisson = "pr", linear = "ls",
    "case-series" = "sccs"
  )
  types[[problem$model]]
}

# Outcomes in the order that Cyclops wants, in which rows are renumbered, and that order.
outcomes_of <- function(problem, type) {
  if (type %in% c("cox", "fgr")) {
    # By stratum and descending time, events last among equal times.
    stratum <- if (is.null(problem$stratum)) rep(0L, problem$n) else problem$stratum
    ordered <- order(stratum, -problem$time, problem$event)
    outcomes <- data.frame(
      stratumId = stratum[ordered], rowId = seq_len(problem$n),
      y = problem$event[ordered], time = problem$time[ordered]
    )
  } else {
    ordered <- if (is.null(problem$group)) seq_len(problem$n) else order(problem$group)
    outcomes <- data.frame(rowId = seq_len(problem$n), y = problem$y[ordered])
    outcomes$stratumId <- problem$group[ordered] # none without groups
    exposure <- problem$exposure
    if (is.null(exposure) && type == "pr") exposure <- rep(1, problem$n)
    outcomes$time <- exposure[ordered]
  }
  if (type == "fgr") {
    outcomes$censorWeights <- Cyclops:::getFineGrayWeights(outcomes$time, outcomes$y)$weights
  }
  list(outcomes = outcomes, order = ordered)
}

prepare <- function(problem) {
  type <- model_type(problem)
  if (type %in% c("clr", "clr_efron") && problem$ties == "exact" && !has_single_cases(problem)) {
    skip(paste(type, "is not the exact likelihood"))
  }
  if (driver_argument(1) == "clr_exact" && !has_single_cases(problem)) {
    skip("nothing but what Cyclops does here by itself, or another likelihood")
  }
  rows <- outcomes_of(problem, type)
  place <- integer(problem$n)
  place[rows$order] <- seq_len(problem$n)
  entry <- order(problem$column, place[problem$row])
  row <- place[problem$row[entry]]
  covariates <- data.frame(
    covariateId = problem$column[entry], rowId = row,
    covariateValue = if (is.null(problem$value)) 1 else problem$value[entry]
  )
  # What it would sort by; a column that there is not stays away.
  covariates$stratumId <- rows$outcomes$stratumId[row]
  if (type %in% c("cox", "fgr")) {
    covariates$time <- rows$outcomes$time[row]
    covariates$y <- rows$outcomes$y[row]
  }
  Cyclops::convertToCyclopsData(
    rows$outcomes, covariates,
    modelType = type, addIntercept = problem$intercept, checkRowIds = FALSE, quiet = TRUE
  )
}

fit <- function(problem, prepared) {
  type <- model_type(problem)
  # The sum scale, on which its sum of squares is not halved.
  penalty <- problem$penalty * if (type == "ls") 2 else 1
  prior <- Cyclops::createPrior("none")
  if (penalty > 0) prior <- Cyclops::createPrior("laplace", variance = 2 / penalty^2)
  search <- list()
  if (!is.null(driver_argument(3)) && problem$n > 100) { # the tiny problem only loads code
    prior <- Cyclops::createPrior("laplace", useCrossValidation = TRUE)
    search <- list(
      cvType = "grid", fold = as.integer(driver_argument(3)), minCVData = 1L, seed = 1,
      cvRepetitions = as.integer(driver_argument(4)), lowerLimit = as.numeric(driver_argument(5)),
      upperLimit = as.numeric(driver_argument(6)), gridSteps = as.integer(driver_argument(7))
    )
  }
  options <- list(
    tolerance = tolerance, maxIterations = 10000, threads = 1, noiseLevel = "silent"
  )
  control <- do.call(Cyclops::createControl, c(options, search))
  fitted <- Cyclops::fitCyclopsModel(prepared, prior = prior, control = control, warnings = FALSE)
  coefficients <- numeric(problem$p) # a column without entries is unknown to Cyclops
  estimates <- stats::coef(fitted)
  of_columns <- names(estimates) != "(Intercept)"
  coefficients[as.integer(names(estimates)[of_columns])] <- estimates[of_columns]
  note <- sprintf("%s; tolerance=%g; %s", type, tolerance, fitted$return_flag)
  list(
    coef = coefficients, note = note, n_iter = fitted$iterations,
    intercept = sum(estimates[!of_columns])
  )
}

timed_run("Cyclops", "Cyclops", prepare, fit)
