# Writes firth.json: fits by Firth's penalized likelihood of the R packages logistf, coxphf, brglm2.
#
# Run:  Rscript make_firth.R [firth.json]
#
# `datasets` are `sex2` of logistf (urinary tract infection of women; no patient who used a diaphragm
# without the disease) and `breast` of coxphf (deaths of breast cancer; none in one group); the others
# are those of coxph.json and glm.json.  Layout of cases as in common.R.  `lower`, `upper` and
# `p_values` are of the penalized profile likelihood, by column of X; `statistics` are twice the
# differences of penalized log-likelihoods: of all columns held at zero, and of those in `held`.
# brglm2 has coefficients only.  Where there is an intercept, it is the last of `coefficients`.
#
# logistf and coxphf were built without what their fits do not need (mice, mgcv, formula.tools;
# generics, tibble).
library(logistf)
library(coxphf)
library(brglm2)
library(survival)
source("common.R")

read <- function(name) fromJSON(paste0(name, ".json"))$datasets
cox <- read("coxph")
glms <- read("glm")
data(sex2)
data(breast)
datasets <- list(
  sex2 = list(X = as.list(sex2[-1]), y = sex2$case),
  breast = list(X = as.list(breast[1:4]), time = breast$TIME, event = breast$CENS)
)

named <- function(X) as.data.frame(X)

logistf_case <- function(name, data, uses = character(), held) {
  frame <- cbind(named(data$X), y = data$y)
  w <- if ("weights" %in% uses) data$weights else rep(1, nrow(frame))
  strict <- logistf.control(
    maxit = 500, maxstep = 1, maxhs = 50, lconv = 1e-12, gconv = 1e-9, xconv = 1e-10,
    collapse = FALSE
  )
  profile <- logistpl.control(maxit = 2000, maxstep = 5, maxhs = 0, lconv = 1e-7, xconv = 1e-7)
  columns <- names(data$X)
  fit <- logistf(
    reformulate(columns, "y"),
    data = frame, weights = w, control = strict, plcontrol = profile
  )
  part <- logistftest(fit, test = as.formula(paste("~", paste(held, collapse = "+"), "- 1")))
  all_columns <- logistftest(fit)
  twice <- function(test) 2 * unname(test$loglik[1] - test$loglik[2])
  case(
    paste("logistf", name, paste(uses, collapse = " ")), "logistic", "logistf", name,
    c(coef(fit)[-1], coef(fit)[1]),
    uses = uses,
    lower = I(unname(fit$ci.lower[-1])), upper = I(unname(fit$ci.upper[-1])),
    p_values = I(unname(fit$prob[-1])), held = I(match(held, columns) - 1),
    statistics = I(c(twice(all_columns), twice(part)))
  )
}

coxphf_case <- function(name, data, uses = character(), held, profile = TRUE) {
  frame <- named(data$X)
  frame$stop <- data$time
  frame$event <- data$event
  frame$start <- if ("start" %in% uses) data$start else 0
  columns <- names(data$X)
  formula <- reformulate(columns, quote(Surv(start, stop, event)))
  strict <- list(maxit = 500, maxhs = 50, epsilon = 1e-9, maxstep = 0.5)
  fit <- do.call(coxphf, c(list(formula, data = frame, pl = profile, gconv = 1e-9), strict))
  ratio <- function(held) {
    test <- as.formula(paste("~", paste(held, collapse = "+")))
    2 * abs(diff(do.call(coxphftest, c(list(formula, data = frame, test = test), strict))$loglik))
  }
  p_values <- pchisq(vapply(columns, ratio, 0), 1, lower.tail = FALSE)
  case(
    paste("coxphf", name), "cox", "coxphf", name, fit$coefficients,
    uses = uses, options = list(ties = "breslow"),
    lower = if (profile) I(unname(log(fit$ci.lower))),
    upper = if (profile) I(unname(log(fit$ci.upper))),
    p_values = I(unname(p_values)), held = I(match(held, columns) - 1),
    statistics = I(c(2 * diff(fit$loglik), ratio(held)))
  )
}

brglm2_case <- function(name, data, model, uses = character()) {
  frame <- cbind(named(data$X), y = data$y)
  frame$own <- if ("offset" %in% uses) data$offset else 0
  frame$w <- if ("weights" %in% uses) data$weights else 1
  fit <- glm(
    reformulate(c(names(data$X), "offset(own)"), "y"),
    data = frame, weights = w, family = if (model == "poisson") poisson() else binomial(),
    method = "brglmFit", type = "MPL_Jeffreys", epsilon = 1e-12, maxit = 10000
  )
  case(
    paste("brglm2", name, paste(uses, collapse = " ")), model, "brglmFit", name,
    c(coef(fit)[-1], coef(fit)[1]),
    uses = uses
  )
}

suppressWarnings(cases <- list(
  logistf_case("sex2", datasets$sex2, held = c("vic", "vicl")),
  logistf_case("birthwt", glms$birthwt, held = c("black", "other")),
  logistf_case("birthwt", glms$birthwt, "weights", held = c("black", "other")),
  coxphf_case("breast", datasets$breast, held = c("G", "CD")),
  coxphf_case("ovarian", cox$ovarian, held = c("treatment", "ecog")),
  coxphf_case("heart", cox$heart, "start", held = c("year", "surgery"), profile = FALSE),
  brglm2_case("birthwt", glms$birthwt, "logistic", "offset"),
  brglm2_case("quine", glms$quine, "poisson", c("weights", "offset"))
))
version <- function(name) paste(name, packageVersion(name))
write_cases(
  list(
    origin = paste0(
      paste(version("logistf"), version("coxphf"), version("brglm2"), sep = ", "), "; ",
      R.version.string, "; written by make_firth.R"
    ),
    datasets = datasets, cases = cases
  ),
  output_path("firth.json")
)
