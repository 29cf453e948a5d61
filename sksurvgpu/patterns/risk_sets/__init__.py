"""Cox's partial likelihood, and what is like it: rows at risk between two times."""
