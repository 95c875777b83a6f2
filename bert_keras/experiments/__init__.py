"""Reproduces tables and figures of the paper, from a corpus and task files to a report."""
