"""Reproduces tables of the paper, from a corpus and task files to a report."""
