"""Fine and Gray's: risk sets with rows that stay beyond their exit."""
