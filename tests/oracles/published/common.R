# What make_competing.R, make_conditional.R and make_glm.R share: data made by hand, and JSON that
# brings every double back unchanged.
#
# Layout of all three files: `datasets` holds every data set once (columns of X by name, outcome,
# labels, weights, offset; null where there is none).  A case names its `model`, its `dataset`, in
# `uses` the optional columns that take part, in `options` what else defines the likelihood, and in
# `source` the function that found the optimum.  Everything is on the sum scale:
#
#   objective = -loglik + lam * sum_j penalty_factor_j * (l1_ratio |b_j| + (1 - l1_ratio) / 2 b_j^2)
#
# `agreement` is the largest difference of another package's coefficients, by package.  certify.py
# then adds to every case what the slow references make of it: `kkt`, the largest violation of the
# optimality conditions, and `coef_error`, the error of the coefficients to which it amounts.
library(jsonlite)

# Complete cases only, factors coded to 0/1 by hand, so that nothing depends on R's contrasts.
complete <- function(frame, names) frame[stats::complete.cases(frame[names]), ]

# Multiples of 1/8 and 1/16: not integers, yet exact in decimal and in binary.
made_weights <- function(n) 0.5 + (7 * seq_len(n)) %% 13 / 8
made_offset <- function(n) (5 * seq_len(n)) %% 11 / 16 - 0.25
to_64th <- function(x) round(64 * x) / 64

design <- function(data) do.call(cbind, data$X)

# One case; what is NULL is left out.
case <- function(name, model, source, dataset, coefficients, uses = character(), options = list(),
                 lam = 0, l1_ratio = 1, penalty_factor = NULL, loglik = NULL, ...) {
  more <- list(...)
  penalized <- lam > 0
  c(
    list(
      name = name, model = model, source = source, dataset = dataset, uses = I(uses),
      options = if (length(options)) options else setNames(list(), character()), lam = lam
    ),
    if (penalized) list(l1_ratio = l1_ratio),
    if (!is.null(penalty_factor)) list(penalty_factor = I(penalty_factor)),
    list(coefficients = I(unname(coefficients))),
    if (!is.null(loglik)) list(loglik = loglik),
    more[!vapply(more, is.null, TRUE)]
  )
}

difference <- function(a, b) max(abs(unname(a) - unname(b)))

# jsonlite stops at 15 digits, which does not bring every double back unchanged; 17 do.
exact <- function(value) {
  if (!is.double(value)) return(value)
  short <- sprintf("%.15g", value)
  text <- ifelse(as.numeric(short) == value, short, sprintf("%.17g", value))
  text[is.na(value)] <- "null"
  is_array <- length(value) != 1 || inherits(value, "AsIs")
  if (is_array) text <- paste0("[", paste(text, collapse = ","), "]")
  structure(text, class = "json")
}

write_cases <- function(result, path) {
  text <- toJSON(
    rapply(result, exact, classes = c("numeric", "AsIs"), how = "replace"),
    auto_unbox = TRUE, null = "null", json_verbatim = TRUE
  )
  # One case a line, for readable diffs.
  writeLines(gsub('},{"name"', '},\n{"name"', text, fixed = TRUE), path)
}

output_path <- function(otherwise) {
  arguments <- commandArgs(trailingOnly = TRUE)
  if (length(arguments)) arguments[1] else otherwise
}

# Cyclops.  A laplace prior of variance 2 / lam^2 is the lasso of lam, a normal one of variance
# 1 / lam the ridge; `free` columns have no prior.  Its gradient criterion is the one that gets
# close to the optimum.
solve_cyclops <- function(data, lam = 0, prior = "laplace", free = c()) {
  variance <- if (prior == "laplace") 2 / lam^2 else 1 / lam
  Cyclops::fitCyclopsModel(
    data,
    prior = if (lam == 0) {
      Cyclops::createPrior("none")
    } else {
      Cyclops::createPrior(prior, variance = variance, exclude = free)
    },
    control = Cyclops::createControl(
      tolerance = 1e-15, maxIterations = 1e6, convergenceType = "gradient", noiseLevel = "silent"
    ),
    warnings = FALSE
  )
}

# By its table interface, without an intercept of its own.  Its Poisson models crash without a time
# (the exposure).
fit_cyclops <- function(X, y, model, lam = 0, prior = "laplace", group = NULL, time = NULL,
                        free = c()) {
  n <- nrow(X)
  outcomes <- data.frame(rowId = seq_len(n), y = y)
  outcomes$stratumId <- group
  outcomes$time <- time
  covariates <- data.frame(
    rowId = rep(seq_len(n), ncol(X)), covariateId = rep(seq_len(ncol(X)), each = n),
    covariateValue = as.vector(X)
  )
  if (!is.null(group)) covariates$stratumId <- rep(group, ncol(X))
  order_of <- function(table) do.call(order, unname(as.list(table)))
  outcomes <- outcomes[order_of(outcomes[c(if (!is.null(group)) "stratumId", "rowId")]), ]
  keys <- c("covariateId", if (!is.null(group)) "stratumId", "rowId")
  covariates <- covariates[order_of(covariates[keys]), ]
  covariates <- covariates[covariates$covariateValue != 0, ]
  data <- Cyclops::convertToCyclopsData(
    outcomes, covariates,
    modelType = model, addIntercept = FALSE, checkRowIds = FALSE, quiet = TRUE
  )
  fit <- solve_cyclops(data, lam, prior, free)
  stats::coef(fit)[as.character(seq_len(ncol(X)))]
}
