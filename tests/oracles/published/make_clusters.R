# Writes clusters.json: Cox models with random intercepts by coxme, whose variance maximizes Laplace's
# approximation of the likelihood (`ml`), and by frailty() of survival (`reml`).
#
#   Rscript make_clusters.R [clusters.json]
#
# `rats` are columns of survival's data; `eortc` of coxme's, times to a thousandth. By default coxme
# takes the information of more than 50 clusters as diagonal: `sparse` says that it is not.
library(coxme)
library(survival)
source("common.R")

control <- coxme.control(
  eps = 1e-13, iter.max = 200, toler.chol = 1e-14, sparse = c(1e6, 0),
  optpar = list(method = "BFGS", control = list(reltol = 1e-15))
)

maximum <- function(formula, data, ties) {
  fit <- suppressWarnings(coxme(formula, data, ties = ties, control = control))
  list(
    ties = ties, coefficients = I(unname(fixef(fit))), errors = I(sqrt(diag(as.matrix(vcov(fit))))),
    variance = unname(unlist(VarCorr(fit))), loglik = unname(fit$loglik[2]),
    effects = I(unname(ranef(fit)[[1]][1:3]))
  )
}

restricted <- function(formula, data) {
  fit <- coxph(formula, data, ties = "efron", control = coxph.control(1e-11, outer.max = 200))
  list(
    coefficients = I(unname(coef(fit))[1]), errors = I(sqrt(fit$var[cbind(1, 1)])),
    variance = unname(fit$history[[1]]$theta)
  )
}

eortc$y <- round(eortc$y, 3)
result <- list(
  versions = list(
    coxme = as.character(packageVersion("coxme")), survival = as.character(packageVersion("survival"))
  ),
  rats = list(
    columns = list(time = rats$time, event = rats$status, x = rats$rx, cluster = rats$litter),
    ml = lapply(c("breslow", "efron"), function(ties) {
      maximum(Surv(time, status) ~ rx + (1 | litter), rats, ties)
    }),
    reml = restricted(
      Surv(time, status) ~ rx + frailty(litter, distribution = "gauss", sparse = FALSE, eps = 1e-10),
      rats
    )
  ),
  eortc = list(
    columns = list(time = eortc$y, event = eortc$uncens, x = eortc$trt, cluster = eortc$center),
    ml = list(maximum(Surv(y, uncens) ~ trt + (1 | center), eortc, "efron")),
    reml = restricted(
      Surv(y, uncens) ~ trt + frailty(center, distribution = "gauss", sparse = FALSE, eps = 1e-10),
      eortc
    )
  )
)
write_cases(result, output_path("clusters.json"))
