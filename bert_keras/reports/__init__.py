"""Pages of scores, curves, errors and attention: one file each that needs no network."""
