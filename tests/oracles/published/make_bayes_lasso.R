# Writes bayes_lasso.json: moments of the posterior of a Bayesian lasso from monomvn's blasso.
#
# Run:  python -c "from sklearn.datasets import load_diabetes as load; d = load(as_frame=True).frame
#       d.to_csv('diabetes.csv', index=False)"
#       Rscript make_bayes_lasso.R [bayes_lasso.json]     (two minutes)
#
# scikit-learn's diabetes data as shipped: columns of mean zero and norm one, y not centred.  The
# file has no data.  Model: y ~ N(mu + X beta, sigma2), flat mu, density 1 / sigma2,
# beta_j ~ N(0, sigma2 tau_j^2), tau_j^2 ~ Exp(rate lambda2 / 2), lambda2 ~ Gamma(1, rate 1.78).
#
# Settings: no reversible jumps, no thinning, and `rao.s2 = FALSE`.  Its default draws sigma2 with
# beta integrated out, but after beta: each beta then belongs to the sigma2 before.  Means of this
# posterior hardly notice, covariances of beta with sigma2 do.
#
# `mean`, `sd` and `covariance` are those of all draws after `tuning` of every chain, each in the
# order of `parameters`; their Monte Carlo standard errors, `mean_error` ..., are from batch means.
suppressMessages(library(monomvn))
library(jsonlite)

n_chains <- 8
n_draws <- 500000
tuning <- 5000
batch <- 5000

data <- as.matrix(read.csv("diabetes.csv"))
X <- data[, colnames(data) != "target"]
y <- data[, "target"]

set.seed(20240111)
draws <- NULL
for (chain in seq_len(n_chains)) {
  fit <- blasso(X, y,
    T = tuning + n_draws, thin = 1, RJ = FALSE, rao.s2 = FALSE, normalize = FALSE,
    lambda2 = 10^runif(1, -3, 1), s2 = var(y) * 10^runif(1, -1, 1), rd = c(1, 1.78), ab = c(0, 0),
    verb = 0
  )
  kept <- -seq_len(tuning)
  draws <- rbind(draws, cbind(fit$beta, fit$mu, fit$s2, fit$lambda2)[kept, ])
  rm(fit)
  gc(verbose = FALSE)
}
colnames(draws) <- c(colnames(X), "intercept", "sigma2", "lambda2")

batch_error <- function(values) {
  means <- colMeans(matrix(values, batch))
  sd(means) / sqrt(length(means))
}
mean <- colMeans(draws)
centred <- sweep(draws, 2, mean)
covariance <- crossprod(centred) / nrow(draws)
sd <- sqrt(diag(covariance))
p <- ncol(draws)
covariance_error <- matrix(0, p, p)
for (i in seq_len(p)) {
  for (j in seq_len(i)) {
    covariance_error[i, j] <- batch_error(centred[, i] * centred[, j])
    covariance_error[j, i] <- covariance_error[i, j]
  }
}
result <- list(
  origin = paste(R.version.string, paste("monomvn", packageVersion("monomvn")), sep = ", "),
  cases = list(list(
    name = "diabetes", source = "blasso(RJ = FALSE, thin = 1, rao.s2 = FALSE)",
    data = "sklearn.datasets.load_diabetes(return_X_y=True)",
    prior = list(r = 1, delta = 1.78, a = 0, b = 0),
    n_chains = n_chains, n_draws = n_draws, tuning = tuning,
    parameters = colnames(draws), mean = unname(mean), sd = unname(sd),
    mean_error = unname(apply(draws, 2, batch_error)),
    sd_error = unname(diag(covariance_error) / (2 * sd)),
    covariance = unname(covariance), covariance_error = covariance_error
  ))
)
path <- commandArgs(trailingOnly = TRUE)[1]
text <- toJSON(result, auto_unbox = TRUE, digits = I(8))
writeLines(text, if (is.na(path)) "bayes_lasso.json" else path)
