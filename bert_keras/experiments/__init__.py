"""The paper's tables and figures as experiments, each from a corpus and task files to a report."""
