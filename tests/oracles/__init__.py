"""What the answers are: slow references, and optima published by other software."""
