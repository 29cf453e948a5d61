"""What likelihoods have in common at their coefficients: information, its slope, and scores."""
