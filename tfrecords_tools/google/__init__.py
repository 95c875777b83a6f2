"""The records of the original writer, google-research/bert, one for one."""
