# monomvn's blasso, without reversible jumps and thinning, columns as they are.
#
# Usage: monomvn_lasso.R PROBLEM_DIR OUT.json SECONDS R DELTA A B
#
# The folder has shape.json, X.bin (column after column) and y.bin.  A short run tells how many
# sweeps fit into the time; a quarter of them is left out of the draws, and of their time.
if (!requireNamespace("monomvn", quietly = TRUE)) {
  cat("monomvn is not installed\n")
  quit(status = 3)
}
suppressMessages(library(monomvn))

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
seconds <- as.numeric(arguments[3])
prior <- as.numeric(arguments[4:7])
shape <- jsonlite::fromJSON(file.path(folder, "shape.json"))
read <- function(name, count) readBin(file.path(folder, name), "double", count)
X <- matrix(read("X.bin", shape$n * shape$p), shape$n)
y <- read("y.bin", shape$n)

sweeps <- function(count) {
  blasso(X, y,
    T = count + 1, thin = 1, RJ = FALSE, rd = prior[1:2], ab = prior[3:4], normalize = FALSE,
    verb = 0
  )
}
cpu <- function(expression) sum(system.time(expression)[c("user.self", "sys.self")])

set.seed(1)
few <- 1
while ((spent <- cpu(sweeps(few))) < 0.2) few <- 4 * few
count <- max(4, ceiling(few * seconds / spent))
spent <- cpu(fit <- sweeps(count))
first <- 1 + ceiling(count / 4)
kept <- (first + 1):(count + 1)
answer <- list(
  seconds = spent * length(kept) / count,
  version = as.character(packageVersion("monomvn")),
  blas = basename(extSoftVersion()[["BLAS"]]),
  draws = cbind(fit$s2, fit$lambda2, rowSums(fit$beta^2))[kept, ]
)
jsonlite::write_json(answer, arguments[2], digits = NA, auto_unbox = TRUE)
