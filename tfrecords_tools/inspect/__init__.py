"""A corpus or records in; what is in them, and what is wrong, out."""
