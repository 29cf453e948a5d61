# What docs/coming_from/sksurvgpu.R promises, beside R's own coxph; ends with an error where it fails.
source(commandArgs(trailingOnly = TRUE)[1])
library(Matrix)
library(survival)

near <- function(found, expected, by = 1e-5) {
  stopifnot(max(abs(as.matrix(found) - as.matrix(expected))) < by)
}
refuses <- function(call, text) {
  message <- tryCatch({ call; "" }, error = conditionMessage)
  if (!grepl(text, message, fixed = TRUE)) stop("said ", message)
}

n <- 300
i <- seq_len(n)
X <- sparseMatrix(i, 1 + (i * 7) %% 4, x = 1, dimnames = list(NULL, c("a", "b", "c", "d")))[, 1:3]
time <- 1 + (i * 37) %% 101 + i / 1000
start <- time * ((i * 13) %% 5) / 10
status <- (i * 29) %% 3 > 0
dense <- as.matrix(X)

y <- outcome(Surv(time, status))
Z <- covariates(X)
fit <- sk$CoxLassoCCD(alpha = 0, tol = 1e-12)$fit(Z, y)
expected <- coxph(Surv(time, status) ~ dense, ties = "breslow")
stopifnot(identical(names(coef(fit)), c("a", "b", "c")))
near(coef(fit), coef(expected))
wald <- sk$wald(fit, Z, y)
near(confint(wald), confint(expected))
near(confint(wald, "b"), confint(expected)["denseb", , drop = FALSE])
stopifnot(is.data.frame(summary(wald)), is.data.frame(summary(fit)))
near(predict(fit, X), dense %*% coef(expected))
risk <- predict(fit, X[1:3, ], times = c(20, 60))
stopifnot(is.data.frame(risk), identical(dim(risk), c(3L, 2L)))

late <- sk$CoxLassoCCD(alpha = 0, tol = 1e-12)$fit(Z, outcome(Surv(start, time, status)))
near(coef(late), coef(coxph(Surv(start, time, status) ~ dense, ties = "breslow")))
table <- data.frame(age = (i * 11) %% 17, b = dense[, "b"])
near(
  coef(sk$CoxLassoCCD(alpha = 0, tol = 1e-12)$fit(covariates(table), y)),
  coef(coxph(Surv(time, status) ~ age + b, table, ties = "breslow"))
)

kind <- factor(ifelse(status, ifelse(i %% 5 < 3, "relapse", "death"), "none"))
kind <- relevel(kind, "none")
causes <- sk$CauseSpecificCox(sk$CoxLassoCCD(alpha = 0, tol = 1e-12))
causes <- causes$fit(Z, outcome(Surv(time, kind)))
stopifnot(identical(unlist(causes$events_), c("death", "relapse")))
near(
  causes$estimators_[["relapse"]]$coef_,
  coef(coxph(Surv(time, kind == "relapse") ~ dense, ties = "breslow"))
)

refuses(outcome(Surv(time, time + 1, type = "interval2")), "right-censored outcomes are taken")
refuses(outcome(time), "no outcome of survival's Surv()")
refuses(covariates(matrix(1, 3, 2, dimnames = list(NULL, c("a", "a")))), "several columns named")
