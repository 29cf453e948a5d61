# Writes curves.json: what R makes of outcomes without a model. Survival and cumulative incidence
# with their errors and limits, quantiles, tests and means of groups.
#
# Run, after make_coxph.R and make_competing.R, in their folder:
#   Rscript make_curves.R [curves.json]
#
# Data sets are those of the other files: a case names its `file` and `dataset`, and in `uses` the
# optional columns that take part; `groups` is a column of X,
# for incidences whether it is positive. `subjects` holds labels of rows by data
# set. Rows of "late" are those of "ties" with entry times, every second of them in two pieces.
# Columns of a table are vectors over all lines, group by group. Numbers have 12 digits.
library(survival)
library(cmprsk)
source("common.R")

other <- function(file) fromJSON(file, simplifyVector = TRUE, simplifyDataFrame = FALSE)
data_of <- list(coxph = other("coxph.json")$datasets, competing = other("competing.json")$datasets)
subjects <- list(kidney = kidney$id, heart = heart$id, bladder2 = bladder2$id)
flat <- function(x) I(signif(as.vector(x), 12))
every_scale <- c("log", "log-log", "plain", "logit", "arcsin")

# Rows that come in late, some of them in two pieces.
late_rows <- function(data) {
  n <- length(data$time)
  entry <- to_64th(data$time * ((5 * seq_len(n)) %% 7) / 16)
  middle <- to_64th((entry + data$time) / 2)
  cut_up <- seq_len(n) %% 2 == 0 & middle > entry & middle < data$time
  rows <- data.frame(
    start = entry, time = data$time, status = data$status, weights = data$weights,
    group = as.numeric(data$X$c > 0), subject = seq_len(n)
  )
  first <- transform(rows[cut_up, ], time = middle[cut_up], status = 0)
  rows$start[cut_up] <- middle[cut_up]
  rbind(first, rows)
}
late <- late_rows(data_of$competing$ties)

outcome <- function(data, uses) {
  if ("start" %in% uses) Surv(data$start, data$time, data$event) else Surv(data$time, data$event)
}

survival_case <- function(dataset, uses = character(), groups = NULL, robust = NULL) {
  data <- data_of$coxph[[dataset]]
  y <- outcome(data, uses)
  scales <- if (dataset == "ovarian") every_scale else "log"
  weights <- if ("weights" %in% uses) data$weights
  id <- if ("subject" %in% uses) subjects[[dataset]]
  group <- if ("strata" %in% uses) data$strata else if (is.null(groups)) rep(1, nrow(y)) else data$X[[groups]]
  arguments <- list(formula = y ~ group, weights = weights, id = id, robust = robust)
  arguments <- arguments[!vapply(arguments, is.null, TRUE)]
  fit_with <- function(scale) do.call(survfit, c(arguments, list(conf.type = scale)))
  limits <- sapply(scales, function(scale) {
    fit <- fit_with(scale)
    found <- quantile(fit, c(0.1, 0.25, 0.5))
    list(
      lower = flat(fit$lower), upper = flat(fit$upper),
      quantiles = lapply(found, function(x) flat(t(x)))
    )
  }, simplify = FALSE)
  fit <- fit_with("log")
  short <- summary(fit, censored = TRUE)
  list(
    name = paste(c("survival", dataset, uses, groups, if (!is.null(robust)) robust), collapse = "-"),
    file = "coxph", dataset = dataset, uses = I(uses), groups = groups, robust = robust,
    is_robust = !fit$logse, time = flat(fit$time), n_at_risk = flat(fit$n.risk),
    n_events = flat(fit$n.event), n_censored = flat(fit$n.censor), survival = flat(fit$surv),
    standard_error = flat(short$std.err), limits = limits
  )
}

incidence_case <- function(dataset, uses = character(), groups = NULL) {
  is_late <- dataset == "late"
  scales <- if (is_late) "log" else every_scale
  data <- if (is_late) late else data_of$competing[[dataset]]
  status <- factor(data$status, 0:2)
  y <- if (is_late) Surv(data$start, data$time, status) else Surv(data$time, status)
  group <- if (is.null(groups)) rep(1, nrow(y)) else if (is_late) data$group else as.numeric(data$X[[groups]] > 0)
  arguments <- list(
    formula = y ~ group, weights = if ("weights" %in% uses) data$weights,
    id = if (is_late) data$subject
  )
  arguments <- arguments[!vapply(arguments, is.null, TRUE)]
  fit <- do.call(survfit, arguments)
  fits <- lapply(scales, function(scale) do.call(survfit, c(arguments, list(conf.type = scale))))
  names(fits) <- scales
  list(
    name = paste(c("incidence", dataset, uses, groups), collapse = "-"),
    file = "competing", dataset = dataset, uses = I(uses), groups = groups,
    time = flat(fit$time), n_at_risk = flat(fit$n.risk[, 1]),
    n_events = lapply(2:3, function(k) flat(fit$n.event[, k])),
    incidence = lapply(2:3, function(k) flat(fit$pstate[, k])),
    standard_error = lapply(2:3, function(k) flat(fit$std.err[, k])),
    limits = lapply(fits, function(fit) {
      list(lower = flat(matrix(fit$lower, ncol = 3)[, 2]), upper = flat(matrix(fit$upper, ncol = 3)[, 2]))
    })
  )
}

# Estimates by another package.
cuminc_case <- function(dataset, groups) {
  data <- data_of$competing[[dataset]]
  times <- quantile(data$time, c(0.1, 0.3, 0.5, 0.7), names = FALSE, type = 1)
  found <- timepoints(cuminc(data$time, data$status, data$X[[groups]]), times)
  list(
    name = paste("cuminc", dataset, sep = "-"), file = "competing", dataset = dataset,
    uses = I(character()), groups = groups, times = I(times), incidence = flat(t(found$est))
  )
}

test_case <- function(dataset, groups, rho, uses = character()) {
  data <- data_of$coxph[[dataset]]
  group <- data$X[[groups]]
  stratum <- data$strata
  y <- Surv(data$time, data$event)
  fit <- if ("strata" %in% uses) {
    survdiff(y ~ group + strata(stratum), rho = rho)
  } else {
    survdiff(y ~ group, rho = rho)
  }
  sums <- function(x) if (is.matrix(x)) rowSums(x) else x
  list(
    name = paste(c("test", dataset, groups, uses, rho), collapse = "-"), file = "coxph",
    dataset = dataset, uses = I(uses), groups = groups, rho = rho, chi_square = signif(fit$chisq, 12),
    p_value = signif(fit$pvalue, 12), observed = flat(sums(fit$obs)), expected = flat(sums(fit$exp)),
    variance = flat(fit$var)
  )
}

# Score tests of Cox's model: with late entry the exact one is the log-rank test; with weights or
# subjects the robust one.
score_case <- function(dataset, groups, uses) {
  data <- data_of$coxph[[dataset]]
  y <- outcome(data, uses)
  group <- factor(data$X[[groups]])
  stratum <- if ("strata" %in% uses) data$strata else rep(1, nrow(y))
  weights <- if ("weights" %in% uses) data$weights else rep(1, nrow(y))
  id <- if ("subject" %in% uses) subjects[[dataset]] else seq_len(nrow(y))
  robust <- any(c("weights", "subject") %in% uses)
  fit <- if (robust) {
    coxph(y ~ group + strata(stratum), weights = weights, ties = "breslow", cluster = id)
  } else {
    coxph(y ~ group + strata(stratum), ties = "exact")
  }
  found <- if (robust) fit$rscore else fit$score
  list(
    name = paste(c("score", dataset, groups, uses), collapse = "-"), file = "coxph",
    dataset = dataset, uses = I(uses), groups = groups, chi_square = signif(as.numeric(found), 12)
  )
}

mean_case <- function(dataset, groups, horizon, uses = character()) {
  data <- data_of$coxph[[dataset]]
  fit <- survfit(outcome(data, uses) ~ data$X[[groups]])
  found <- summary(fit, rmean = horizon)$table
  list(
    name = paste(c("mean", dataset, groups, uses, horizon), collapse = "-"), file = "coxph",
    dataset = dataset, uses = I(uses), groups = groups, horizon = horizon,
    mean = flat(found[, "rmean"]), standard_error = flat(found[, "se(rmean)"])
  )
}

# Differences and ratios by another package, whose source is on CRAN.
contrast_case <- function(dataset, groups, horizon) {
  data <- data_of$coxph[[dataset]]
  found <- survRM2::rmst2(data$time, data$event, data$X[[groups]], tau = horizon)
  table <- found$unadjusted.result
  list(
    name = paste("contrast", dataset, horizon, sep = "-"), file = "coxph", dataset = dataset,
    uses = I(character()), groups = groups, horizon = horizon, table = flat(t(table))
  )
}

cases <- list(
  survival_case("ovarian", groups = "treatment"),
  survival_case("ovarian", "weights"),
  survival_case("ovarian", "weights", robust = FALSE),
  survival_case("lung", "strata"),
  survival_case("heart", "start", groups = "transplant"),
  survival_case("heart", c("start", "weights", "subject")),
  survival_case("bladder2", c("start", "subject")),
  survival_case("kidney", c("weights", "subject"), groups = "female"),
  incidence_case("ties"),
  incidence_case("ties", groups = "c"),
  incidence_case("ties", "weights", groups = "c"),
  incidence_case("late"),
  incidence_case("late", "weights", groups = "c"),
  cuminc_case("pbc", "treatment"),
  test_case("ovarian", "treatment", 0),
  test_case("ovarian", "treatment", 1),
  test_case("lung", "ph_karno", 0),
  test_case("lung", "ph_karno", 0.5, "strata"),
  test_case("veteran", "small_cell", 0, "strata"),
  score_case("heart", "surgery", c("start")),
  score_case("heart", "surgery", c("start", "strata")),
  score_case("lung", "ph_karno", "weights"),
  score_case("veteran", "small_cell", c("weights", "strata")),
  score_case("bladder2", "treatment", c("start", "subject")),
  mean_case("ovarian", "treatment", 400),
  mean_case("ovarian", "treatment", 744),
  mean_case("veteran", "small_cell", 100.5),
  mean_case("heart", "surgery", 300, "start"),
  contrast_case("ovarian", "treatment", 400),
  contrast_case("veteran", "small_cell", 250)
)
drop_null <- function(case) case[!vapply(case, is.null, TRUE)]
write_cases(
  list(
    origin = paste0(
      "survival ", packageVersion("survival"), ", cmprsk ", packageVersion("cmprsk"), ", survRM2 ",
      packageVersion("survRM2"), "; ",
      R.version.string, "; written by make_curves.R"
    ),
    subjects = subjects, late = as.list(late), cases = lapply(cases, drop_null)
  ),
  output_path("curves.json")
)
