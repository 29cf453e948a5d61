# Writes screen.json: tests of one column at a time by R, of survival's data sets lung and heart.
#
# Run in this folder: Rscript make_screen.R [screen.json]
#
# `correlation`: cor.test of each column of lung's complete cases with the time. `log_rank`: the
# statistics of survdiff for an indicator, with ties, plain and within institutions. `score`:
# coxph's score tests where times are made distinct (time + row / 1024), with ties = "breslow"; of
# lung plain and within institutions, of heart with its entry times.
library(survival)
library(jsonlite)

numbers <- function(x) I(signif(as.vector(x), 15))
names_lung <- c("age", "sex", "ph.ecog", "ph.karno", "pat.karno", "meal.cal", "wt.loss")
lung <- lung[complete.cases(lung[c("inst", "time", "status", names_lung)]), ]
lung$sex <- lung$sex - 1
X <- as.matrix(lung[names_lung])

correlations <- apply(X, 2, function(x) {
  found <- cor.test(x, lung$time)
  c(found$estimate, found$statistic, found$p.value)
})
test <- function(formula) {
  found <- survdiff(formula, lung)
  observed <- if (is.matrix(found$obs)) rowSums(found$obs) else found$obs
  expected <- if (is.matrix(found$exp)) rowSums(found$exp) else found$exp
  list(
    chisq = signif(found$chisq, 15), excess = signif(observed[2] - expected[2], 15),
    variance = signif(found$var[2, 2], 15)
  )
}
score <- function(y, X, stratum = NULL) {
  numbers(apply(X, 2, function(x) {
    control <- coxph.control(iter.max = 1)
    fit <- suppressWarnings(if (is.null(stratum)) {
      coxph(y ~ x, ties = "breslow", control = control)
    } else {
      coxph(y ~ x + strata(stratum), ties = "breslow", control = control)
    })
    fit$score
  }))
}

heart_X <- with(heart, cbind(age = age, year = year, surgery = surgery, transplant = transplant == 1))
distinct <- seq_len(nrow(lung)) / 1024
heart_stop <- heart$stop + seq_len(nrow(heart)) / 1024
columns <- function(X) lapply(asplit(X, 2), function(x) I(as.vector(x)))
written <- list(
  versions = list(R = R.version.string, survival = as.character(packageVersion("survival"))),
  lung = list(
    X = columns(X), time = I(lung$time), event = I(lung$status == 2), stratum = I(lung$inst)
  ),
  heart = list(
    X = columns(heart_X), start = I(heart$start), time = I(heart_stop), event = I(heart$event == 1)
  ),
  correlation = list(
    r = numbers(correlations[1, ]), t = numbers(correlations[2, ]), p = numbers(correlations[3, ])
  ),
  log_rank = list(
    plain = test(Surv(time, status) ~ sex),
    strata = test(Surv(time, status) ~ sex + strata(inst))
  ),
  score = list(
    plain = score(Surv(lung$time + distinct, lung$status), X),
    strata = score(Surv(lung$time + distinct, lung$status), X, lung$inst),
    entry = score(Surv(heart$start, heart_stop, heart$event), heart_X)
  )
)
arguments <- commandArgs(trailingOnly = TRUE)
path <- if (length(arguments)) arguments[1] else "screen.json"
writeLines(toJSON(written, auto_unbox = TRUE, digits = NA, na = "null"), path)
