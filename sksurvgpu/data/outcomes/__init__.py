"""Outcomes of all models: what users build, and what a fit reads from it."""
