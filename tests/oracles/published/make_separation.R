# Writes separation.json: whether survival::coxph warns that coefficients may be infinite.
#
# Run:  Rscript make_separation.R FOLDER [separation.json]
#
# FOLDER has NAME.csv for each data set of the Python package SurvSet below: event, time, time2
# (where it is there), and the columns that `encode_survset` of tests/test_separation.py makes.
library(survival)
library(jsonlite)

arguments <- commandArgs(trailingOnly = TRUE)
out <- if (length(arguments) > 1) arguments[2] else "separation.json"

verdict <- function(name) {
  data <- read.csv(file.path(arguments[1], paste0(name, ".csv")), check.names = FALSE)
  own <- names(data) %in% c("time", "time2", "event")
  y <- if ("time2" %in% names(data)) Surv(data$time, data$time2, data$event)
       else Surv(data$time, data$event)
  said <- character()
  X <- as.matrix(data[!own])
  fit <- withCallingHandlers(
    coxph(y ~ X, ties = "breslow"),
    warning = function(w) {
      said <<- c(said, conditionMessage(w))
      invokeRestart("muffleWarning")
    }
  )
  list(warns = any(grepl("may be infinite", said)), message = paste(said, collapse = " "),
       survival = as.character(packageVersion("survival")))
}

names <- c("cgd", "d.oropha.rec", "wpbc", "Z243")
result <- setNames(lapply(names, verdict), names)
write(toJSON(result, auto_unbox = TRUE, pretty = TRUE), out)
