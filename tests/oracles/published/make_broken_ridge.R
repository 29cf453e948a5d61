# Writes broken_ridge.json: broken adaptive ridges by Cyclops' prior "barupdate".
#
# Run:  Rscript make_broken_ridge.R [broken_ridge.json]  beside glm.json and coxph.json, whose data
# sets are used
#
# From a ridge (normal priors of variance `start`), single cycles of updates over the coordinates
# are repeated until nothing changes.  `variance` is that of the updates, 1 / lambda on the sum scale.
library(Cyclops)
library(survival)
source("common.R")

glm <- fromJSON("glm.json")$datasets
coxph <- fromJSON("coxph.json")$datasets

broken <- function(name, type, variance, start) {
  data <- if (type == "cox") coxph[[name]] else glm[[name]]
  X <- do.call(cbind, data$X)
  frame <- data.frame(X)
  outcome <- if (type == "cox") "Surv(time, event)" else "y"
  frame[c("time", "event", "y")] <- list(data$time, data$event, data$y)
  formula <- reformulate(colnames(frame)[seq_len(ncol(X))], outcome)
  model <- createCyclopsData(as.formula(formula), data = frame, modelType = type)
  exclude <- if (type == "cox") c() else "(Intercept)"
  tight <- createControl(tolerance = 1e-14, maxIterations = 100000)
  prior <- createPrior("normal", variance = start, exclude = exclude)
  found <- coef(fitCyclopsModel(model, prior, tight, warnings = FALSE))
  prior <- createPrior("barupdate", variance = variance, exclude = exclude)
  once <- createControl(convergenceType = "onestep")
  for (cycle in 1:20000) {
    before <- found
    fit <- fitCyclopsModel(
      model, prior, once, startingCoefficients = before, warnings = FALSE
    )
    found <- coef(fit)
    if (max(abs(found - before)) < 1e-12) break
  }
  stopifnot(max(abs(found - before)) < 1e-12)
  if (type != "cox") found <- found[-1]
  list(
    dataset = name, model = type, variance = variance, start = start,
    coefficients = I(unname(found))
  )
}

write_cases(
  list(
    origin = paste0(
      "Data sets of glm.json and coxph.json; fits by Cyclops ", packageVersion("Cyclops"), "; ",
      R.version.string, "; written by make_broken_ridge.R"
    ),
    cases = list(
      broken("birthwt", "lr", 0.5, 1),
      broken("birthwt", "lr", 2, 1),
      broken("kidney", "cox", 2, 1),
      broken("lung", "cox", 0.4, 1),
      broken("pbc", "cox", 0.4, 1)
    )
  ),
  output_path("broken_ridge.json")
)
