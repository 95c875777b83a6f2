"""Scores, curves and errors as pages to look at: one HTML file each, without a network."""
