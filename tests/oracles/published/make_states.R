# Writes states.json: multi-state models of R's survival.
#
#   Rscript make_states.R [states.json]
#
# `mgus2` are the columns of survival's data; persons with a malignancy in the month of their death or
# of the end of follow-up have it 0.1 months before, as in its vignettes. `cycle` is made here: persons
# move between three states, and many do so at the same times. A case has the coefficients by transition,
# and probabilities of states (times, rows of `newdata`, states) at `times`, from the state `from` at
# `start`; `sojourn` are expected times in states until `horizon`. `ebmt3` are columns of mstate's data:
# recovery of platelets (half a day before relapse or death on the same day), then relapse or death.
# `pbc` is of survival: a transplant or death, whichever is first. `prostate` are the patients of Byar and
# Green (1980) as cifmodeling (MIT licence) has them: deaths of the cancer, of heart and vessels, or others,
# in whole months, to which half a month is added as some are 0.
library(survival)
source("common.R")

illness_death <- function(data) {
  ill <- data$pstat == 1
  at <- with(data, ifelse(ill & ptime == futime, ptime - 0.1, ptime))
  end <- ifelse(ill, at, data$futime)
  first <- data.frame(
    id = data$id, age = data$age, male = as.numeric(data$sex == "M"), start = 0, time = end,
    state = "mgus", event = ifelse(ill, "pcm", ifelse(data$death == 1, "death", "none"))
  )
  second <- transform(
    first, start = at, time = data$futime, state = "pcm",
    event = ifelse(data$death == 1, "death", "none")
  )[ill, ]
  rows <- rbind(first, second)
  rows$state <- factor(rows$state)
  rows$event <- factor(rows$event, c("none", "pcm", "death"))
  rows[rows$time > rows$start, ]
}

made <- function() {
  rows <- NULL
  states <- c("a", "b", "c")
  for (id in 1:150) {
    now <- (id * 7) %% 3
    here <- 1 + (id * 5) %% 2
    for (k in 1:4) {
      until <- now + 1 + (id * 31 + k * 17) %% 6
      to <- 1 + (here + (id * 13 + k * 29) %% 7 %% 2) %% 3
      stops <- (id + k * 3) %% 7 == 0
      rows <- rbind(rows, data.frame(
        id = id, x = (id * 37 %% 101) %% 10 / 10, site = id %% 2, start = now, time = until,
        state = states[here], event = if (stops) "none" else states[to]
      ))
      if (stops || states[to] == "c" && id %% 3 == 0) break
      now <- until
      here <- to
    }
  }
  rows$state <- factor(rows$state, states)
  rows$event <- factor(rows$event, c("none", states))
  rows
}

# Probabilities at times, of each stratum in turn; summary() of survival 3.5 fails with strata.
at_times <- function(curve, times) {
  sizes <- if (is.null(curve$strata)) length(curve$time) else curve$strata
  own <- split(seq_along(curve$time), rep(seq_along(sizes), sizes))
  rows <- unlist(lapply(own, function(rows) rows[findInterval(times, curve$time[rows])]))
  curve$pstate[rows, , , drop = FALSE]
}

case_of <- function(name, formula, rows, newdata, from, start, times, horizon = NULL) {
  fit <- coxph(
    formula, rows, id = id, istate = state, ties = "breslow", model = TRUE,
    control = coxph.control(eps = 1e-13, toler.chol = 1e-14, iter.max = 50)
  )
  p0 <- as.numeric(fit$states == from)
  curve <- survfit(fit, newdata = newdata, p0 = p0, start.time = start, se.fit = FALSE)
  found <- at_times(curve, times)
  list(
    name = name, states = fit$states, coefficients = unname(coef(fit)), names = names(coef(fit)),
    newdata = as.list(newdata), from = from, start = start, times = I(times),
    shape = I(dim(found)), probability = I(as.vector(found)), horizon = horizon,
    sojourn = if (!is.null(horizon)) I(as.vector(summary(curve, rmean = horizon)$table[, "rmean"]))
  )
}

transplants <- function(data) {
  at <- with(data, prtime - 0.5 * (prtime == rfstime))
  recovers <- data$prstat == 1
  fails <- ifelse(data$rfsstat == 1, "failed", "none")
  first <- transform(
    data[c("old", "tcd", "aml")], id = seq_len(nrow(data)), start = 0,
    time = ifelse(recovers, at, data$rfstime), state = "transplanted",
    event = ifelse(recovers, "recovered", fails)
  )
  second <- transform(
    first, start = at, time = data$rfstime, state = "recovered", event = fails
  )[recovers, ]
  rows <- rbind(first, second)
  rows$state <- factor(rows$state)
  rows$event <- factor(rows$event, c("none", "recovered", "failed"))
  rows
}

of_livers <- function() {
  data <- complete(pbc, c("age", "edema", "bili", "albumin", "protime"))
  kinds <- c("none", "transplant", "death")
  data.frame(
    id = data$id, age = data$age, edema = data$edema, bili = data$bili, albumin = data$albumin,
    protime = data$protime, start = 0, time = data$time, state = factor("ill"),
    event = factor(kinds[data$status + 1], kinds)
  )
}

of_prostates <- function() {
  data(prostate, package = "cifmodeling", envir = environment())
  columns <- c("age", "wt", "hx", "hg", "sz", "sg", "bm")
  data <- complete(as.data.frame(lapply(prostate, unclass)), columns)
  data$hg <- round(data$hg, 1) # 13.7988 is 13.8, as it was written
  causes <- c("none", "cancer", "vascular", "vascular", "vascular", rep("other", 5))
  data.frame(
    id = data$patno, high = as.integer(data$rx > 2), lapply(data[columns], as.numeric), start = 0,
    time = data$dtime + 0.5, state = factor("ill"),
    event = factor(causes[data$status], unique(causes))
  )
}

plain <- function(rows) {
  lapply(rows, function(column) if (is.factor(column)) as.character(column) else column)
}

rows <- illness_death(mgus2)
who <- data.frame(age = c(60, 80), male = c(1, 0))
model <- Surv(start, time, event) ~ age + male
cycle <- made()
values <- data.frame(x = c(0.2, 0.9))
data(ebmt3, package = "mstate")
ebmt <- with(ebmt3, data.frame(
  prtime = prtime, prstat = prstat, rfstime = rfstime, rfsstat = rfsstat,
  old = as.integer(age == ">40"), tcd = as.integer(tcd == "TCD"), aml = as.integer(dissub == "AML")
))
ebmt3 <- transplants(ebmt)
patient <- data.frame(old = c(0, 1), tcd = c(1, 0), aml = c(1, 0))
pbc_rows <- of_livers()
livers <- data.frame(
  age = c(40, 60), edema = c(0, 1), bili = c(1, 5), albumin = c(3.9, 3), protime = 10.5
)
prostate_rows <- of_prostates()
men <- data.frame(
  high = c(0, 1), age = c(65, 80), wt = c(100, 85), hx = c(0, 1), hg = c(14, 11), sz = c(8, 30),
  sg = c(9, 13), bm = c(0, 1)
)
cases <- list(
  case_of("mgus2", model, rows, who, "mgus", 0, c(12, 60, 120, 240), 240),
  case_of("landmark", model, rows, who, "mgus", 60, c(72, 120, 240)),
  case_of("ill", model, rows, who, "pcm", 24, c(36, 60, 120)),
  case_of("cycle", Surv(start, time, event) ~ x, cycle, values, "b", 0, c(3, 6, 9, 15)),
  case_of("strata", Surv(start, time, event) ~ x + strata(site), cycle, values, "a", 0, 9),
  case_of(
    "ebmt3", Surv(start, time, event) ~ old + tcd + aml, ebmt3, patient, "transplanted", 0,
    c(20, 100, 1000, 2500), 2500
  ),
  case_of(
    "ebmt3 landmark", Surv(start, time, event) ~ old + tcd + aml, ebmt3, patient, "recovered", 100,
    c(200, 1000, 2500)
  ),
  case_of(
    "pbc", Surv(start, time, event) ~ age + edema + bili + albumin + protime, pbc_rows, livers,
    "ill", 0, c(365, 1500, 4000), 4000
  ),
  case_of(
    "prostate", Surv(start, time, event) ~ high + age + wt + hx + hg + sz + sg + bm, prostate_rows,
    men, "ill", 0, c(0.5, 6, 24, 60), 60
  )
)
result <- list(
  origin = paste0(
    "survival ", packageVersion("survival"), ", data of mstate ", packageVersion("mstate"),
    " and cifmodeling ", packageVersion("cifmodeling"), "; ", R.version.string,
    "; written by make_states.R"
  ),
  mgus2 = with(mgus2, list(
    age = age, male = as.integer(sex == "M"), ptime = ptime, pstat = pstat, futime = futime,
    death = death
  )),
  cycle = plain(cycle), ebmt3 = as.list(ebmt), pbc = plain(pbc_rows), prostate = plain(prostate_rows),
  cases = cases
)
write_cases(result, output_path("states.json"))
