"""Tables of the paper as whole experiments: a corpus and task files in, one page of results out."""
