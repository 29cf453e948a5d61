"""Long tables, one line a row and covariate, become columns."""
