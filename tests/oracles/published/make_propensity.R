# Writes propensity.json: matched sets, strata, trimming and weights of CohortMethod and MatchIt.
#
# Run:  COHORT_METHOD=folder of the sources of OHDSI/CohortMethod  Rscript make_propensity.R
#
# CohortMethod's own functions are read from its sources (its compiled matching by Rcpp), because the
# package needs a database client to be installed.  `persons` is the table, in columns; a case of
# `matches` has the `label` of the set of each person, -1 for none, which names sets in any order.
# Its `scale` is named as CohortMethod names it.  Where CohortMethod matches on columns, it compares
# scores with a caliper for log-odds; those cases are therefore on the scale of scores.
library(jsonlite)
library(MatchIt)
library(dplyr)
source("common.R")

folder <- Sys.getenv("COHORT_METHOD")
theirs <- new.env(parent = globalenv())
Rcpp::sourceCpp(code = paste(
  "// [[Rcpp::plugins(cpp17)]]\n#include <queue>\n",
  paste(readLines(file.path(folder, "src/Match.h")), collapse = "\n"),
  gsub("#include \"Match.h\"", "", paste(readLines(file.path(folder, "src/Match.cpp")), collapse = "\n")),
  "// [[Rcpp::export]]
  std::vector<int> match_sorted(std::vector<double> score, std::vector<int> treatment,
                                unsigned int ratio, double caliper) {
    ohdsi::cohortMethod::Match match(score, treatment, ratio, caliper);
    std::vector<int64_t> found = match.match();
    return std::vector<int>(found.begin(), found.end());
  }", sep = "\n"
))
theirs$`::` <- function(package, name) {
  package <- as.character(substitute(package))
  name <- as.character(substitute(name))
  if (package == "ParallelLogger") return(function(...) invisible(NULL))
  getExportedValue(package, name)
}
sys.source(file.path(folder, "R/PsFunctions.R"), theirs)
theirs$matchPsInternal <- function(propensityScores, treatment, maxRatio, caliper) {
  data.frame(stratumId = match_sorted(propensityScores, treatment, maxRatio, caliper))
}
arguments <- function(class, ...) structure(list2env(list(...)), class = c(class, "R6"))

set.seed(2)
n <- 240
covariate <- rnorm(n)
treatment <- rbinom(n, 1, plogis(0.9 * covariate - 0.8))
persons <- data.frame(
  rowId = seq_len(n) - 1, treatment = treatment,
  propensityScore = signif(plogis(0.9 * covariate - 0.8 + rnorm(n, sd = 0.3)), 12),
  sex = rbinom(n, 1, 0.5), region = sample(1:3, n, TRUE)
)

cohort_method <- function(ratio, caliper, scale, columns = character()) {
  given <- arguments(
    "MatchOnPsArgs", caliper = caliper, caliperScale = scale, maxRatio = ratio,
    matchColumns = columns, allowReverseMatch = FALSE, matchCovariateIds = NULL
  )
  found <- theirs$matchOnPs(persons, given)
  label <- rep(-1L, n)
  label[found$rowId + 1] <- as.integer(found$stratumId)
  list(
    source = "CohortMethod", order = "closest", ratio = ratio, caliper = caliper, scale = scale,
    exact = I(columns), label = I(label)
  )
}

match_it <- function(order, ratio, caliper, columns = character()) {
  found <- suppressWarnings(matchit(
    treatment ~ sex, data = persons, distance = persons$propensityScore, method = "nearest",
    m.order = order, ratio = ratio, caliper = caliper, std.caliper = FALSE,
    exact = if (length(columns)) columns
  ))
  label <- rep(-1L, n)
  for (treated in rownames(found$match.matrix)) {
    taken <- na.omit(found$match.matrix[treated, ])
    if (length(taken)) label[as.integer(c(treated, taken))] <- as.integer(treated)
  }
  list(
    source = "MatchIt", order = order, ratio = ratio, caliper = caliper,
    scale = "propensity score", exact = I(columns), label = I(label)
  )
}

matches <- list(
  cohort_method(1, 0.2, "standardized logit"),
  cohort_method(1, 0.02, "standardized logit"),
  cohort_method(2, 0.05, "standardized"),
  cohort_method(4, 0.2, "standardized logit"),
  cohort_method(0, 0.2, "standardized logit"),
  cohort_method(1, 0.01, "propensity score"),
  cohort_method(3, 0.05, "propensity score", "sex"),
  cohort_method(1, 0.05, "propensity score", c("sex", "region")),
  match_it("closest", 1, 0.05),
  match_it("closest", 2, 0.05),
  match_it("closest", 3, 0.05, "sex"),
  match_it("largest", 1, 0.05),
  match_it("largest", 2, 0.1),
  match_it("smallest", 1, 0.02),
  match_it("data", 1, 0.05),
  match_it("data", 2, 0.02),
  match_it("largest", 2, 0.1, "sex"),
  match_it("smallest", 1, 0.1, c("sex", "region"))
)

strata <- function(number, base, columns = character()) {
  given <- arguments(
    "StratifyByPsArgs", numberOfStrata = number, baseSelection = base,
    stratificationColumns = columns, stratificationCovariateIds = NULL
  )
  found <- theirs$stratifyByPs(persons, given)
  list(
    n_strata = number, base = base, exact = I(columns),
    label = I(found$stratumId[order(found$rowId)])
  )
}

trimmed <- function(method, fraction = NULL, equipoise = NULL) {
  given <- arguments(
    "TrimByPsArgs", trimFraction = fraction, trimMethod = method, equipoiseBounds = equipoise,
    maxWeight = NULL
  )
  list(
    method = method, fraction = fraction, equipoise = equipoise,
    rows = I(theirs$trimByPs(persons, given)$rowId)
  )
}

write_cases(
  list(
    origin = paste0(
      R.version.string, ", MatchIt ", packageVersion("MatchIt"), ", CohortMethod ",
      read.dcf(file.path(folder, "DESCRIPTION"))[1, "Version"]
    ),
    persons = as.list(persons),
    matches = matches,
    strata = list(
      strata(5, "all"), strata(10, "target"), strata(4, "comparator"), strata(3, "all", "region")
    ),
    trimmed = list(
      trimmed("symmetric", 0.1), trimmed("asymmetric", 0.05), trimmed("none", NULL, c(0.3, 0.7))
    ),
    preference = I(theirs$computePreferenceScore(persons)$preferenceScore),
    equipoise = theirs$computeEquipoise(persons),
    weights = lapply(
      list(iptw = "ate", att = "att", overlap = "ato"),
      function(kind) I(theirs$computeIptw(persons, kind)$iptw)
    )
  ),
  "propensity.json"
)
