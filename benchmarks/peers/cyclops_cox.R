# Cyclops' Cox lasso by cyclic coordinate descent.
# Usage: Rscript cyclops_cox.R PROBLEM_DIR OUT.json
here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
source(file.path(here, "peer_problem.R"))
for (package in c("jsonlite", "Cyclops")) require_peer(package)

prepare <- function(problem) {
  stratum <- if (is.null(problem$stratum)) rep(0L, problem$n) else problem$stratum
  # Cyclops wants the rows by stratum and descending time, events last among equal times; rows are
  # renumbered in that order, so that it finds everything sorted.
  ordered <- order(stratum, -problem$time, problem$event)
  place <- integer(problem$n)
  place[ordered] <- seq_len(problem$n)
  outcomes <- data.frame(
    stratumId = stratum[ordered], rowId = seq_len(problem$n),
    y = problem$event[ordered], time = problem$time[ordered]
  )
  entry <- order(problem$column, place[problem$row])
  row <- place[problem$row[entry]]
  covariates <- data.frame(
    covariateId = problem$column[entry], rowId = row,
    covariateValue = if (is.null(problem$value)) 1 else problem$value[entry],
    stratumId = outcomes$stratumId[row], time = outcomes$time[row], y = outcomes$y[row]
  )
  Cyclops::convertToCyclopsData(
    outcomes, covariates,
    modelType = "cox", addIntercept = FALSE, checkRowIds = FALSE, quiet = TRUE
  )
}

fit <- function(problem, prepared) {
  # Relative change of its "gradient" criterion between cycles; the default 1e-6 is loose.
  tolerance <- 1e-8
  prior <- Cyclops::createPrior("laplace", variance = 2 / problem$penalty^2) # the sum scale
  control <- Cyclops::createControl(
    tolerance = tolerance, maxIterations = 10000, threads = 1, noiseLevel = "silent"
  )
  fitted <- Cyclops::fitCyclopsModel(prepared, prior = prior, control = control, warnings = FALSE)
  coefficients <- numeric(problem$p) # a column without entries is unknown to Cyclops
  estimates <- stats::coef(fitted)
  coefficients[as.integer(names(estimates))] <- estimates
  note <- sprintf("tolerance=%g; %s", tolerance, fitted$return_flag)
  list(coef = coefficients, note = note, n_iter = fitted$iterations)
}

timed_run("Cyclops", "Cyclops", prepare, fit)
