# Writes evidence.json: profile likelihoods from R's Cyclops, their combination by EvidenceSynthesis,
# and calibration by EmpiricalCalibration, for the data sets of coxph.json and glm.json (see there),
# the simulated sites of EvidenceSynthesis' tests and the estimates that EmpiricalCalibration ships.
#
# Run:  Rscript make_evidence.R SOURCE [evidence.json]
#
# SOURCE is a copy of the sources of EvidenceSynthesis, whose functions for fixed effects are read
# from there: the package itself needs Java. `pooled` are the results that its tests keep: the
# estimate from the rows of all sites, and 10,000 draws of BEAST from the posterior given these rows.
# A case of `profiles` has the coefficient's values, the log-likelihood and its derivative there;
# with a prior, a Laplace distribution of that variance for all other coefficients, both with and
# without the log-density of the prior. `exact` are estimates from the likelihoods of
# EmpiricalCalibration, maximized to more digits than it does.
library(Cyclops)
library(survival)
library(jsonlite)
library(EmpiricalCalibration)
suppressMessages(library(dplyr))
library(rlang)

arguments <- commandArgs(trailingOnly = TRUE)
source_of <- arguments[1]
for (file in c("LikelihoodApproximation", "FixedEffectMetaAnalysis")) {
  source(file.path(source_of, "R", paste0(file, ".R")))
}
resources <- file.path(source_of, "tests", "testthat", "resources")
tight <- createControl(tolerance = 1e-13, noiseLevel = "silent", maxIterations = 100000)
grid <- seq(log(0.1), log(10), length.out = 8)

# -- profiles ------------------------------------------------------------------------------------
toy <- local({
  set.seed(1)
  n <- 60
  time <- sample(n) + 0
  event <- runif(n) < 0.5
  exposed <- rep(0, n)
  exposed[which(!event & time > 20)[1:6]] <- 1
  list(X = list(exposed = exposed, age = round(rnorm(n), 3)), time = time, event = as.integer(event))
})
read <- function(name) fromJSON(paste0(name, ".json"))$datasets

profile_case <- function(name, data, formula, type, column, variance = NULL) {
  frame <- data.frame(data$X, data[setdiff(names(data), c("X", "strata", "start"))])
  cyclops <- createCyclopsData(formula, data = frame, modelType = type)
  prior <- if (is.null(variance)) createPrior("none") else {
    keep <- if (type == "cox") column else c("(Intercept)", column)
    createPrior("laplace", variance = variance, exclude = keep)
  }
  fit <- suppressWarnings(fitCyclopsModel(cyclops, prior = prior, control = tight))
  evaluate <- function(with_penalty) {
    found <- getCyclopsProfileLogLikelihood(
      fit, column,
      x = grid, includePenalty = with_penalty, returnDerivatives = TRUE
    )
    list(value = found$value, derivative = found$derivative)
  }
  case <- list(
    dataset = name, model = type, column = column, point = grid, plain = evaluate(FALSE)
  )
  if (!is.null(variance)) case <- c(case, list(variance = variance, penalized = evaluate(TRUE)))
  case
}
lung <- read("coxph")$lung
birthwt <- read("glm")$birthwt
cox_formula <- function(data) {
  as.formula(paste("Surv(time, event) ~", paste(names(data$X), collapse = " + ")))
}
binary <- names(which(sapply(birthwt$X, function(x) all(x %in% 0:1))))[1]
logistic <- as.formula(paste("y ~", paste(names(birthwt$X), collapse = " + ")))
profiles <- list(
  profile_case("lung", lung, cox_formula(lung), "cox", "female"),
  profile_case("lung", lung, cox_formula(lung), "cox", "female", variance = 0.01),
  profile_case("birthwt", birthwt, logistic, "lr", binary),
  profile_case("toy", toy, cox_formula(toy), "cox", "exposed")
)

# -- combination ---------------------------------------------------------------------------------
fits <- lapply(readRDS(file.path(resources, "populations.rds")), function(population) {
  cyclops <- createCyclopsData(
    Surv(time, y) ~ x + strata(stratumId),
    data = population, modelType = "cox"
  )
  suppressWarnings(fitCyclopsModel(cyclops, control = tight))
})
forms <- c("grid with gradients", "adaptive grid", "custom", "skew normal")
sites <- lapply(setNames(forms, forms), function(form) {
  found <- suppressWarnings(lapply(fits, approximateLikelihood, parameter = "x", approximation = form))
  if (form %in% c("custom", "skew normal")) found <- bind_rows(found)
  fixed <- suppressWarnings(suppressMessages(computeFixedEffectMetaAnalysis(found)))
  # Hundreds of points a site say no more than every fifth of them.
  if (form == "adaptive grid") found <- NULL
  list(tables = found, fixed = as.list(fixed[c("logRr", "lb", "ub", "seLogRr")]))
})
draws <- readRDS(file.path(resources, "pooledRandomFxEstimate.rds"))
fixed <- readRDS(file.path(resources, "pooledFixedFxEstimate.rds"))
pooled <- list(
  fixed = as.list(fixed[c("logRr", "lb", "ub")]),
  random = as.list(draws[c("mu", "mu95Lb", "mu95Ub", "muSe", "tau", "tau95Lb", "tau95Ub")]),
  effective = unname(attr(draws, "ess")[1:2])
)

# -- calibration ---------------------------------------------------------------------------------
exact_null <- function(controls) {
  minus <- function(theta) {
    EmpiricalCalibration:::logLikelihoodNull(theta, controls$logRr, controls$seLogRr)
  }
  best <- optim(c(0, 1), minus, control = list(reltol = 1e-16, maxit = 10000))$par
  c(best[1], 1 / sqrt(best[2]))
}
calibration_case <- function(name) {
  data <- get(data(list = name, package = "EmpiricalCalibration", envir = environment()))
  data$groundTruth <- as.integer(as.character(data$groundTruth))
  controls <- data[data$groundTruth == 0, ]
  others <- data[data$groundTruth == 1, ]
  null <- fitNull(controls$logRr, controls$seLogRr)
  p <- function(...) calibrateP(null, others$logRr, others$seLogRr, ...)
  list(
    name = name, data = data[c("logRr", "seLogRr", "groundTruth")],
    null = as.numeric(null), exact = exact_null(controls),
    p = I(p()), p_upper = I(p(twoSided = FALSE)), p_lower = I(p(twoSided = FALSE, upper = FALSE)),
    traditional = I(computeTraditionalP(others$logRr, others$seLogRr)),
    interval = calibrateConfidenceInterval(
      others$logRr, others$seLogRr, convertNullToErrorModel(null)
    ),
    ease = computeExpectedAbsoluteSystematicError(null)
  )
}
error_case <- function(name) {
  data <- get(data(list = name, package = "EmpiricalCalibration", envir = environment()))
  known <- data[!is.na(data$trueLogRr), ]
  other <- data[is.na(data$trueLogRr), ]
  model <- fitSystematicErrorModel(known$logRr, known$seLogRr, known$trueLogRr)
  minus <- function(theta) {
    EmpiricalCalibration:::minLogLikelihoodErrorModel(
      theta, known$logRr, known$seLogRr, known$trueLogRr
    )
  }
  exact <- optim(model, minus, control = list(reltol = 1e-16, maxit = 20000))$par
  list(
    name = name, data = data[c("trueLogRr", "logRr", "seLogRr")],
    model = as.numeric(model), exact = as.numeric(exact),
    interval = calibrateConfidenceInterval(other$logRr, other$seLogRr, model)
  )
}
tables <- sites[["custom"]]$tables
null_of_likelihoods <- suppressMessages(fitNullNonNormalLl(tables))

result <- list(
  origin = sprintf(
    "R %s, Cyclops %s, EvidenceSynthesis %s, EmpiricalCalibration %s", getRversion(),
    packageVersion("Cyclops"), read.dcf(file.path(source_of, "DESCRIPTION"), "Version")[1],
    packageVersion("EmpiricalCalibration")
  ),
  toy = toy,
  profiles = profiles,
  sites = sites,
  pooled = pooled,
  calibration = lapply(c("sccs", "caseControl", "cohortMethod"), calibration_case),
  errors = lapply(c("grahamReplication", "southworthReplication"), error_case),
  null_of_likelihoods = as.numeric(null_of_likelihoods)
)
write(
  toJSON(result, auto_unbox = TRUE, digits = NA, na = "null"),
  if (length(arguments) > 1) arguments[2] else "evidence.json"
)
