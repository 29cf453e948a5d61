# Rows at risk as R's survival makes them: tmerge and survSplit on data that the package ships.
#
#   Rscript make_episodes.R episodes.json
#
# `persons` and `lines` are what goes in, `rows` what comes out, all by column. Values before the
# first line of a covariate, which tmerge leaves missing, are 0 here.
library(survival)
library(jsonlite)

zero <- function(x) ifelse(is.na(x), 0, x)

# Stanford heart transplants, the vignette's ties included.
days <- function(later) as.numeric(later - jasa$accept.dt)
heart <- data.frame(
  id = seq_len(nrow(jasa)), time = pmax(0.5, days(jasa$fu.date)), event = jasa$fustat,
  transplant = days(jasa$tx.date) - ifelse(jasa$tx.date == jasa$fu.date, 0.5, 0)
)
merged <- tmerge(heart[1:3], heart, id = id, death = event(time, event), transplant = tdc(transplant))
given <- subset(heart, !is.na(transplant))
jasa_case <- list(
  coef = data.frame(
    transplant = unname(coef(coxph(Surv(tstart, tstop, death) ~ transplant, merged)))
  ),
  persons = heart[1:3],
  lines = data.frame(id = given$id, covariate_id = "transplant", start = given$transplant, value = 1),
  rows = with(merged, data.frame(
    id = id, start = tstart, time = tstop, event = death, transplant = transplant
  ))
)

# Laboratory values of primary biliary cirrhosis; visits before, at and after the end of follow-up.
persons <- subset(pbc, id <= 120, c(id, time, status))
labs <- c("bili", "albumin", "ascites")
visits <- subset(pbcseq, id <= 120, c("id", "day", labs))
merged <- tmerge(persons, persons, id = id, death = event(time, as.numeric(status == 2)))
merged <- tmerge(
  merged, visits, id = id, bili = tdc(day, bili), albumin = tdc(day, albumin),
  ascites = tdc(day, ascites)
)
long <- do.call(rbind, lapply(labs, function(lab) data.frame(
  id = visits$id, covariate_id = lab, start = visits$day, value = visits[[lab]]
)))
pbc_case <- list(
  persons = with(persons, data.frame(id = id, time = time, event = as.numeric(status == 2))),
  lines = subset(long, !is.na(value)),
  rows = with(merged, data.frame(
    id = id, start = tstart, time = tstop, event = death, bili = zero(bili),
    albumin = zero(albumin), ascites = zero(ascites)
  ))
)

# Recurrent infections, and how many there were before.
merged <- tmerge(
  aggregate(tstop ~ id, cgd, max), aggregate(tstop ~ id, cgd, max), id = id, tstop = tstop
)
infections <- subset(cgd, status == 1, c(id, tstop))
names(infections)[2] <- "when"
merged <- tmerge(merged, infections, id = id, infect = event(when), before = cumtdc(when))
cgd_case <- list(
  persons = with(cgd, data.frame(id = id, start = tstart, time = tstop, event = status)),
  lines = with(infections, data.frame(id = id, covariate_id = "before", start = when, value = 1)),
  rows = with(merged, data.frame(
    id = id, start = tstart, time = tstop, event = infect, before = zero(before)
  ))
)

# Cut at two times.
veteran$id <- seq_len(nrow(veteran))
split <- survSplit(Surv(time, status) ~ id, veteran, cut = c(60, 120), episode = "group")
veteran_case <- list(
  persons = with(veteran, data.frame(id = id, time = time, event = status)),
  rows = with(split, data.frame(id = id, start = tstart, time = time, event = status))
)

cases <- list(jasa = jasa_case, pbc = pbc_case, cgd = cgd_case, veteran = veteran_case)
result <- list(
  r = R.version.string, survival = as.character(packageVersion("survival")), cases = cases
)
path <- commandArgs(trailingOnly = TRUE)[1]
write(toJSON(result, dataframe = "columns", auto_unbox = TRUE, digits = NA), path)
