"""One file for each kind of model: facts, rows and targets of texts, and answers in NumPy."""
