# Writes predicted_curves.json: intervals of predicted curves. survfit's of coxph fits, and of coxph fits to
# finegray's rows, whose weights it takes as known; curves of cmprsk's predict.crr.
#
# Run, after make_coxph.R and make_competing.R, in their folder:
#   Rscript make_predicted_curves.R [predicted_curves.json]
#
# A case names its `file` and `dataset`, in `uses` the optional columns that take part, the rows of
# X whose curves are predicted (from 0), and the stratum of each. `time` are some times of the curves
# of each row, `hazard` the cumulative hazard there, `error` its standard error, `survival` the
# bounds of the survival by transformation: all a vector for each row. Numbers have 11 digits.
library(survival)
library(cmprsk)
source("common.R")

other <- function(file) fromJSON(file, simplifyVector = TRUE, simplifyDataFrame = FALSE)
data_of <- list(coxph = other("coxph.json")$datasets, competing = other("competing.json")$datasets)
digits <- function(x) I(signif(as.vector(x), 11))
tight <- coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100)
kinds <- c("log", "log-log", "plain")
level <- 0.9

# Five times of a curve, the first event and the last time among them.
some_of <- function(curve) {
  happened <- which(curve$n.event > 0)
  sort(unique(c(happened[round(seq(1, length(happened), length.out = 5))], length(curve$time))))
}

curves_of <- function(fit, newdata, kind) {
  lapply(seq_len(nrow(newdata)), function(i) {
    survfit(fit, newdata = newdata[i, , drop = FALSE], conf.int = level, conf.type = kind)
  })
}

bounds_of <- function(fit, newdata) {
  by_kind <- lapply(setNames(kinds, kinds), function(kind) curves_of(fit, newdata, kind))
  first <- by_kind[[1]]
  take <- function(curves, what) {
    lapply(seq_along(curves), function(i) digits(curves[[i]][[what]][some_of(first[[i]])]))
  }
  list(
    time = take(first, "time"), hazard = take(first, "cumhaz"), error = take(first, "std.err"),
    lower = lapply(by_kind, take, "lower"), upper = lapply(by_kind, take, "upper")
  )
}

cox_case <- function(dataset, uses, ties, rows) {
  data <- data_of$coxph[[dataset]]
  frame <- data.frame(data$X)
  frame$group <- data$strata
  frame$time <- data$time
  frame$event <- data$event
  frame$start <- data$start
  response <- if ("start" %in% uses) "Surv(start, time, event)" else "Surv(time, event)"
  terms <- c(names(data$X), if ("strata" %in% uses) "strata(group)")
  frame$case_weights <- if ("weights" %in% uses) data$weights else rep(1, nrow(frame))
  formula <- as.formula(paste(response, "~", paste(terms, collapse = " + ")))
  fit <- coxph(
    formula, data = frame, weights = case_weights, ties = ties, control = tight, robust = FALSE,
    model = TRUE
  )
  case(
    paste(c(dataset, if (length(uses)) uses else "plain", ties), collapse = "-"), "cox", "survfit",
    dataset, coef(fit), uses, list(ties = ties), file = "coxph", rows = I(rows - 1L), level = level,
    curves = bounds_of(fit, frame[rows, ])
  )
}

finegray_case <- function(dataset, rows) {
  data <- data_of$competing[[dataset]]
  frame <- data.frame(
    data$X, time = data$time, status = factor(data$status, 0:2), id = seq_along(data$time)
  )
  split <- finegray(Surv(time, status) ~ ., data = frame)
  formula <- reformulate(names(data$X), "Surv(fgstart, fgstop, fgstatus)")
  fit <- coxph(
    formula, data = split, weights = fgwt, ties = "breslow", robust = FALSE, control = tight,
    model = TRUE
  )
  case(
    paste(dataset, "finegray", sep = "-"), "fine_gray", "survival::finegray, coxph, survfit",
    dataset, coef(fit), options = list(km_ties = "events_first"), file = "competing",
    rows = I(rows - 1L), level = level, curves = bounds_of(fit, frame[rows, ])
  )
}

crr_case <- function(dataset, rows) {
  data <- data_of$competing[[dataset]]
  X <- design(data)
  fit <- crr(data$time, data$status, X, gtol = 1e-12, maxiter = 100)
  curves <- predict(fit, X[rows, , drop = FALSE])
  some <- round(seq(1, nrow(curves), length.out = 5))
  case(
    paste(dataset, "crr", sep = "-"), "fine_gray", "predict.crr", dataset, fit$coef,
    options = list(km_ties = "together"), file = "competing", rows = I(rows - 1L),
    time = digits(curves[some, 1]),
    incidence = lapply(seq_along(rows), function(i) digits(curves[some, i + 1]))
  )
}

cases <- list()
add <- function(case) cases[[length(cases) + 1]] <<- case
for (ties in c("breslow", "efron")) {
  add(cox_case("ovarian", character(), ties, c(1L, 7L)))
  add(cox_case("lung", "strata", ties, c(2L, 100L)))
  add(cox_case("kidney", "weights", ties, c(1L, 30L)))
  add(cox_case("heart", c("start", "strata", "weights"), ties, c(3L, 50L)))
  add(cox_case("bladder2", "start", ties, c(3L, 50L)))
}
add(finegray_case("ties", c(1L, 2L)))
add(finegray_case("transplant", c(1L, 2L)))
add(crr_case("transplant", c(1L, 2L)))
add(crr_case("ties", c(1L, 2L)))

write_cases(
  list(
    origin = paste0(
      "survival ", packageVersion("survival"), ", cmprsk ", packageVersion("cmprsk"), "; ",
      R.version.string, "; written by make_predicted_curves.R"
    ),
    cases = cases
  ),
  output_path("predicted_curves.json")
)
