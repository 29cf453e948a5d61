"""Figures, drawn with matplotlib by classes that follow scikit-learn's Display convention.

A class method ``from_...`` takes a result, computes what is shown and draws it; ``plot`` draws it
again, elsewhere or otherwise. What was drawn is kept in attributes: ``ax_``, ``figure_``, and the
artists of the class.
"""
