"""Where pickles of version 0.2 look for long tables."""
