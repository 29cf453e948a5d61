# Writes balance.json: standardized mean differences by MatchIt's summary, of its data set lalonde.
#
# Run in this folder: Rscript make_balance.R [balance.json]
#
# Propensity scores are those of a logistic regression. A case has the `strata` (matched sets or
# subclasses; null where a row has none), MatchIt's `weights`, the `estimand` and what its summary
# says by column: means of both arms and standardized differences, before and after. MatchIt divides
# by the standard deviation before: of the treated under ATT, of comparators under ATC, pooled under
# ATE. Columns whose difference is below sqrt(machine epsilon) are not divided.
library(MatchIt)
library(jsonlite)

data(lalonde)
X <- with(lalonde, cbind(
  age = age, educ = educ, black = as.integer(race == "black"),
  hispan = as.integer(race == "hispan"), married = married, nodegree = nodegree, re74 = re74,
  re75 = re75
))
frame <- data.frame(treat = lalonde$treat, X)
formula <- treat ~ age + educ + black + hispan + married + nodegree + re74 + re75

numbers <- function(x) I(signif(as.vector(x), 15))
case <- function(name, estimand, ...) {
  fit <- matchit(formula, frame, estimand = estimand, ...)
  found <- summary(fit, standardize = TRUE, pair.dist = FALSE)
  after <- if (is.null(found$sum.matched)) found$sum.across else found$sum.matched
  table <- function(x) {
    x <- x[colnames(X), c("Means Treated", "Means Control", "Std. Mean Diff.")]
    list(treated = numbers(x[, 1]), comparator = numbers(x[, 2]), difference = numbers(x[, 3]))
  }
  list(
    name = name, estimand = tolower(estimand), strata = I(as.integer(fit$subclass)),
    weights = numbers(fit$weights), before = table(found$sum.all), after = table(after)
  )
}

written <- list(
  versions = list(R = R.version.string, MatchIt = as.character(packageVersion("MatchIt"))),
  columns = I(colnames(X)),
  X = lapply(asplit(X, 2), function(x) I(as.vector(x))),
  treatment = I(as.integer(lalonde$treat)),
  cases = list(
    case("1:1", "ATT", method = "nearest"),
    case("1:m in a caliper", "ATT", method = "nearest", ratio = 3, caliper = 0.1),
    case("subclasses", "ATT", method = "subclass", subclass = 5),
    case("subclasses", "ATC", method = "subclass", subclass = 5),
    case("subclasses", "ATE", method = "subclass", subclass = 5)
  )
)
arguments <- commandArgs(trailingOnly = TRUE)
path <- if (length(arguments)) arguments[1] else "balance.json"
writeLines(toJSON(written, auto_unbox = TRUE, digits = NA, na = "null"), path)
