"""Reports of scores, curves, errors and attention, each in one file that needs no network."""
