# What the R peer drivers share: reading a problem (raw little-endian files, so that R needs no .npy
# reader), a tiny one to warm up on, and the result file.  The objective is -loglik + penalty *
# sum|b|, with an unpenalized intercept where `intercept`.

SKIPPED <- 3 # exit code: this peer cannot run here or cannot solve this problem

skip <- function(message) {
  cat(message, "\n")
  quit(status = SKIPPED)
}

require_peer <- function(package) {
  if (!requireNamespace(package, quietly = TRUE)) skip(paste(package, "is not installed"))
}

read_problem <- function(directory) {
  raw <- function(name, what) {
    path <- file.path(directory, paste0(name, ".bin"))
    if (!file.exists(path)) return(NULL)
    size <- if (what == "integer") 4 else 8
    readBin(path, what, n = file.size(path) / size, size = size, endian = "little")
  }
  shape <- jsonlite::read_json(file.path(directory, "shape.json"))
  row <- raw("X_indices", "integer") + 1L
  pointer <- raw("X_indptr", "integer")
  list(
    model = shape$model, intercept = shape$intercept, ties = shape$ties,
    n = shape$n, p = shape$p, penalty = shape$lambda, tolerance = shape$tol,
    path = as.numeric(shape$path), # empty where there is one penalty
    row = row, column = rep(seq_len(shape$p), diff(pointer)), pointer = pointer,
    value = raw("X_data", "double"), # null where all are ones
    time = raw("time", "double"), event = raw("event", "integer"),
    stratum = raw("stratum", "integer"), # null where there are none
    y = raw("y", "double"), exposure = raw("exposure", "double"), group = raw("group", "integer")
  )
}

tiny_problem <- function(like) {
  set.seed(1)
  ones <- matrix(stats::runif(300) < 0.4, 60, 5)
  where <- which(ones, arr.ind = TRUE)
  labels <- rep(1:5, each = 12)
  list(
    model = like$model, intercept = like$intercept, ties = like$ties,
    n = 60, p = 5, penalty = min(like$penalty, 0.1), tolerance = 1e-6,
    path = if (length(like$path)) c(0.2, 0.1) else numeric(0),
    row = where[, 1], column = where[, 2], pointer = c(0L, cumsum(colSums(ones))), value = NULL,
    time = stats::rexp(60), stratum = NULL,
    event = sample(if (like$model == "fine-gray") 0:2 else 0:1, 60, replace = TRUE),
    # one case a group, which every form of the conditional likelihood understands
    y = as.numeric(if (is.null(like$group)) stats::runif(60) < 0.4 else rep(c(1, rep(0, 11)), 5)),
    exposure = if (is.null(like$exposure)) NULL else stats::runif(60, 0.5, 2),
    group = if (is.null(like$group)) NULL else labels
  )
}

sparse_matrix <- function(problem) {
  value <- if (is.null(problem$value)) rep(1, length(problem$row)) else problem$value
  Matrix::sparseMatrix(
    i = problem$row, p = problem$pointer, x = value, dims = c(problem$n, problem$p)
  )
}

# High-water mark of this process's memory; R has no getrusage.
peak_memory_mb <- function() {
  line <- grep("^VmHWM:", readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

penalties <- function(problem) if (length(problem$path)) problem$path else problem$penalty

# Numbers of one penalty; of many (columns), the nonzeros by penalties.
packed <- function(coef) {
  if (is.null(dim(coef)) || ncol(coef) == 1) return(I(as.numeric(coef)))
  columns <- methods::as(methods::as(coef, "generalMatrix"), "CsparseMatrix")
  list(indptr = I(columns@p), indices = I(columns@i), data = I(columns@x))
}

# Entry point of a driver: `prepare(problem)` converts (not timed), `fit(problem, prepared)` is
# timed and returns list(coef, note, n_iter) and perhaps intercept; what an iteration is differs
# between solvers. A path has a column of coefficients for every penalty.
timed_run <- function(name, package, prepare, fit, with_paths = FALSE) {
  arguments <- commandArgs(trailingOnly = TRUE)
  problem <- read_problem(arguments[1])
  if (length(problem$path) && !with_paths) skip("no path in this peer, or in its driver")
  tiny <- tiny_problem(problem)
  fit(tiny, prepare(tiny))
  prepared <- prepare(problem)
  gc() # garbage of the preparation is not the fit's
  took <- system.time(result <- fit(problem, prepared), gcFirst = FALSE)
  jsonlite::write_json(
    list(
      name = name, version = as.character(utils::packageVersion(package)),
      seconds = took[["elapsed"]], cpu_seconds = took[["user.self"]] + took[["sys.self"]],
      runtime = R.version.string, coef = packed(result$coef),
      intercept = if (is.null(result$intercept)) 0 else utils::tail(result$intercept, 1),
      n_iter = result$n_iter,
      peak_rss_mb = peak_memory_mb(), note = result$note
    ),
    arguments[2],
    digits = I(15), auto_unbox = TRUE
  )
}

# An argument of the driver after the two files; `otherwise` where it is not given.
driver_argument <- function(k, otherwise = NULL) {
  arguments <- commandArgs(trailingOnly = TRUE)
  if (length(arguments) < k + 2) otherwise else arguments[k + 2]
}
