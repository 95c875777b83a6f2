"""Reports what is in a corpus or in records, and what is wrong with it."""
