# Intervals of case series as SelfControlledCaseSeries 6.1.4 makes them, and the estimates of the R
# package SCCS 1.7, on data that SCCS ships (itp, opv, hib) and on made ones.
#
#   Rscript make_case_series.R path/to/SCCS case_series.json
#
# SCCS is a folder with the sources of the package (its functions are sourced, its data read). Of
# SelfControlledCaseSeries only createSccsIntervalData and createScriIntervalData are called, with
# the cases that createStudyPopulation would choose; Andromeda may be any store of tables.
#
# `data` are the periods (days of observation, both inclusive), eras and outcomes. A case of
# `intervals` has the settings and, by column, rows and their non-zero covariates (row, covariate
# number, value). A case of `estimates` has the coefficients and standard errors of standardsccs.
suppressMessages({
  library(SelfControlledCaseSeries)
  library(dplyr)
  library(survival)
})
arguments <- commandArgs(trailingOnly = TRUE)
for (file in c("max_expo", "adrug_matrix", "formatdata", "standardsccs")) {
  source(file.path(arguments[1], "R", paste0(file, ".R")))
}
origin <- as.Date("2000-01-01")

sccs_data <- function(name) {
  read.table(gzfile(file.path(arguments[1], "data", paste0(name, "dat.txt.gz"))), header = TRUE)
}

# Periods, outcomes and eras of a data set of SCCS; eras of 15 days a dose by default.
tables <- function(data, event, exposures, days) {
  eras <- do.call(rbind, lapply(names(exposures), function(exposure) {
    do.call(rbind, lapply(exposures[[exposure]], function(column) {
      data.frame(id = data$case, era = exposure, start = data[[column]])
    }))
  }))
  eras <- unique(subset(eras, !is.na(start)))
  eras$end <- eras$start + days
  list(
    periods = unique(data.frame(id = data$case, start = data$sta, end = data$end)),
    outcomes = data.frame(id = data$case, day = data[[event]]),
    eras = eras
  )
}

itp <- sccs_data("itp")
opv <- sccs_data("opv")
hib <- sccs_data("hib")
hib <- subset(hib, case %% 4 == 0)
shipped <- list(
  itp = tables(itp, "itp", list(mmr = "mmr"), 42),
  opv = tables(opv, "intus", list(opv = c("opv", "opvd2", "opvd3")), 14),
  hib = tables(
    hib, "conv",
    list(dtp = c("dtp", "dtpd2", "dtpd3"), hib = c("hib", "hibd2", "hibd3")), 14
  )
)

# Many eras of three drugs, overlapping, before, in and after observation.
set.seed(1)
n <- 40
start <- sample(0:400, n, TRUE)
made <- list(periods = data.frame(
  id = 1:n, start = start, end = start + sample(1:1200, n), birth = -sample(0:20000, n)
))
who <- sample(n, 200, TRUE)
made$eras <- data.frame(
  id = who, era = sample(c("a", "b", "c"), 200, TRUE, c(0.5, 0.3, 0.2)),
  start = pmax(start[who] + sample(-100:900, 200, TRUE), 0)
)
made$eras$end <- made$eras$start + sample(0:60, 200, TRUE)
who <- sample(n, 90, TRUE)
made$outcomes <- data.frame(id = who, day = start[who] + sample(-20:900, 90, TRUE))
made$outcomes <- made$outcomes[order(made$outcomes$id, made$outcomes$day), ]
data <- c(shipped, list(made = made))

# Numbers of eras, as the package wants them; outcomes are 10.
era_ids <- function(d) setNames(seq_along(unique(sort(d$eras$era))) + 10, unique(sort(d$eras$era)))

window <- function(d, label, eras = NULL, ...) {
  createEraCovariateSettings(
    includeEraIds = unname(era_ids(d)[if (is.null(eras)) names(era_ids(d)) else eras]),
    label = label, ...
  )
}

choose <- function(cases, outcomes, naive, first_only) {
  outcomes <- arrange(tibble(caseId = outcomes$id, outcomeDay = outcomes$day), caseId, outcomeDay)
  if (first_only) outcomes <- subset(outcomes, !duplicated(caseId))
  cases <- subset(mutate(cases, startDay = startDay + naive), naive == 0 | startDay < endDay)
  at <- match(outcomes$caseId, cases$caseId)
  kept <- !is.na(at) & outcomes$outcomeDay >= cases$startDay[at] &
    outcomes$outcomeDay <= cases$endDay[at]
  outcomes <- outcomes[kept, ]
  list(
    cases = subset(cases, caseId %in% outcomes$caseId), outcomes = outcomes,
    metaData = list(outcomeId = 10, attrition = tibble())
  )
}

convert <- function(d, windows, naive = 0, first_only = FALSE, scri = NULL, ...) {
  birth <- if (is.null(d$periods$birth)) 0 else d$periods$birth
  cases <- with(d$periods, tibble(
    observationPeriodId = as.character(id), caseId = id, personId = as.character(id),
    ageAtObsStart = -birth, observationPeriodStartDate = origin, startDay = start, endDay = end,
    noninformativeEndCensor = 0
  ))
  eras <- rbind(
    with(d$outcomes, tibble(
      eraType = "hoi", caseId = id, eraId = 10, eraValue = 1, eraStartDay = day, eraEndDay = day
    )),
    with(d$eras, tibble(
      eraType = "rx", caseId = id, eraId = unname(era_ids(d)[era]), eraValue = 1,
      eraStartDay = start, eraEndDay = end
    ))
  )
  eras <- arrange(eras, caseId, eraStartDay)
  store <- Andromeda::andromeda(
    cases = cases, eras = eras,
    eraRef = eras |> distinct(eraId, eraType) |> mutate(eraName = "")
  )
  attr(store, "metaData") <- list(
    outcomeIds = 10, attrition = tibble(outcomeId = 10), prevalences = tibble(outcomeId = 10)
  )
  class(store) <- "SccsData"
  attr(class(store), "package") <- "SelfControlledCaseSeries"
  chosen <- choose(cases, d$outcomes, naive, first_only)
  if (is.null(scri)) {
    made <- createSccsIntervalData(
      chosen, store, createCreateSccsIntervalDataArgs(eraCovariateSettings = windows, ...)
    )
  } else {
    made <- createScriIntervalData(chosen, store, createCreateScriIntervalDataArgs(
      eraCovariateSettings = windows, controlIntervalSettings = scri
    ))
  }
  rows <- collect(made$outcomes)
  covariates <- collect(made$covariates)
  list(
    rows = with(rows, data.frame(id = stratumId, length = time, count = y)),
    entries = with(covariates, data.frame(
      row = match(rowId, rows$rowId) - 1, covariate = covariateId, value = covariateValue
    )),
    columns = sort(unique(covariates$covariateId))
  )
}

pre <- function(d, eras = NULL) {
  window(d, "pre", eras, start = -30, end = -1, endAnchor = "era start")
}
intervals <- list(
  itp = convert(data$itp, window(data$itp, "mmr", end = 42, endAnchor = "era start")),
  opv = convert(data$opv, list(window(data$opv, "opv"), pre(data$opv))),
  hib = convert(data$hib, window(data$hib, "", stratifyById = TRUE)),
  windows = convert(
    data$made,
    list(
      window(data$made, "", stratifyById = TRUE),
      pre(data$made, "a"),
      window(data$made, "after", "b", start = 1, startAnchor = "era end", end = 25),
      window(data$made, "first", "a", end = 20, firstOccurrenceOnly = TRUE),
      window(data$made, "long", "c", end = 400, endAnchor = "era start")
    ),
    endOfObservationEraLength = 30
  ),
  any = convert(
    data$made, window(data$made, "any", end = 5),
    naive = 200, first_only = TRUE
  ),
  splines = convert(
    data$made, window(data$made, "any"),
    ageCovariateSettings = createAgeCovariateSettings(ageKnots = 5),
    seasonalityCovariateSettings = createSeasonalityCovariateSettings(seasonKnots = 5)
  ),
  control = convert(
    data$made, window(data$made, "any"),
    scri = createControlIntervalSettings(
      includeEraIds = unname(era_ids(data$made)), start = -40, end = -1, endAnchor = "era start"
    )
  )
)

# Estimates of the published analyses.
fitted <- function(summary) {
  list(
    names = I(rownames(summary$coefficients)), coef = I(unname(summary$coefficients[, "coef"])),
    standard_error = I(unname(summary$coefficients[, "se(coef)"]))
  )
}
ages <- c(427, 488, 549, 610, 671)
months <- c(57, 85, 113, 141, 169, 197, 225, 253, 281, 309, 337)
estimates <- list(
  itp = fitted(standardsccs(
    event ~ mmr + age, indiv = case, astart = sta, aend = end, aevent = itp, adrug = mmr,
    aedrug = mmr + 42, expogrp = c(0, 15, 29), agegrp = ages, data = itp
  )),
  opv = fitted(standardsccs(
    event ~ opv + age, indiv = case, astart = sta, aend = end, aevent = intus,
    adrug = cbind(opv, opvd2, opvd3), aedrug = cbind(opv + 42, opvd2 + 42, opvd3 + 42),
    expogrp = c(0, 15, 29), agegrp = months, dataformat = "multi", sameexpopar = TRUE, data = opv
  )),
  hib = fitted(standardsccs(
    event ~ dtp + hib + age, indiv = case, astart = sta, aend = end, aevent = conv,
    adrug = list(cbind(dtp, dtpd2, dtpd3), cbind(hib, hibd2, hibd3)),
    aedrug = list(
      cbind(dtp + 14, dtpd2 + 14, dtpd3 + 14), cbind(hib + 14, hibd2 + 14, hibd3 + 14)
    ),
    expogrp = list(c(0, 4, 8), c(0, 8)), agegrp = months, dataformat = "multi", data = hib
  ))
)

result <- list(
  r = R.version.string, data = data, intervals = intervals, estimates = estimates,
  season = cyclicSplineDesign(1:12, knots = 0.5 + seq(0, 12, length.out = 5))
)
write(
  jsonlite::toJSON(result, dataframe = "columns", auto_unbox = TRUE, digits = NA), arguments[2]
)
