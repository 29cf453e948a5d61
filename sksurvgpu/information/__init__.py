"""Information, its slope and scores of a likelihood at coefficients, whatever the model."""
