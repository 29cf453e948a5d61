"""Fits over sites that give out sums and never rows."""
