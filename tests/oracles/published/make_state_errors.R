# Writes state_errors.json: standard errors of probabilities of states, by mstate.
#
#   Rscript make_state_errors.R [state_errors.json]
#
# Rows of survival's mgus2 as in make_states.R. `apart` has coefficients by transition, `shared` one of
# age for all; both with naive standard errors. Standard errors of probabilities (times, states) from
# the first state are by the Aalen formula of `msfit` and `probtrans`.
library(mstate)
source("common.R")

ill <- mgus2$pstat == 1
at <- with(mgus2, ifelse(ill & ptime == futime, ptime - 0.1, ptime))
wide <- data.frame(
  id = mgus2$id, age = mgus2$age, male = as.numeric(mgus2$sex == "M"),
  pcm = as.numeric(ill), at = ifelse(ill, at, mgus2$futime), death = mgus2$death,
  end = mgus2$futime
)
wide <- wide[wide$at > 0 & wide$end > 0, ]
graph <- transMat(list(c(2, 3), 3, c()), c("mgus", "pcm", "death"))
rows <- msprep(
  time = c(NA, "at", "end"), status = c(NA, "pcm", "death"), data = wide, trans = graph,
  keep = c("age", "male"), id = "id"
)
rows <- expand.covs(rows, c("age", "male"), append = TRUE)
rows <- rows[rows$Tstop > rows$Tstart, ]
attr(rows, "trans") <- graph

case_of <- function(name, formula, start, times, who) {
  fit <- coxph(
    formula, rows, method = "breslow",
    control = coxph.control(eps = 1e-13, toler.chol = 1e-14, iter.max = 50)
  )
  new <- data.frame(age = who[1], male = who[2], trans = 1:3, strata = 1:3)
  attr(new, "trans") <- graph
  class(new) <- c("msdata", "data.frame")
  new <- expand.covs(new, c("age", "male"), append = TRUE)
  hazards <- msfit(fit, new, vartype = "aalen", trans = graph)
  found <- probtrans(hazards, predt = start, method = "aalen")[[1]]
  found <- found[findInterval(times, found$time), ]
  list(
    name = name, start = start, times = I(times), who = who, coefficients = unname(coef(fit)),
    names = names(coef(fit)), errors = sqrt(diag(vcov(fit))),
    probability = I(unlist(found[paste0("pstate", 1:3)])),
    standard_error = I(unlist(found[paste0("se", 1:3)]))
  )
}

apart <- Surv(Tstart, Tstop, status) ~ age.1 + age.2 + age.3 + male.1 + male.2 + male.3 +
  strata(trans)
shared <- Surv(Tstart, Tstop, status) ~ age + male.1 + male.2 + male.3 + strata(trans)
cases <- list(
  case_of("apart", apart, 0, c(12, 60, 120, 240), c(60, 1)),
  case_of("shared", shared, 0, c(12, 60, 120, 240), c(60, 1))
)
result <- list(
  origin = paste0(
    "mstate ", packageVersion("mstate"), ", survival ", packageVersion("survival"), "; ",
    R.version.string, "; written by make_state_errors.R"
  ),
  cases = cases
)
write_cases(result, output_path("state_errors.json"))
