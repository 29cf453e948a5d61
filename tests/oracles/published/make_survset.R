# Writes survset.json: Cox models without a penalty for the cohorts of SurvSet, by R's survival.
#
# Run:  python export_survset.py cohorts && Rscript make_survset.R cohorts [survset.json]
#
# The first command writes every cohort with more than five rows a column as a CSV file: entry,
# time, event, then columns that are no combinations of those before them.  A case of the JSON has
# the name of its cohort, its numbers of rows and columns, and for each treatment of ties the
# coefficients, their standard errors and the log-likelihood.  Where `infinite` is true, R warns that
# a coefficient may be infinite, or the iterations end without an optimum, and no numbers are kept.
#
# Times are not rounded (timefix = FALSE): whether times are tied is decided by their digits.
# Columns go in standardized, where R needs not scale them, and coefficients come out in the units
# of the file.
library(survival)
library(jsonlite)

arguments <- commandArgs(trailingOnly = TRUE)
output <- if (length(arguments) > 1) arguments[2] else "survset.json"

tight <- coxph.control(
  eps = 1e-13, toler.chol = 1e-14, toler.inf = 1e-5, iter.max = 50, timefix = FALSE
)

fit_cohort <- function(data, ties) {
  X <- as.matrix(data[-(1:3)])
  deviation <- apply(X, 2, sd)
  surv <- if (any(data$start >= 0)) {
    Surv(data$start, data$time, data$event)
  } else {
    Surv(data$time, data$event)
  }
  said <- character()
  best <- withCallingHandlers(
    coxph(surv ~ scale(X), ties = ties, control = tight),
    warning = function(w) {
      said <<- c(said, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  if (length(said) || anyNA(coef(best))) {
    return(list(infinite = TRUE, said = if (length(said)) said[1] else "a column was left out"))
  }
  list(
    infinite = FALSE, coefficients = I(signif(unname(coef(best) / deviation), 11)),
    standard_errors = I(signif(unname(sqrt(diag(best$var)) / deviation), 7)),
    loglik = signif(best$loglik[2], 13)
  )
}

cases <- lapply(list.files(arguments[1], "[.]csv$", full.names = TRUE), function(path) {
  data <- read.csv(path)
  message(basename(path))
  list(
    name = sub("[.]csv$", "", basename(path)), rows = nrow(data), columns = ncol(data) - 3,
    breslow = fit_cohort(data, "breslow"), efron = fit_cohort(data, "efron")
  )
})

text <- toJSON(list(survival = as.character(packageVersion("survival")), cases = cases),
  auto_unbox = TRUE, digits = NA
)
# One case a line, for readable diffs.
writeLines(gsub('},{"name"', '},\n{"name"', text, fixed = TRUE), output)
