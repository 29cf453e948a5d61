"""Patterns: ways of looping over rows, a folder each; `pattern.Pattern` says what one is."""
