# Writes time_at_risk.json: study populations and minimal detectable effects of CohortMethod.
#
# Run with the folder of CohortMethod's source:
#   Rscript make_time_at_risk.R PATH/TO/CohortMethod [time_at_risk.json]
#
# `cohorts` and `events` are made here: days are counted from the index date of a row, but for
# `start`, the index date itself, and the `day` of an event. A case has the options of createStudyPopulation, and for each row that is left
# its number, whether it has the outcome, and the time until then. Of the package only two files
# are run: it needs many others, none of which counts days.
library(dplyr, warn.conflicts = FALSE)
source("common.R")

folder <- commandArgs(trailingOnly = TRUE)[1]
for (file in c("StudyPopulation.R", "Power.R")) {
  text <- readLines(file.path(folder, "R", file))
  eval(parse(text = gsub("ParallelLogger::logDebug", "list", text, fixed = TRUE)))
}

# Of the 80 rows, 10 are the second ones of their persons.
i <- 1:80
cohorts <- tibble(
  rowId = i, personId = i, personSeqId = ifelse(i > 70, i - 70, i), treatment = i %% 2,
  start = 16000 + (i * 37) %% 90 + ifelse(i > 70, 40, 0), daysFromObsStart = 365,
  daysToCohortEnd = (i * 13) %% 61, daysToObsEnd = (i * 29) %% 97
)
cohorts$cohortStartDate <- as.Date(cohorts$start, origin = "1970-01-01")
k <- 1:150
events <- tibble(personSeqId = 1 + (k * 17) %% 70, day = 16000 + (k * 53) %% 260 - 80)
outcomes <- inner_join(events, cohorts, by = "personSeqId") |>
  transmute(rowId = rowId, outcomeId = 1, daysToEvent = day - start)
data <- structure(list(cohorts = cohorts, outcomes = outcomes), class = "CohortMethodData")

Arguments <- R6::R6Class("CreateStudyPopulationArgs", public = list(
  initialize = function(values) for (key in names(values)) self[[key]] <- values[[key]]
), lock_objects = FALSE)

default <- list(
  removeSubjectsWithPriorOutcome = TRUE, priorOutcomeLookback = 99999, minDaysAtRisk = 1,
  maxDaysAtRisk = 99999, riskWindowStart = 0, startAnchor = "cohort start", riskWindowEnd = 0,
  endAnchor = "cohort end", censorAtNewRiskWindow = FALSE
)

population_case <- function(name, ...) {
  options <- modifyList(default, list(...))
  found <- suppressMessages(
    createStudyPopulation(data, outcomeId = 1, createStudyPopulationArgs = Arguments$new(options))
  )
  found <- found[order(found$rowId), ]
  effect <- computeMdrr(found)
  list(
    name = name, options = options, row = I(found$rowId), event = I(found$outcomeCount > 0),
    time = I(found$survivalTime), effect = effect$mdrr, standard_error = effect$se
  )
}

cases <- list(
  population_case("default"),
  population_case("keep", removeSubjectsWithPriorOutcome = FALSE),
  population_case("lookback", priorOutcomeLookback = 60, riskWindowStart = 1),
  population_case("lookback-0", priorOutcomeLookback = 0, riskWindowStart = 10),
  population_case("intent", riskWindowStart = 1, riskWindowEnd = 9999),
  population_case("minimum", minDaysAtRisk = 30, riskWindowEnd = 9999, endAnchor = "cohort start"),
  population_case("fixed", riskWindowStart = 3, riskWindowEnd = 20, endAnchor = "cohort start"),
  population_case("after", startAnchor = "cohort end", riskWindowStart = 1, riskWindowEnd = 60),
  population_case(
    "recurrent", removeSubjectsWithPriorOutcome = FALSE, riskWindowEnd = 9999,
    censorAtNewRiskWindow = TRUE
  )
)
effects <- lapply(list(c(0.3, 80), c(0.5, 1200), c(0.01, 7)), function(given) {
  list(
    share = given[1], events = given[2],
    two_sided = computeMdrrFromAggregateStats(given[1], given[2], 1e5),
    one_sided = computeMdrrFromAggregateStats(given[1], given[2], 1e5, 0.1, 0.9, FALSE)
  )
})
cohorts$cohortStartDate <- NULL
description <- read.dcf(file.path(folder, "DESCRIPTION"))
result <- list(
  origin = paste0(
    "CohortMethod ", description[, "Version"], "; ", R.version.string,
    "; written by make_time_at_risk.R"
  ),
  cohorts = as.list(cohorts), events = as.list(events), cases = cases, effects = effects
)
output <- commandArgs(trailingOnly = TRUE)[2]
write_cases(result, if (is.na(output)) "time_at_risk.json" else output)
